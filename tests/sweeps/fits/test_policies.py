"""What a fit does with runs that are absent, and with a law that is asked for by name."""

from dataclasses import replace

import numpy as np
import pytest

from sweeps.errors import InputError
from sweeps.fits.evidence import Absence, Excluded
from sweeps.fits.fit import fit, refuse
from sweeps.fits.points import Points, make_points
from sweeps.fits.result import Fit, Method, Status, curve
from sweeps.fits.settings import METHOD_VERSION, Diverged, Settings
from sweeps.fits.target import Residual
from sweeps.laws.joint import Effect
from tests.sweeps.fits.given import given
from tests.sweeps.fits.made_points import grid, noisy, surface
from tests.sweeps.fits.public_data import column, public_rows

QUICK = Settings(resamples=100)


def absent(N: float, tokens: float, reason: str = Absence.DIVERGED) -> Excluded:
    return Excluded(label=f"run at {N:.0e}", N=N, tokens=tokens, arm="ufp4", reason=reason)


def quick(points: Points, *excluded: Excluded, settings: Settings = QUICK) -> Fit:
    return fit(points, label="ufp4", settings=settings, excluded=excluded)


def test_left_out_a_diverged_run_leaves_its_cell_to_the_others_and_is_told() -> None:
    points = noisy(4, 4, 0.002)
    found = quick(points, absent(points.N[0], points.D[0]), absent(5e8, 1e9, "unfinished"))
    assert found.n_cells == 16
    assert len(found.excluded) == 2
    (line,) = (line for line in found.verdict if line.startswith("Not fitted"))
    assert "1 diverged and 1 unfinished" in line
    assert "their cells stay in the fit (policy: leave out)" in line


def test_dropped_with_its_cell_it_takes_every_arm_of_it_along() -> None:
    N, D = grid(4, 4)
    losses = np.concatenate([surface(N, D), surface(0.6 * N, D)])
    noise = np.random.default_rng(0).normal(0, 0.001, 32)
    points = make_points(
        np.tile(N, 2), np.tile(D, 2), losses * np.exp(noise), arms=["bf16"] * 16 + ["ufp4"] * 16
    )
    found = quick(
        points,
        absent(N[5], D[5]),
        settings=replace(QUICK, law="chinchilla", diverged=Diverged.DROP_CELL),
    )
    assert (found.n_points, found.n_cells) == (30, 15)
    assert [one.reason for one in found.excluded] == [
        Absence.DIVERGED,
        Absence.DIVERGED_CELL,
        Absence.DIVERGED_CELL,
    ]
    assert {one.arm for one in found.excluded[1:]} == {"bf16", "ufp4"}
    kept = np.tile((N != N[5]) | (D != D[5]), 2)
    alone = quick(
        make_points(
            np.tile(N, 2)[kept],
            np.tile(D, 2)[kept],
            (losses * np.exp(noise))[kept],
            arms=["bf16"] * 15 + ["ufp4"] * 15,
        ),
        settings=replace(QUICK, law="chinchilla"),
    )
    assert found.estimates == alone.estimates


def test_refused_no_law_is_fitted_beside_a_diverged_run() -> None:
    points = noisy(4, 4, 0.002)
    found = quick(points, absent(1e7, 1e9), settings=replace(QUICK, diverged=Diverged.REFUSE))
    assert (found.status, found.solution) == (Status.NOT_IDENTIFIED, None)
    assert "1 of its runs diverged" in found.verdict[0]
    assert quick(points, settings=replace(QUICK, diverged=Diverged.REFUSE)).solution is not None


def test_what_is_unfinished_is_no_divergence() -> None:
    points = noisy(4, 4, 0.002)
    for policy in Diverged:
        found = quick(
            points,
            absent(points.N[0], points.D[0], "lost"),
            settings=replace(QUICK, diverged=policy),
        )
        assert found.n_cells == 16
        assert any("1 lost" in line for line in found.verdict)
        assert not any("policy" in line for line in found.verdict)


def test_a_fit_says_how_it_was_made_and_of_what() -> None:
    points = noisy(4, 4, 0.002)
    found = quick(points, settings=replace(QUICK, seed=3))
    assert found.settings == Settings(resamples=100, seed=3)
    assert found.method_version == METHOD_VERSION
    assert (found.arms, found.n_clusters, found.input_hash) == (("",), 16, points.digest)
    assert found.ratio_range == pytest.approx(
        ((points.D / points.N).min(), (points.D / points.N).max())
    )


