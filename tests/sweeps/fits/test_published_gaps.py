"""Gaps of the public format grid: laws, effective data, worth of compute, and the traps in it."""

import numpy as np
import pytest
from scipy.optimize import least_squares

from sweeps.effective.additivity import additivity
from sweeps.effective.horizontal import Baseline
from sweeps.effective.joint_fit import JointFit, fit_joint, log_multipliers
from sweeps.effective.shared_floor import shared_floor
from sweeps.fits.compare import search
from sweeps.fits.differences import Differences, differences
from sweeps.fits.gap_choice import GapLaws, gap_laws
from sweeps.fits.gap_laws import fit_gap
from sweeps.fits.gap_result import GapFit, GapForm
from sweeps.fits.points import Points, make_points
from sweeps.fits.settings import Settings
from sweeps.laws.chinchilla import Chinchilla
from sweeps.laws.gamma import Gamma
from sweeps.laws.joint import joint
from sweeps.laws.law import Array, at, loss
from tests.sweeps.fits.public_data import column, public_rows

BF16 = "BF16/BF16"
FORWARD = "QuEST/BF16"
BACKWARD = "BF16/AlbertTsengQuantizer"
BOTH = "QuEST/AlbertTsengQuantizer"
CENTER = (6e7, 6e9)
HUBER = Settings(delta=1e-3)


def points(*arms: str) -> Points:
    """BF16 and these (forward, backward) pairs of formats."""
    rows = public_rows("quartet_formats.csv")
    for row in rows:
        row["arm"] = f"{row['fwd_format']}/{row['bwd_format']}"
    chosen = [row for arm in (BF16, *arms) for row in rows if row["arm"] == arm]
    columns = (column(chosen, name) for name in ("N", "D", "loss"))
    return make_points(*columns, arms=[row["arm"] for row in chosen])


def pairs(arm: str) -> Differences:
    return differences(points(arm), arm)


def laws(arm: str) -> GapLaws:
    return gap_laws(pairs(arm), points(), "gamma", HUBER)


@pytest.mark.parametrize(
    ("arm", "count", "mean", "c", "a", "b", "sd"),
    [
        (FORWARD, 21, 0.0792, 0.0775, (-0.183, 0.015), (0.100, 0.008), 0.0032),
        (BACKWARD, 22, 0.0120, 0.0124, (-0.001, 0.047), (-0.124, 0.025), 0.0017),
        (BOTH, 21, 0.0897, 0.0888, (-0.129, 0.012), (0.059, 0.006), 0.0029),
        (
            "BF16/AlbertTsengDeterministic",
            *(17, 0.0099, 0.0098, (0.056, 0.078), (0.111, 0.034), 0.0015),
        ),
        ("BF16/Eden128", 19, 0.0070, 0.0070, (0.178, 0.054), (0.046, 0.021), 0.0008),
    ],
)
def test_gaps_are_power_laws_with_the_known_constants(
    arm: str,
    count: int,
    mean: float,
    c: float,
    a: tuple[float, float],
    b: tuple[float, float],
    sd: float,
) -> None:
    measured = pairs(arm)
    found = fit_gap(measured, GapForm.POWER, base=None, resamples=100, seed=0, center=CENTER)
    assert isinstance(found, GapFit)
    assert (len(measured), found.n_cells) == (count, count)
    assert measured.gap.mean() == pytest.approx(mean, abs=5e-5)
    values = [item.value for item in found.estimates]
    # Within 2 %, or half a unit of the last digit that is known.
    assert values[0] == pytest.approx(c, rel=0.02)
    for value, error, (known, known_error) in zip(
        values[1:], found.errors[1:], (a, b), strict=True
    ):
        assert value == pytest.approx(known, rel=0.02, abs=6e-4)
        assert error == pytest.approx(known_error, rel=0.1, abs=5e-4)
    assert found.sd == pytest.approx(sd, abs=5e-5)


