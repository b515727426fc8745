"""Published laws held against made gaps: sizes, orders, signs, and what they are silent on."""

import numpy as np
import pytest

from kernels.presets import PRESETS
from kernels.recipes import Recipe
from sweeps.effective.predictions import orders, predicted, signs
from sweeps.fits.differences import Differences, differences
from sweeps.fits.gap_laws import fit_gap
from sweeps.fits.gap_result import GapFit, GapForm
from sweeps.fits.points import make_points
from sweeps.laws.law import Array
from sweeps.laws.published import kumar, tencent, unified
from tests.sweeps.fits.made_points import grid, surface


def pairs(name: str, gap: Array) -> Differences:
    N, D = grid(3, 4)
    losses = np.concatenate([surface(N, D), surface(N, D) + gap])
    arms = ["bf16"] * 12 + [name] * 12
    return differences(make_points(np.tile(N, 2), np.tile(D, 2), losses, arms=arms), name)


def test_gaps_made_by_a_law_are_predicted_by_it_and_not_by_the_other() -> None:
    recipe = PRESETS["e2m1-ref"]
    made = tencent.gap(recipe, *grid(3, 4))
    assert not isinstance(made, str)
    found = {one.law: one for one in predicted(recipe, pairs("e2m1-ref", made))}
    own, other = found[tencent.NAME], found[kumar.NAME]
    assert own.rms == pytest.approx(0, abs=1e-12)
    assert own.rank == pytest.approx(1)
    assert own.same_sign == other.same_sign == 1
    assert other.rms is not None
    assert other.rms > 0.1
    # The other law does not look at D at all.
    assert other.rank is not None
    assert other.rank < 0.9


def test_a_format_that_beats_bf16_has_the_wrong_sign() -> None:
    for one in predicted(PRESETS["ufp4"], pairs("ufp4", np.full(12, -0.01))):
        assert one.same_sign == 0
        assert one.rank is None


def test_the_distance_from_the_runs_of_a_law_is_said() -> None:
    found = {one.law: one for one in predicted(PRESETS["ufp4"], pairs("ufp4", np.full(12, 0.01)))}
    # The grid is of 3e7 to 1e9 parameters and 1e9 to 3e10 tokens.
    assert found[kumar.NAME].decades == pytest.approx(np.log10(1e9 / 220e6))
    assert found[tencent.NAME].decades == pytest.approx(np.log10(10e9 / 1e9))


def test_what_a_law_is_not_about_is_said_and_the_gaps_stay() -> None:
    backward = Recipe(name="backward", wgrad=PRESETS["ufp4"].wgrad)
    for one in predicted(backward, pairs("backward", np.full(12, 0.01))):
        assert one.predicted == ()
        assert one.rms is None
        assert "forward operands" in one.reason
        assert len(one.measured) == 12


@pytest.mark.parametrize("turned", [1, -1])
def test_the_order_of_recipes_is_as_the_law_of_gaussian_errors_has_it(turned: int) -> None:
    names = ["ufp4", "e2m1-ref", "e2m1-max4", "e2m1-max3", "e2m1-max2"]
    tables = {
        name: pairs(name, np.full(12, 0.02 * (row + 1))) for row, name in enumerate(names[::turned])
    }
    recipes = {name: PRESETS[name] for name in names}
    found = {one.law: one for one in orders(recipes, tables)}[unified.NAME]
    assert list(found.recipes) == names
    assert found.rank == pytest.approx(turned)
    assert found.n_cells == 12
    assert found.measured == pytest.approx(
        [0.02, 0.04, 0.06, 0.08, 0.10] if turned > 0 else [0.10, 0.08, 0.06, 0.04, 0.02]
    )


def test_recipes_are_ordered_over_the_cells_that_all_of_them_have() -> None:
    one, other = pairs("ufp4", np.full(12, 0.02)), pairs("e2m1-ref", np.full(12, 0.03))
    part = other.chosen(other.N == other.N.min())
    recipes = {name: PRESETS[name] for name in ("ufp4", "e2m1-ref")}
    for order in orders(recipes, {"ufp4": one, "e2m1-ref": part}):
        assert order.n_cells == 4
        assert order.rank is None
    nothing = one.chosen(one.N == one.N.max())
    assert orders(recipes, {"ufp4": nothing, "e2m1-ref": part}) == ()


@pytest.mark.parametrize(
    ("a", "b", "with_N", "with_D"),
    [(-0.2, 0.1, True, True), (0.3, -0.2, False, False), (0.0, 0.3, None, True)],
)
def test_signs_are_judged_where_the_intervals_leave_zero_out(
    a: float, b: float, with_N: bool | None, with_D: bool | None
) -> None:
    N, D = grid(3, 4)
    noise = np.random.default_rng(3).normal(0, 0.0005, 12)
    made = pairs("ufp4", 0.05 * (N / 1e8) ** a * (D / 5e9) ** b + noise)
    power = fit_gap(made, GapForm.POWER, base=None, resamples=300, seed=0)
    assert isinstance(power, GapFit)
    found = signs(PRESETS["ufp4"], power, "ufp4")
    assert (found.with_N, found.with_D) == (with_N, with_D)


def test_signs_are_not_judged_of_8_bits_or_without_a_law() -> None:
    assert "4 bits" in signs(PRESETS["mxfp8"], None, "mxfp8").reason
    assert "no power law" in signs(PRESETS["ufp4"], None, "ufp4").reason
