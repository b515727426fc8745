"""How often verdicts are wrong and intervals cover, in simulated sweeps of unlike models."""

from collections.abc import Sequence

import numpy as np
import pytest

from sweeps.claims.judge import Verdict, verdict_on
from sweeps.claims.parts import judged
from sweeps.claims.statement import parse_statement
from tests.sweeps.claims.made_sweeps import strata_of

SWEEPS = 1000
NOISE = (4.0, 2.0, 1.0)
"""Small models are the noisiest."""


def draws(
    means: Sequence[float], seeds: Sequence[int], random: np.random.Generator
) -> list[np.ndarray]:
    """The contrast in each seed of each model."""
    return [
        random.normal(mean, sd, number)
        for mean, sd, number in zip(means, NOISE, seeds, strict=True)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [(3, 3, 3), (6, 6, 6), (5, 6, 6)])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_the_interval_of_the_mean_covers_though_the_models_differ_in_noise(seeds, level):
    random, statement = np.random.default_rng(0), parse_statement("gap(a) < 0")
    covered = 0
    for _ in range(SWEEPS):
        found = judged(strata_of(draws((0.3, -0.1, 0.1), seeds, random)), statement, level).estimate
        assert found is not None
        covered += found.low <= 0.1 <= found.high
    assert abs(covered / SWEEPS - level) < 0.025


def share(verdict: Verdict, means: tuple[float, ...], random: np.random.Generator) -> float:
    """Of sweeps in which a claim about each model gets this verdict at 95 %."""
    statement = parse_statement("gap(a) < 0")
    found = 0
    for _ in range(SWEEPS):
        groups = strata_of(draws(means, (4, 4, 4), random))
        parts = [judged((group,), statement, 0.95) for group in groups]
        found += verdict_on(parts, 0.95) is verdict
    return found / SWEEPS


@pytest.mark.slow
def test_a_claim_about_each_model_is_seldom_supported_when_it_fails_at_one():
    # At the boundary in one model and far inside in the others: the least favourable falsehood.
    random = np.random.default_rng(1)
    assert share(Verdict.SUPPORTED, (0.0, -30.0, -30.0), random) <= 0.025 + 0.012


@pytest.mark.slow
def test_a_true_claim_about_each_model_is_seldom_contradicted_though_there_are_three():
    # At the boundary everywhere, where each model alone would contradict in 2.5 % of sweeps.
    random = np.random.default_rng(2)
    assert share(Verdict.CONTRADICTED, (0.0, 0.0, 0.0), random) <= 0.025 + 0.012
