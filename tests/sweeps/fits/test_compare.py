"""Comparing forms: criteria by hand, sizes left out, and which form is chosen."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import special, stats

from sweeps.errors import InputError
from sweeps.fits.compare import choose, compare
from sweeps.fits.evidence import Criteria
from sweeps.fits.fit import fit
from sweeps.fits.forms import form, part
from sweeps.fits.points import make_points
from sweeps.fits.search import optimize
from sweeps.fits.settings import Settings
from sweeps.fits.target import loss_target
from sweeps.laws.chinchilla import Chinchilla
from sweeps.laws.law import Array, at, loss
from tests.sweeps.fits.given import given
from tests.sweeps.fits.made_points import grid, noisy, surface
from tests.sweeps.fits.public_data import column, public_rows

SQUARES = Settings(delta=float("inf"), resamples=100)
ROBUST = Settings(delta=1e-3, resamples=100)


def criteria(law: str, constants: int, held_out: float | None, aicc: float = 0.0) -> Criteria:
    return Criteria(
        law=law,
        n_constants=constants,
        n_points=20,
        objective=1.0,
        rms=0.01,
        aicc=aicc,
        bic=aicc,
        held_out=held_out,
        held_out_se=None if held_out is None else 0.001,
        rolling=(),
    )


def test_with_squares_the_criteria_are_those_of_normal_errors() -> None:
    points = noisy(5, 5, 0.004)
    (found,) = compare(points, ["chinchilla"], SQUARES)
    n, k = 25, 6
    # At its maximum the normal log-likelihood is -n / 2 (ln(2 pi rms^2) + 1); the constant
    # n ln(2 pi) is left out of all criteria alike.
    deviance = -2 * stats.norm.logpdf(0, scale=found.rms) * n + n - n * np.log(2 * np.pi)
    assert found.aicc == pytest.approx(deviance + 2 * k + 2 * k * (k + 1) / (n - k - 1))
    assert found.bic == pytest.approx(deviance + k * np.log(n))
    assert (found.n_constants, found.n_points) == (5, 25)


def test_with_a_threshold_they_are_those_of_hubers_density_at_its_best_scale() -> None:
    points = noisy(6, 8, 0.004)
    (found,) = compare(points, ["chinchilla"], ROBUST)
    law = Chinchilla.about(points.where)
    target = loss_target(law, points)
    best = optimize(target, law.starts(points.where, points.loss), delta=1e-3)
    residuals = target.residuals(best.theta)
    scales = np.geomspace(1e-4, 1e-1, 20001)[:, None]
    losses = special.huber(1.345, residuals / scales).sum(axis=1)
    deviance = (2 * 48 * np.log(scales[:, 0]) + 2 * losses).min()
    assert found.bic == pytest.approx(deviance + 6 * np.log(48), abs=1e-4)


def test_the_threshold_of_the_search_hardly_moves_the_criteria() -> None:
    points = noisy(6, 8, 0.004)
    scores = [
        given(compare(points, ["chinchilla"], replace(ROBUST, delta=delta))[0].aicc)
        for delta in (1e-4, 1e-3, 1e-2)
    ]
    assert max(scores) - min(scores) < 6


def test_the_held_out_error_is_that_of_a_fit_which_never_saw_the_size() -> None:
    points = noisy(5, 5, 0.004)
    (found,) = compare(points, ["chinchilla"], ROBUST)
    seen, unseen = (part(points, mask) for mask in (points.N < 1e9, points.N == 1e9))
    law = Chinchilla.about(seen.where)
    target = loss_target(law, seen)
    best = optimize(target, law.starts(seen.where, seen.loss), delta=1e-3)
    ratio = loss(law, best.theta, at(unseen.N, unseen.D)) / unseen.loss - 1
    assert found.held_out == pytest.approx(np.sqrt(np.mean(ratio**2)), rel=1e-6)
    assert [test.N for test in found.rolling] == pytest.approx(np.unique(points.N)[3:])
    assert [test.n_fitted for test in found.rolling] == [15, 20]
    assert found.rolling[-1].error == found.held_out


def test_sizes_that_lie_close_are_left_out_together() -> None:
    N, D = grid(5, 5)
    largest = N == N.max()
    beside = np.concatenate([N, 1.05 * N[largest]]), np.concatenate([D, D[largest]])
    points = make_points(*beside, surface(*beside) * (1 + 1e-4 * np.sin(np.arange(30))))
    (found,) = compare(points, ["chinchilla"], ROBUST)
    assert [test.n_predicted for test in found.rolling] == [5, 10]


def test_three_sizes_leave_none_to_hold_out() -> None:
    (found,) = compare(noisy(3, 6, 0.004), ["chinchilla"], ROBUST)
    assert (found.held_out, found.rolling) == (None, ())


def test_exact_losses_are_predicted_exactly() -> None:
    N, D = grid(5, 5)
    (found,) = compare(make_points(N, D, surface(N, D)), ["chinchilla"], SQUARES)
    assert found.held_out == pytest.approx(0, abs=1e-6)


def test_the_least_held_out_error_wins() -> None:
    tried = [
        criteria("tied", 4, 0.02),
        criteria("chinchilla", 5, 0.01),
        criteria("gamma", 6, 0.013),
    ]
    assert choose(tried) == "chinchilla"


def test_within_a_standard_error_the_fewer_constants_win() -> None:
    tried = [criteria("tied", 4, 0.0109), criteria("gamma", 6, 0.01)]
    assert choose(tried) == "tied"


def test_a_form_that_aicc_speaks_against_is_no_tie() -> None:
    tried = [criteria("tied", 4, 0.0109, aicc=5.0), criteria("gamma", 6, 0.01)]
    assert choose(tried) == "gamma"


def test_what_aicc_rejects_sets_no_limit_for_the_others() -> None:
    """Tied predicts best and is rejected; Chinchilla is as good as gamma with a constant less."""
    tried = [
        criteria("tied", 4, 0.0027, aicc=11.0),
        criteria("chinchilla", 5, 0.0038, aicc=0.0),
        criteria("gamma", 6, 0.00365, aicc=5.8),
    ]
    assert choose(tried) == "chinchilla"


def test_without_a_size_to_leave_out_aicc_decides_and_less_than_two_is_nothing() -> None:
    gamma = criteria("gamma", 6, None)
    assert choose([criteria("tied", 4, None, aicc=1.9), gamma]) == "tied"
    assert choose([criteria("tied", 4, None, aicc=2.1), gamma]) == "gamma"


def test_auto_reports_a_form_near_the_truth_and_lists_the_others() -> None:
    truth = {"E": 1.8, "A": 480.0, "B": 25000.0, "alpha": 0.35, "beta": 0.48}
    N, D = grid(6, 6)
    noise = np.random.default_rng(2).normal(0, 0.001, 36)
    points = make_points(N, D, surface(N, D, truth) * np.exp(noise))
    found = fit(points, label="x", settings=Settings(resamples=100))
    assert found.law_name == "chinchilla"
    assert found.criteria is not None
    assert {one.law for one in found.rivals} == {"tied", "gamma"}
    assert any("left out of the fit: tied" in line for line in found.verdict)


def test_a_form_asked_for_by_name_is_kept_whatever_the_others_do() -> None:
    settings = Settings(law="tied", resamples=100)
    found = fit(noisy(6, 6, 0.001), label="x", settings=settings)
    assert found.law_name == "tied"
    assert any("the tied form was asked for" in line for line in found.verdict)


def test_public_bf16_runs_choose_the_bent_surface_and_by_far() -> None:
    rows = [
        row
        for row in public_rows("quartet_formats.csv")
        if (row["fwd_format"], row["bwd_format"]) == ("BF16", "BF16")
    ]
    points = make_points(*(column(rows, name) for name in ("N", "D", "loss")))
    tried = compare(points, ["tied", "chinchilla", "gamma"], Settings())
    error = {one.law: given(one.held_out) for one in tried}
    assert choose(tried) == "gamma"
    assert all(error["gamma"] < other / 3 for other in (error["tied"], error["chinchilla"]))
    aicc = {one.law: given(one.aicc) for one in tried}
    assert aicc["gamma"] < aicc["chinchilla"] - 20


def test_an_unknown_law_is_refused_with_the_nearest_name() -> None:
    points = noisy(4, 4, 0.001)
    with pytest.raises(InputError, match=r"law = 'chinchila': .* did you mean chinchilla\?"):
        form("chinchila", points, ())


def test_a_part_of_points_counts_its_cells_and_clusters_from_zero() -> None:
    N, D = grid(4, 3)
    rows: Array = surface(N, D)
    points = make_points(N, D, rows, groups=[str(size) for size in N])
    kept = part(points, points.N > 1e8)
    assert kept.cell.tolist() == list(range(6))
    assert kept.cluster.tolist() == [0, 0, 0, 1, 1, 1]
    assert kept.row.tolist() == points.row[points.N > 1e8].tolist()
