"""Intervals of a mean: against scipy, against hand computation, and how often they hold."""

from math import sqrt

import numpy as np
import pytest
from scipy import stats

from sweeps.errors import InputError
from sweeps.intervals import (
    LEAST_RESIDUALS,
    bootstrap_interval,
    check_level,
    mean_of_groups,
    pooled_noise,
    t_interval,
)


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_the_t_interval_is_that_of_a_one_sample_t_test(level: float) -> None:
    values = np.random.default_rng(0).normal(0.02, 0.01, 7)
    ends = stats.ttest_1samp(values, 0).confidence_interval(level)
    assert t_interval(values, level) == pytest.approx((ends.low, ends.high))


@pytest.mark.parametrize("values", [[], [0.1]])
def test_fewer_than_two_values_have_no_interval(values: list[float]) -> None:
    assert t_interval(np.array(values)) is None


def test_single_values_have_no_noise_in_common() -> None:
    assert pooled_noise([np.array([1.0]), np.array([3.0])]) is None
    assert pooled_noise([]) is None


def test_groups_are_averaged_first_and_their_noise_is_pooled() -> None:
    mean = mean_of_groups([np.array([1.0, 3.0]), np.array([10.0]), np.array([4.0, 5.0, 9.0])])
    squares, df = 2 * 1.0 + (4.0 + 1.0 + 9.0), 1 + 2
    assert mean.value == pytest.approx((2 + 10 + 6) / 3)
    assert mean.sd == pytest.approx(sqrt(squares / df))
    assert mean.se == pytest.approx(sqrt(squares / df) * sqrt(1 / 2 + 1 + 1 / 3) / 3)
    assert (mean.df, mean.n, mean.n_groups) == (df, 6, 3)


def test_how_far_groups_lie_apart_does_not_widen_an_interval_over_repeats() -> None:
    near = [np.array([0.0, 1.0, 2.0]), np.array([0.5, 1.5, 0.0])]
    far = [near[0], near[1] + 1000]
    widths = [np.diff(mean_of_groups(groups).interval() or ())[0] for groups in (near, far)]
    assert widths[0] == pytest.approx(widths[1])


def test_single_values_in_every_group_leave_the_error_open() -> None:
    mean = mean_of_groups([np.array([1.0]), np.array([3.0])])
    assert (mean.value, mean.se, mean.sd, mean.df) == (2.0, None, None, 0)
    assert mean.interval() is None


def test_the_bootstrap_is_the_same_for_the_same_seed_and_moves_with_the_values() -> None:
    groups = [np.random.default_rng(k).normal(0, 1, 4) for k in range(3)]
    ends = bootstrap_interval(groups, seed=3)
    assert ends == bootstrap_interval(groups, seed=3) != bootstrap_interval(groups, seed=4)
    moved = bootstrap_interval([7 + 2 * group for group in groups], seed=3)
    assert ends is not None
    assert moved == pytest.approx((7 + 2 * ends[0], 7 + 2 * ends[1]))


def test_seeds_that_mostly_agree_to_the_last_digit_have_a_finite_bootstrap_interval() -> None:
    groups = [np.full(8, 0.01), np.array([0.02, 0.02, 0.03])]
    ends = bootstrap_interval(groups)
    assert ends is not None
    low, high = ends
    assert low < mean_of_groups(groups).value < high
    assert high - low < 0.02


def test_too_few_repeats_have_no_bootstrap_interval() -> None:
    few = np.arange(LEAST_RESIDUALS - 1.0)
    assert bootstrap_interval([few]) is None
    assert bootstrap_interval([few, np.array([3.0])]) is None
    assert bootstrap_interval([np.arange(float(LEAST_RESIDUALS))]) is not None


def test_values_that_do_not_vary_have_an_interval_of_no_width() -> None:
    assert bootstrap_interval([np.full(4, 0.25), np.full(4, 0.75)]) == (0.5, 0.5)


def test_with_many_skewed_values_the_bootstrap_agrees_with_scipys_bca() -> None:
    values = np.random.default_rng(5).exponential(1.0, 400)
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=4999, rng=np.random.default_rng(0)
    ).confidence_interval
    ours = bootstrap_interval([values])
    width = theirs.high - theirs.low
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.06 * width)


def hits(groups: int, repeats: int, draw: str, rounds: int) -> tuple[float, float]:
    """Share of data sets whose t and bootstrap intervals hold the true mean of zero."""
    random = np.random.default_rng(11)
    found = np.zeros(2)
    for seed in range(rounds):
        noise = random.standard_normal((groups, repeats))
        if draw == "skewed":
            noise = random.exponential(1.0, (groups, repeats)) - 1
        data = list(noise + np.linspace(-3, 3, groups)[:, None] * (groups > 1))
        ends = (mean_of_groups(data).interval(), bootstrap_interval(data, seed=seed, draws=499))
        found += [one is not None and one[0] <= 0 <= one[1] for one in ends]
    return found[0] / rounds, found[1] / rounds


@pytest.mark.parametrize(("groups", "repeats"), [(1, 6), (3, 3), (3, 6)])
def test_both_intervals_hold_the_truth_in_about_95_of_100_data_sets(
    groups: int, repeats: int
) -> None:
    t, bootstrap = hits(groups, repeats, "normal", 600)
    assert 0.92 <= t <= 0.98
    assert 0.92 <= bootstrap <= 0.98


def test_under_skewed_noise_the_bootstrap_holds_more_often_than_the_t_interval() -> None:
    t, bootstrap = hits(1, 10, "skewed", 600)
    assert t < bootstrap
    assert bootstrap > 0.91


@pytest.mark.parametrize("level", [0.5, 0.99995, 1 - 2**-53, 1.0, 95.0, -1.0, float("nan")])
def test_a_level_that_is_none_is_refused_with_its_value(level: float) -> None:
    with pytest.raises(InputError, match=f"level = {level}"):
        check_level(level)
