"""Power: against published sample sizes, scipy where it has a number, and simulation."""

from math import sqrt

import numpy as np
import pytest
from scipy import stats

from sweeps.errors import InputError
from sweeps.gaps.power import (
    MOST_PAIRS,
    detectable,
    pairs_for_half_width,
    pairs_needed,
    resolution,
)


@pytest.mark.parametrize(("effect", "pairs"), [(0.2, 199), (0.5, 34), (0.8, 15)])
def test_cohens_small_medium_and_large_effects_need_the_published_pairs(
    effect: float, pairs: int
) -> None:
    assert pairs_needed(1.0, effect) == pairs
    assert pairs_needed(1.0, -effect) == pairs


@pytest.mark.parametrize(
    ("sigma", "gap", "half", "four_fifths"),
    [
        (0.00125, 0.01, 3, 2),
        (0.00125, 0.005, 3, 3),
        (0.00125, 0.002, 6, 4),
        (0.00125, 0.001, 15, 8),
        (0.0025, 0.01, 3, 3),
        (0.0025, 0.002, 15, 8),
        (0.005, 0.01, 5, 4),
        (0.005, 0.005, 10, 6),
        (0.0025, 0.005, 5, 4),
    ],
)
def test_pairs_of_runs_with_a_known_correlation_are_those_of_the_tabled_simulation(
    sigma: float, gap: float, half: int, four_fifths: int
) -> None:
    for rho, pairs in ((0.5, half), (0.8, four_fifths)):
        assert pairs_needed(sigma * sqrt(2 * (1 - rho)), gap) == pairs


@pytest.mark.parametrize("df", [4, 5, 11, 40])
@pytest.mark.parametrize("power", [0.5, 0.8, 0.95])
def test_the_resolution_has_its_power_under_scipys_non_central_t(df: int, power: float) -> None:
    shift, edge = resolution(df, 0.95, power), stats.t.ppf(0.975, df)
    found = stats.nct.sf(edge, df, shift) + stats.nct.cdf(-edge, df, shift)
    assert found == pytest.approx(power, abs=1e-5)


def test_many_degrees_give_the_normal_resolution() -> None:
    normal = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    assert resolution(10**6) == pytest.approx(normal, abs=1e-4)


@pytest.mark.parametrize(("pairs", "groups"), [(2, 1), (3, 1), (6, 1), (3, 3), (2, 6)])
def test_a_detectable_gap_is_found_in_four_of_five_simulated_sweeps(
    pairs: int, groups: int
) -> None:
    sd, rounds = 0.004, 20_000
    gap = detectable(sd, pairs, groups=groups)
    assert gap is not None
    data = np.random.default_rng(2).normal(gap, sd, (rounds, groups, pairs))
    pooled = np.sqrt(data.var(axis=2, ddof=1).mean(axis=1))
    t = data.mean(axis=(1, 2)) / (pooled / sqrt(groups * pairs))
    found = np.mean(np.abs(t) > stats.t.ppf(0.975, groups * (pairs - 1)))
    assert found == pytest.approx(0.8, abs=0.012)


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("gap", [0.001, 0.004, 0.02])
def test_the_pairs_needed_detect_the_gap_and_one_less_does_not(gap: float, groups: int) -> None:
    pairs = pairs_needed(0.003, gap, groups=groups)
    assert pairs is not None
    enough, less = (detectable(0.003, n, groups=groups) for n in (pairs, pairs - 1))
    assert enough is not None
    assert enough <= gap
    assert less is None or less > gap


@pytest.mark.parametrize("groups", [1, 3])
def test_the_pairs_for_a_width_reach_it_and_one_less_does_not(groups: int) -> None:
    def half(pairs: int) -> float:
        edge = stats.t.ppf(0.975, groups * (pairs - 1))
        return float(edge * 0.003 / sqrt(groups * pairs))

    pairs = pairs_for_half_width(0.003, 0.001, groups=groups)
    assert pairs is not None
    assert half(pairs) <= 0.001 < half(pairs - 1)


def test_one_pair_detects_nothing_and_no_number_of_pairs_tells_zero_from_zero() -> None:
    assert detectable(0.003, 1) is None
    assert pairs_needed(0.003, 0.0) is None
    assert pairs_for_half_width(0.003, 0.0) is None


def test_a_gap_beyond_the_reach_of_any_sweep_has_no_number() -> None:
    assert pairs_needed(1.0, 1e-6) is None
    assert pairs_for_half_width(1.0, 1e-6) is None
    assert (pairs_needed(1.0, 0.01) or MOST_PAIRS) < MOST_PAIRS


def test_without_noise_two_pairs_are_enough() -> None:
    assert pairs_needed(0.0, 1e-9) == 2
    assert detectable(0.0, 2) == 0.0


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (lambda: detectable(-1.0, 3), "sd = -1.0"),
        (lambda: detectable(float("nan"), 3), "sd = nan"),
        (lambda: pairs_needed(1.0, 1.0, level=1.5), "level = 1.5"),
        (lambda: pairs_needed(1.0, 1.0, power=0.0), "power = 0.0"),
        (lambda: resolution(0), "df = 0"),
        (lambda: resolution(3, 0.95, 0.04), "power = 0.04"),
        (lambda: pairs_for_half_width(1.0, 1.0, level=0.0), "level = 0.0"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_value(question, words: str) -> None:
    with pytest.raises(InputError, match=words):
        question()