def test_fewer_points_than_constants_is_a_sentence_and_no_law() -> None:
    N, D = grid(3, 3)
    few = make_points(N[[0, 1, 4, 5, 8]], D[[0, 1, 4, 5, 8]], surface(N, D)[[0, 1, 4, 5, 8]])
    found = quick(few, settings=replace(QUICK, law="gamma"))
    assert found.law_name == "local power"
    assert (
        "5 points in 5 cells cannot determine the 6 constants of the gamma law" in found.verdict[0]
    )


def test_a_named_law_that_is_determined_but_not_judged_is_a_bare_optimum() -> None:
    N, D = grid(3, 3)
    points = make_points(N, D, surface(N, D) * (1 + 1e-4 * np.sin(np.arange(9))))
    found = quick(points, settings=replace(QUICK, law="chinchilla"))
    assert (found.status, found.law_name) == (Status.NOT_IDENTIFIED, "chinchilla")
    assert found.solution is not None
    assert (found.solution.method, found.solution.samples.rows) == (Method.NONE, 0)
    assert all(one.value is None for one in found.estimates)
    assert "it has no interval" in found.verdict[1]
    assert curve(found, float(N[0]), D.tolist()).tokens == ()


def test_published_constants_from_five_runs_are_told_without_an_interval() -> None:
    rows = [row for row in public_rows("openlm_overtrain.csv") if row["train_set"] == "rpj"]
    sizes = sorted({float(row["N"]) for row in rows})[:4]
    wanted = {(size, 1.0) for size in sizes} | {(sizes[0], 16.0)}
    rows = [row for row in rows if (float(row["N"]), float(row["cc_mult"])) in wanted]
    points = make_points(*(column(rows, name) for name in ("N", "D", "loss_c4_val")))
    found = quick(
        points,
        settings=replace(QUICK, law="overtraining", delta=float("inf"), residual=Residual.LINEAR),
    )
    assert found.verdict[0].endswith(
        "5 cells are fewer than 8, two for each constant of the overtraining law."
    )
    assert "E = 1.83665, a = 212.2" in found.verdict[1]


@pytest.mark.slow
def test_effective_sizes_stand_where_the_floor_ended_on_its_bound() -> None:
    rows = public_rows("quest_bits.csv")
    points = make_points(
        *(column(rows, name) for name in ("N", "D", "loss")),
        arms=[row["fit_key"] for row in rows],
        reference="16",
    )
    found = quick(
        points, settings=replace(QUICK, law="chinchilla", effects=(Effect.N,), delta=float("inf"))
    )
    by_name = {one.name: one for one in found.estimates}
    assert found.verdict[0] == (
        "E, A, B, alpha and beta are not identified: the search ended on a bound of E."
    )
    assert found.status is Status.INSIDE_ONLY
    published = {"1": 0.0205, "2": 0.1519, "3": 0.4331, "4": 0.6918, "8": 1.0162, "fp4": 0.6296}
    for key, value in published.items():
        one = by_name[f"eff_N[{key}]"]
        assert one.value == pytest.approx(value, abs=0.002)
        assert given(one.low) < given(one.value) < given(one.high)


def test_an_arm_with_fewer_cells_than_its_own_constants_is_named() -> None:
    N, D = grid(4, 4)
    both = np.append(N, N[:2]), np.append(D, D[:2])
    losses = surface(*both) * (1 + 1e-4 * np.sin(np.arange(18)))
    points = make_points(*both, losses, arms=["bf16"] * 16 + ["fp4"] * 2)
    found = quick(points)
    assert found.solution is None
    assert "fp4 has 2 cells, too few for its own 2 constants" in found.verdict[0]


def test_a_law_of_compute_alone_is_fitted_to_a_ladder_when_asked_for() -> None:
    N = np.geomspace(1e7, 1e9, 12)
    losses = 1.5 + 30 * (6 * 20 * N**2) ** -0.08
    points = make_points(N, 20 * N, losses * (1 + 1e-4 * np.sin(np.arange(12))))
    found = quick(points, settings=replace(QUICK, law="frontier"))
    assert found.law_name == "frontier"
    assert [one.name for one in found.estimates] == ["E", "K", "alpha_C"]


def test_refusing_names_the_constants_that_were_asked_for() -> None:
    found = refuse(noisy(3, 4, 0.01), "its texts differ", label="x", settings=Settings(law="tied"))
    assert [one.name for one in found.estimates] == ["E", "A", "B", "alpha"]
    assert found.verdict == ("No law is fitted: its texts differ.",)


def test_an_unknown_law_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"law = 'kaplan': the laws are chinchilla"):
        quick(noisy(4, 4, 0.01), settings=replace(QUICK, law="kaplan"))
