"""Effective numbers cell by cell: the delta method against simulation, and pooled noise."""

import numpy as np
import pytest

from sweeps.effective.cells import cell_multipliers, pair_noise
from sweeps.effective.horizontal import Baseline
from sweeps.effective.slope import LogRatio, Slope, local_multiplier, slopes
from sweeps.fits.differences import Differences, differences
from sweeps.fits.fit import fit
from sweeps.fits.points import Points, make_points
from sweeps.fits.settings import Settings
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
    assert abs(by_D.value - exact["D"]) < 4 * by_D.se
    one = np.array([1.0])
    gap = float((surface(N * one, 0.97 * D * one) - surface(N * one, D * one))[0])
    found = local_multiplier(gap, None, 0, by_D)
    assert isinstance(found, LogRatio)
    assert np.exp(found.value) == pytest.approx(0.97, abs=0.003)
    assert found.ends() is None


def test_the_standard_error_is_that_of_drawn_gaps_and_slopes() -> None:
    random = np.random.default_rng(0)
    gap, se, slope = 0.02, 0.002, Slope(value=-0.3, se=0.02)
    found = local_multiplier(gap, se, 8, slope)
    assert isinstance(found, LogRatio)
    drawn = random.normal(gap, se, 100_000) / random.normal(slope.value, slope.se, 100_000)
    assert found.se == pytest.approx(drawn.std(), rel=0.03)
    low, high = found.ends() or (0.0, 0.0)
    # t with 8 degrees: 2.306
    assert np.log(high / low) == pytest.approx(2 * 2.306 * drawn.std(), rel=0.03)


def test_a_large_gap_or_a_flat_slope_is_refused() -> None:
    assert "too large" in str(local_multiplier(0.2, None, 0, Slope(value=-0.3, se=0.01)))
    assert "not clearly below 0" in str(local_multiplier(0.01, None, 0, Slope(value=-0.3, se=0.2)))
    assert "not clearly below 0" in str(local_multiplier(0.01, None, 0, Slope(value=0.1, se=0.0)))


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
