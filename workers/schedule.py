"""The learning rate: linear warm-up, then a stable phase with cooldowns (WSD), or a cosine.

    warm = min(1, (tokens + batch) / warm-up)
    wsd      rate = peak * warm                                         on the trunk
             rate = peak * warm * (f + (1 - f) * (D - tokens) / (D - branch))    in D's cooldown
    cosine   rate = peak * warm * (f + (1 - f) * (1 + cos(pi * p)) / 2)
             p = (tokens - warm-up) / (D - warm-up), at least 0

`tokens` were seen before the step that the rate is for, so the first step has a rate above zero,
the step that completes the warm-up has the peak, the first step after that or of a cooldown too,
and the last one is one step above the final rate f * peak, which holds beyond D.

Source: Hu et al. (arXiv 2404.06395); Hägele et al. (arXiv 2405.18392); for the cosine Loshchilov
and Hutter (arXiv 1608.03983), without restarts.
"""

import math

from sweeps.runspec import RunSpec
from sweeps.training import Schedule, Training


def learning_rate(spec: RunSpec, tokens: int, horizon: int | None) -> float:
    """Rate of the step that starts at `tokens`, on the trunk or in the branch of a horizon."""
    training = spec.training
    seen = tokens + training.batch_tokens
    rate = training.learning_rate
    if seen < training.warmup_tokens:
        rate *= seen / training.warmup_tokens
    if horizon is None:
        return rate
    final = training.final_rate
    return rate * (final + (1 - final) * _height(training, tokens, horizon))


def _height(training: Training, tokens: int, horizon: int) -> float:
    """Where the rate of a horizon stands between the final one, 0, and the peak, 1."""
    left = max(0, horizon - tokens)
    match training.schedule:
        case Schedule.WSD:
            return left / (horizon - training.branch_tokens(horizon))
        case Schedule.COSINE:
            arc = horizon - training.warmup_tokens
            return 1.0 if left >= arc else (1 - math.cos(math.pi * left / arc)) / 2