def test_the_largest_size_chooses_a_power_law_forward_and_one_multiplier_backward() -> None:
    forward, backward = laws(FORWARD), laws(BACKWARD)
    assert forward.chosen is GapForm.POWER
    assert backward.chosen is GapForm.EFF_C
    errors = {one.form: one.held_out for one in forward.criteria}
    assert errors[GapForm.NONE] == pytest.approx(0.0659, abs=1e-4)
    assert errors[GapForm.POWER] == pytest.approx(0.0026, abs=1e-4)
    errors = {one.form: one.held_out for one in backward.criteria}
    assert errors[GapForm.NONE] == pytest.approx(0.0095, abs=1e-4)
    assert errors[GapForm.EFF_C] == pytest.approx(0.0016, abs=3e-4)
    assert errors[GapForm.POWER] == pytest.approx(0.0056, abs=1e-4)


@pytest.mark.parametrize("arm", [FORWARD, BOTH])
def test_a_constant_gap_is_rejected_by_more_than_40_units_of_aicc(arm: str) -> None:
    aicc = {one.form: one.aicc for one in laws(arm).criteria}
    constant, power = aicc[GapForm.CONSTANT], aicc[GapForm.POWER]
    assert constant is not None
    assert power is not None
    assert constant - power > 40


@pytest.mark.parametrize(
    ("arm", "N", "known"),
    [
        (FORWARD, 30482560.0, [0.65, 0.53, 0.40, 0.28, 0.21]),
        (FORWARD, 102777856.0, [0.59, 0.49, 0.38, 0.27, 0.21]),
        (BACKWARD, 30482560.0, [0.92, 0.90, 0.89, 0.85, 0.83]),
        (BACKWARD, 102777856.0, [0.89, 0.87, 0.85, 0.83, 0.82]),
    ],
)
def test_effective_data_fall_with_tokens_per_parameter(
    arm: str, N: float, known: list[float]
) -> None:
    measured, reference = pairs(arm), points()
    mine = (measured.N == N) & (measured.D / N > 40) & (measured.D / N < 900)
    D, gap = measured.D[mine], measured.gap[mine]
    # The known table drew straight lines between the BF16 losses.
    row = reference.N == N
    ln_D, L = np.log(reference.D[row]), reference.loss[row]
    wanted = np.interp(np.log(D), ln_D, L) + gap
    straight = np.exp(np.interp(wanted, L[::-1], ln_D[::-1])) / D
    assert straight == pytest.approx(known, abs=0.006)
    # A straight line lies above a curve that bends upwards, so it finds more data.
    baseline = Baseline.of(reference)
    logs = [baseline.effective_data(N, *place) for place in zip(D, gap, strict=True)]
    smooth = np.exp([item for item in logs if not isinstance(item, str)])
    assert smooth == pytest.approx(known, abs=0.03)
    assert np.all(smooth <= straight)
    outside = baseline.effective_data(N, float(reference.D[row].min()), float(gap[0]))
    assert "out of the BF16 losses" in str(outside)


def test_compute_under_mxfp4_is_worth_what_the_shared_law_says() -> None:
    four = points(FORWARD, BACKWARD, BOTH)
    assert len(four) == 88
    law = joint(Gamma.about(four.where), {"forward": (0, 1, 0, 1), "backward": (0, 0, 1, 1)})
    found = fit_joint(four, law, HUBER)
    assert isinstance(found, JointFit)
    ln_N, ln_D = log_multipliers(law, found.searched.optimum.theta)
    draws_N, draws_D = log_multipliers(law, found.draws)
    assert np.exp(ln_N[1:3]) == pytest.approx([0.664, 0.979], abs=0.002)
    assert np.exp(ln_D[1:3]) == pytest.approx([0.902, 0.919], abs=0.002)
    assert np.exp(ln_N + ln_D) == pytest.approx([1, 0.599, 0.899, 0.539], abs=0.01)
    ends = np.exp(np.quantile(draws_N + draws_D, (0.025, 0.975), axis=0))
    assert ends[:, 3] == pytest.approx([0.519, 0.588], abs=0.02)
    assert ends[:, 2] == pytest.approx([0.889, 0.910], abs=0.01)
    assert ends[:, 1] == pytest.approx([0.578, 0.649], abs=0.02)
    assert np.corrcoef(draws_N[:, 1], draws_D[:, 1])[0, 1] == pytest.approx(-0.90, abs=0.03)
    # E alone is open by half a nat, while the worth of compute is known to a tenth.
    floors = law.constants(found.draws)[:, 0]
    assert np.diff(np.quantile(floors, (0.025, 0.975)))[0] > 0.4


