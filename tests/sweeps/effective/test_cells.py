"""Effective numbers cell by cell: intervals of a ratio against simulation, and pooled noise."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import special

from sweeps.effective.cells import cell_multipliers, pair_noise
from sweeps.effective.horizontal import Baseline
from sweeps.effective.slope import LogRatio, Slope, local_multiplier, slopes
from sweeps.fits.differences import Differences, differences
from sweeps.fits.fit import fit
from sweeps.fits.points import Points, make_points
from sweeps.fits.settings import Settings
from sweeps.laws.local_power import LocalPower
from tests.sweeps.fits.made_points import TRUTH, grid, noisy, surface

QUICK = Settings(law="chinchilla", resamples=200)


def test_a_small_gap_over_the_slope_is_the_multiplier() -> None:
    solution = fit(noisy(6, 6, 0.0005), label="bf16", settings=QUICK).solution
    assert solution is not None
    N, D = 2e8, 8e9
    by_N, by_D = slopes(solution, N, D)
    exact = {
        "N": -TRUTH["alpha"] * TRUTH["A"] / N ** TRUTH["alpha"],
        "D": -TRUTH["beta"] * TRUTH["B"] / D ** TRUTH["beta"],
    }
    assert by_N.value == pytest.approx(exact["N"], rel=0.05)
    assert by_D.value == pytest.approx(exact["D"], rel=0.05)
    assert by_D.low < exact["D"] < by_D.high
    one = np.array([1.0])
    gap = float((surface(N * one, 0.97 * D * one) - surface(N * one, D * one))[0])
    found = local_multiplier(gap, None, 0, by_D)
    assert isinstance(found, LogRatio)
    assert np.exp(found.value) == pytest.approx(0.97, abs=0.003)
    assert found.ends is None


@pytest.mark.parametrize(("df", "slope_df"), [(8, 100), (3, 2), (1, 1), (2, 1), (20, 3)])
def test_the_interval_of_a_ratio_covers_whatever_the_degrees(df: int, slope_df: int) -> None:
    random = np.random.default_rng(0)
    gap, se, slope, slope_se, held = 0.02, 0.002, -0.3, 0.004, []
    for _ in range(4000):
        scale, slope_scale = np.sqrt(random.chisquare([df, slope_df]) / [df, slope_df])
        best = random.normal(slope, slope_se)
        half = special.stdtrit(slope_df, 0.975) * slope_se * slope_scale
        found = local_multiplier(
            random.normal(gap, se),
            se * scale,
            df,
            Slope(value=best, low=best - half, high=best + half),
        )
        ends = found.ends if isinstance(found, LogRatio) else None
        # A slope that is not clearly below 0 has no interval to judge.
        if ends is not None:
            held.append(ends[0] <= np.exp(gap / slope) <= ends[1])
    assert len(held) > 3000
    assert 0.94 <= np.mean(held) <= 0.995


def test_slopes_of_t_draws_with_one_degree_have_the_interval_of_their_law() -> None:
    """Three runs of two sizes and more: the slope in N of the local law has few degrees."""
    N, D = grid(3, 4)
    runs = np.repeat(np.arange(3), 4)
    random = np.random.default_rng(3)
    losses = surface(N, D) * np.exp(0.0005 * random.normal(size=3)[runs])
    points = make_points(N, D, losses, groups=runs.astype(str).tolist())
    found = fit(points, label="bf16", settings=replace(QUICK, law="local power", resamples=20_000))
    assert found.solution is not None
    a = next(one for one in found.estimates if one.name == "a")
    assert a.value is not None
    assert a.low is not None
    assert a.high is not None
    middle = found.solution.law
    assert isinstance(middle, LocalPower)
    at_middle = slopes(found.solution, float(np.exp(middle.x0)), float(np.exp(middle.y0)))[0]
    level = -at_middle.value / a.value
    assert at_middle.low == pytest.approx(-a.high * level, rel=0.05)
    assert at_middle.high == pytest.approx(-a.low * level, abs=0.05 * a.high * level)


def test_a_large_gap_or_a_flat_slope_is_refused() -> None:
    assert "too large" in str(
        local_multiplier(0.2, None, 0, Slope(value=-0.3, low=-0.32, high=-0.28))
    )
    for slope in (
        Slope(value=-0.3, low=-0.7, high=0.1),
        Slope(value=0.1, low=0.1, high=0.1),
        Slope(value=-0.1, low=0.1, high=0.2),
    ):
        assert "does not clearly fall" in str(local_multiplier(0.01, None, 0, slope))


def seeded(seeds: int, noise: float) -> Points:
    """A grid with a gap of 0.02 and noise of the gap, seeds sharing a cell."""
    random = np.random.default_rng(1)
    N, D = grid(4, 4)
    rows = [
        (n, d, loss + (arm == "fp4") * (0.02 + random.normal(0, noise)), arm, f"{n} {seed}")
        for n, d, loss in zip(N, D, surface(N, D), strict=True)
        for seed in range(seeds)
        for arm in ("bf16", "fp4")
    ]
    columns = list(zip(*rows, strict=True))
    return make_points(*columns[:3], arms=columns[3], groups=columns[4])


def pairs_of(points: Points) -> Differences:
    return differences(points, "fp4")


def test_noise_is_pooled_over_cells_and_falls_back_on_the_law() -> None:
    repeated = pair_noise(pairs_of(seeded(3, 0.004)), 0.1, 10)
    assert repeated is not None
    assert repeated.sd == pytest.approx(0.004, rel=0.3)
    assert repeated.df == 32
    single = pairs_of(seeded(1, 0.004))
    by_law = pair_noise(single, 0.0037, 13)
    assert by_law is not None
    assert (by_law.sd, by_law.df) == (0.0037, 13)
    assert "law" in by_law.over
    assert pair_noise(single, None, 0) is None


def test_every_cell_has_its_mean_gap_and_four_readings_of_it() -> None:
    points = seeded(3, 0.001)
    reference = make_points(*(axis[points.arm == 0] for axis in (points.N, points.D, points.loss)))
    solution = fit(reference, label="bf16", settings=QUICK).solution
    pairs = pairs_of(points)
    noise = pair_noise(pairs, None, 0)
    found = cell_multipliers(pairs, Baseline.of(reference), solution, noise)
    N, D = grid(4, 4)
    assert [(cell.N, cell.D) for cell in found] == list(zip(N, D, strict=True))
    assert all(cell.n == 3 for cell in found)
    inner = found[10]
    for number in (inner.horizontal_D, inner.horizontal_N, inner.slope_D, inner.slope_N):
        assert number.value is not None
        assert number.low is not None
        assert number.high is not None
        assert number.low < number.value < number.high < 1
    assert inner.horizontal_D.value == pytest.approx(inner.slope_D.value, rel=0.1)
    first = found[0]
    assert first.horizontal_D.value is None
    assert "leads out" in first.horizontal_D.reason


def test_without_a_law_or_a_repeat_the_reason_is_said() -> None:
    points = seeded(1, 0.0)
    reference = make_points(*(axis[points.arm == 0] for axis in (points.N, points.D, points.loss)))
    cell = cell_multipliers(pairs_of(points), Baseline.of(reference), None, None)[10]
    assert cell.slope_D.value is None
    assert "no law" in cell.slope_D.reason
    assert cell.horizontal_D.value is not None
    assert cell.horizontal_D.low is None
    assert cell.horizontal_D.reason == "one pair has no interval"
