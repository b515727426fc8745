"""The learning rate: linear warm-up, a stable phase, linear decay to zero (WSD).

    rate = peak * min(1, (tokens + batch) / warm-up)                        on the trunk
    rate = the above * (horizon - tokens) / (horizon - branch)              in a cooldown branch

`tokens` were seen before the step that the rate is for, so the first step has a rate above zero,
the step that completes the warm-up has the peak, the first cooldown step too, and the last one is
one step above zero; beyond the horizon it is zero.

Source: Hu et al. (arXiv 2404.06395); Hägele et al. (arXiv 2405.18392).
"""

from sweeps.runspec import RunSpec


def learning_rate(spec: RunSpec, tokens: int, horizon: int | None) -> float:
    """Rate of the step that starts at `tokens`, on the trunk or in the branch of a horizon."""
    training = spec.training
    seen = tokens + training.batch_tokens
    rate = training.learning_rate
    if seen < training.warmup_tokens:
        rate *= seen / training.warmup_tokens
    if horizon is not None:
        rate *= max(0, horizon - tokens) / (horizon - spec.branch_tokens(horizon))
    return rate