def test_gaps_of_the_parts_add_up_nearly() -> None:
    found = additivity(points(FORWARD, BACKWARD, BOTH), BOTH, (FORWARD, BACKWARD))
    assert found is not None
    assert found.t is not None
    assert found.interval is not None
    assert found.n_pairs == found.n_clusters == 21
    assert found.mean == pytest.approx(-0.0017, abs=5e-5)
    assert found.sd == pytest.approx(0.0030, abs=5e-5)
    assert found.t == pytest.approx(-2.6, abs=0.05)
    assert found.interval[0] < found.mean < found.interval[1] < 0


@pytest.mark.slow
def test_a_floor_of_its_own_is_supported_forward_and_not_backward() -> None:
    forward = shared_floor(points(FORWARD), "gamma", HUBER)
    backward = shared_floor(points(BACKWARD), "gamma", HUBER)
    assert forward.aicc_shared is not None
    assert forward.aicc_own is not None
    assert forward.aicc_shared - forward.aicc_own == pytest.approx(10, abs=5)
    assert backward.aicc_shared is not None
    assert backward.aicc_own is not None
    assert backward.aicc_own > backward.aicc_shared
    assert not backward.own_is_supported


def test_a_small_gap_on_a_misfitting_base_is_off_tenfold_and_its_paired_law_is_not() -> None:
    two = points(BACKWARD)
    small, measured = two.N < 2e8, pairs(BACKWARD)
    largest = measured.N == measured.N.max()
    truth = measured.gap[largest].mean()
    assert truth == pytest.approx(0.0094, abs=5e-5)
    N, D, is_format = two.N[small], two.D[small], two.arm[small] == 1
    reference = make_points(N[~is_format], D[~is_format], two.loss[small][~is_format])
    law = Chinchilla.about(reference.where)
    first = search(law, reference, HUBER).optimum.theta

    def gap(theta: Array, N: Array, D: Array) -> Array:
        value: Array = theta[0] * (N / CENTER[0]) ** theta[1] * (D / CENTER[1]) ** theta[2]
        return value

    def residuals(theta: Array) -> Array:
        total = loss(law, theta[:5], at(N, D)) + gap(theta[5:], N, D) * is_format
        value: Array = np.log(np.maximum(total, 1e-3)) - np.log(two.loss[small])
        return value

    starts = (np.concatenate([first, [0.01, *exponents]]) for exponents in ((0, 0), (1, 0.5)))
    bounds = (np.r_[[-20.0] * 5, -1, -3, -3], np.r_[[20.0] * 5, 1, 3, 3])
    best = min(
        (
            least_squares(
                residuals, start, loss="huber", f_scale=1e-3, x_scale="jac", bounds=bounds
            )
            for start in starts
        ),
        key=lambda found: float(found.cost),
    )
    attached = gap(best.x[5:], measured.N[largest], measured.D[largest]).mean()
    assert attached > 8 * truth
    paired = fit_gap(
        measured.chosen(~largest), GapForm.POWER, base=None, resamples=100, seed=0, center=CENTER
    )
    assert isinstance(paired, GapFit)
    theta = np.array(paired.theta)
    predicted = gap(theta, measured.N[largest], measured.D[largest]).mean()
    assert predicted == pytest.approx(truth, abs=0.006)
