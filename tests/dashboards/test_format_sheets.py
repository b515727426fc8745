"""The tables of effective numbers and gap laws."""

from dataclasses import replace

import numpy as np
import pytest

from dashboards.format_sheets import effective_sheet, gap_criteria_sheet, gap_laws_sheet
from dashboards.sheets import Sheet
from dashboards.wording import MISSING
from sweeps.effective.effective import effective
from sweeps.effective.result import Effective, Multiplier
from sweeps.fits.fit import fit
from sweeps.fits.gap_choice import GapLaws
from sweeps.fits.gap_result import GapForm
from sweeps.fits.points import make_points
from sweeps.fits.settings import Settings
from tests.sweeps.fits.made_points import grid, surface

GAP = 0.02


@pytest.fixture(scope="module")
def found() -> Effective:
    """A format that loses 0.02 nats everywhere, by the same noise as BF16 and a little more."""
    sizes, tokens = grid(5, 5)
    random = np.random.default_rng(1)
    noise = random.normal(0, 1e-3, 25)
    bf16 = surface(sizes, tokens) + noise
    losses = np.concatenate([bf16, bf16 + GAP + random.normal(0, 1e-4, 25)])
    arms = ["bf16"] * 25 + ["ufp4"] * 25
    points = make_points(np.tile(sizes, 2), np.tile(tokens, 2), losses, arms=arms)
    settings = Settings(law="chinchilla", resamples=100)
    whole = fit(make_points(sizes, tokens, bf16), label="bf16", settings=settings)
    (one,) = effective(points, whole, settings)
    return one


@pytest.fixture(scope="module")
def laws(found: Effective) -> GapLaws:
    assert found.gap is not None
    return found.gap


def cell(sheet: Sheet, head: str, row: int = 0) -> str:
    return sheet.rows[row][sheet.columns.index(head)]


def test_every_row_is_as_long_as_the_heads_and_no_head_stands_twice(
    found: Effective, laws: GapLaws
) -> None:
    sheets = (effective_sheet([found]), gap_laws_sheet([laws]), gap_criteria_sheet([laws]))
    for sheet in sheets:
        assert sheet.rows
        assert {len(row) for row in sheet.rows} == {len(sheet.columns)}
        assert len(set(sheet.columns)) == len(sheet.columns)


def test_the_chosen_law_of_a_constant_gap_is_the_constant_with_its_interval(laws: GapLaws) -> None:
    sheet = gap_laws_sheet([laws])
    assert laws.chosen is GapForm.CONSTANT
    assert cell(sheet, "Law") == "gap = c"
    assert cell(sheet, "Constants").startswith("c = 0.0")
    assert cell(sheet, "#Pairs (cells)") == "25 (25)"
    value = float(cell(sheet, "Constants").split()[2])
    assert value == pytest.approx(GAP, abs=1e-4)


def test_every_form_is_listed_once_and_the_chosen_one_is_marked(laws: GapLaws) -> None:
    sheet = gap_criteria_sheet([laws])
    assert [row[1] for row in sheet.rows] == [form.value for form in GapForm]
    marked = [row[1] for row in sheet.rows if row[-1] == "chosen"]
    assert marked == [laws.chosen.value]


def test_what_is_not_identified_is_a_dash(found: Effective) -> None:
    bare = replace(
        found,
        C_mult=Multiplier(name="C_mult", reason="one size"),
        break_even=Multiplier(name="break-even", reason="one size"),
        correlation=None,
    )
    sheet = effective_sheet([bare])
    for head in ("#C_mult", "#95 % interval", "#Pays from", "#Correlation"):
        assert cell(sheet, head) == MISSING
    assert cell(sheet, "#eff_N") != MISSING


def test_numbers_have_their_intervals_beside_them(found: Effective) -> None:
    sheet = effective_sheet([found])
    low, high = (float(end) for end in cell(sheet, "#95 % interval").strip("[]").split(", "))
    assert low <= float(cell(sheet, "#C_mult")) <= high
    assert float(cell(sheet, "#C_mult")) < 1 < float(cell(sheet, "#Pays from"))
