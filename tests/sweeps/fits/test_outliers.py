"""Points far from the law: flagged, kept, and the constants told without them too."""

import numpy as np
import pytest

from sweeps.fits.fit import fit
from sweeps.fits.outliers import outliers, robust_noise
from sweeps.fits.points import Points, make_points
from sweeps.fits.settings import Settings
from sweeps.laws.joint import Effect
from tests.sweeps.fits.made_points import noisy
from tests.sweeps.fits.public_data import column, public_rows

CHINCHILLA = Settings(law="chinchilla", resamples=100)


def spoilt(row: int, factor: float) -> Points:
    clean = noisy(5, 6, 0.002)
    loss = clean.loss.copy()
    loss[row] *= factor
    return make_points(clean.N, clean.D, loss)


def test_robust_noise_is_the_standard_deviation_of_normal_residuals() -> None:
    residuals = np.random.default_rng(0).normal(0, 0.01, 4000)
    assert robust_noise(residuals, 0) == pytest.approx(0.01, rel=0.05)
    residuals[:400] = 5.0
    assert robust_noise(residuals, 0) == pytest.approx(0.01, rel=0.2)


def test_points_that_a_fit_passes_through_say_nothing_of_the_noise() -> None:
    residuals = np.array([0.0, 3.0, 0.0, -1.0, 2.0])
    assert robust_noise(residuals, 2) == pytest.approx(1.4826 * 2)
    assert robust_noise(residuals, 0) == pytest.approx(1.4826 * 1)
    assert robust_noise(residuals, 9) == pytest.approx(1.4826 * 3)


def test_only_what_lies_beyond_four_deviations_is_flagged_furthest_first() -> None:
    points = noisy(2, 3, 0.01)
    residuals = np.array([0.1, -3.9, 4.1, -9.0, 0.0, 2.0])
    found = outliers(points, residuals, 1.0)
    assert [one.residual for one in found] == [-9.0, 4.1]
    assert [one.loss for one in found] == [points.loss[3], points.loss[2]]


def test_rounding_of_exact_losses_is_no_outlier() -> None:
    points = noisy(2, 3, 0.01)
    assert outliers(points, np.array([1e-12, 0, 0, 0, 0, 0]), 1e-14) == ()


def test_an_outlier_is_told_kept_and_left_out_of_a_second_fit() -> None:
    found = fit(spoilt(17, 1.05), label="x", settings=CHINCHILLA)
    (outlier,) = found.outliers
    assert outlier.row == 17
    assert outlier.residual < -4
    assert found.n_points == 30
    with_it, without = (
        {one.name: one.value for one in side} for side in (found.estimates, found.without_outliers)
    )
    clean = noisy(5, 6, 0.002)
    kept = np.arange(30) != 17
    assert found.solution is not None
    settings = Settings(law="chinchilla", resamples=100, delta=found.solution.delta)
    alone = fit(
        make_points(clean.N[kept], clean.D[kept], clean.loss[kept]), label="x", settings=settings
    )
    for one in alone.estimates:
        assert without[one.name] == pytest.approx(one.value, rel=1e-5)
        assert without[one.name] != with_it[one.name]
    (line,) = (line for line in found.verdict if "robust standard deviations" in line)
    assert "1 of 30 points lies" in line
    assert "is fitted all the same" in line
    assert "without it E = " in line


def test_a_fit_without_outliers_has_no_second_fit() -> None:
    found = fit(noisy(5, 6, 0.002, seed=1), label="x", settings=CHINCHILLA)
    assert (found.outliers, found.without_outliers) == ((), ())


def test_the_odd_public_run_is_flagged() -> None:
    rows = [
        row
        for row in public_rows("quartet_formats.csv")
        if row["bwd_format"] == "BF16" and row["fwd_format"] in ("BF16", "AlbertTsengQuantizer")
    ]
    points = make_points(
        *(column(rows, name) for name in ("N", "D", "loss")),
        arms=[row["fwd_format"] for row in rows],
        reference="BF16",
    )
    settings = Settings(law="gamma", effects=(Effect.D,), resamples=100)
    found = fit(points, label="forward", settings=settings)
    (outlier,) = found.outliers
    assert (outlier.arm, outlier.loss) == ("AlbertTsengQuantizer", 3.38471)
    assert rows[outlier.row]["steps"] == "91552"
    assert any("AlbertTsengQuantizer, N = 3.05e+07" in line for line in found.verdict)
