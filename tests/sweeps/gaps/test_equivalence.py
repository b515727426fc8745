"""Equivalence: against scipy's one-sided tests, and what each verdict means."""

from math import sqrt

import numpy as np
import pytest
from scipy import stats

from sweeps.errors import InputError
from sweeps.gaps.equivalence import Equivalence, Verdict, tost


def of(values: np.ndarray, margin: float = 0.01, level: float = 0.95) -> Equivalence:
    n = len(values)
    return tost(float(values.mean()), float(values.std(ddof=1)) / sqrt(n), n - 1, margin, level)


@pytest.mark.parametrize("mean", [-0.012, 0.0, 0.004, 0.011])
def test_both_tests_are_scipys_one_sided_t_tests(mean: float) -> None:
    values = np.random.default_rng(1).normal(mean, 0.004, 6)
    low = stats.ttest_1samp(values, -0.01, alternative="greater").pvalue
    high = stats.ttest_1samp(values, 0.01, alternative="less").pvalue
    found = of(values)
    assert found.p == pytest.approx(max(low, high))
    assert found.p_no_worse == pytest.approx(high)


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_it_is_within_the_margin_exactly_when_both_tests_refute(level: float) -> None:
    random = np.random.default_rng(2)
    for _ in range(200):
        found = of(random.normal(0.006, 0.004, 5), level=level)
        assert (found.verdict is Verdict.EQUIVALENT) == (found.p < 1 - level)
        assert (found.p_no_worse < 1 - level) == (
            found.verdict in (Verdict.EQUIVALENT, Verdict.NO_WORSE)
        )


@pytest.mark.parametrize(
    ("mean", "se", "verdict"),
    [
        (0.002, 0.001, Verdict.EQUIVALENT),
        (-0.012, 0.001, Verdict.NO_WORSE),
        (-0.009, 0.003, Verdict.NO_WORSE),
        (0.015, 0.001, Verdict.WORSE),
        (0.009, 0.003, Verdict.UNDECIDED),
        (0.0, 0.02, Verdict.UNDECIDED),
        (0.0, 0.0, Verdict.EQUIVALENT),
        (0.02, 0.0, Verdict.WORSE),
    ],
)
def test_the_verdict_says_where_the_gap_lies(mean: float, se: float, verdict: Verdict) -> None:
    assert tost(mean, se, 10).verdict is verdict


def test_noise_alone_is_seldom_called_equivalent() -> None:
    """A gap on the margin passes in 5 of 100 cases at most, whatever the noise."""
    random = np.random.default_rng(3)
    for sd in (0.001, 0.004, 0.02):
        data = random.normal(0.01, sd, (1000, 5))
        passed = [of(values).verdict is Verdict.EQUIVALENT for values in data]
        assert np.mean(passed) < 0.065


@pytest.mark.parametrize("margin", [0.0, -0.01, float("nan"), float("inf")])
def test_a_margin_that_is_none_is_refused_with_its_value(margin: float) -> None:
    with pytest.raises(InputError, match=f"margin = {margin}"):
        tost(0.0, 0.001, 5, margin)
