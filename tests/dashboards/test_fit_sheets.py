"""The tables of forms and of best sizes."""

import numpy as np
import pytest

from dashboards.fit_sheets import BUDGETS, best_sizes_sheet, forms_sheet
from dashboards.sheets import Sheet
from sweeps.fits.fit import fit
from sweeps.fits.points import make_points
from sweeps.fits.result import Fit, Status
from sweeps.fits.settings import Settings
from tests.sweeps.fits.made_points import TRUTH, grid, noisy, surface


@pytest.fixture(scope="module")
def found() -> Fit:
    return fit(noisy(5, 6, 5e-4), label="ufp4", settings=Settings(law="chinchilla", resamples=200))


def column(sheet: Sheet, head: str) -> list[str]:
    return [row[sheet.columns.index(head)] for row in sheet.rows]


def test_the_reported_form_comes_first_and_every_rival_after_it(found: Fit) -> None:
    sheet = forms_sheet([found])
    assert found.criteria is not None
    laws = [found.criteria.law, *(one.law for one in found.rivals)]
    assert column(sheet, "Law") == laws
    assert laws[0] == "chinchilla"
    assert {"tied", "gamma"} < set(laws)
    assert column(sheet, "#Constants")[0] == "5"
    assert {len(row) for row in sheet.rows} == {len(sheet.columns)}


def test_the_best_size_of_a_budget_is_that_of_the_law(found: Fit) -> None:
    """N = G (C / 6)^(beta / (alpha + beta)) of Hoffmann et al. 2022, to the digits shown."""
    sheet = best_sizes_sheet([found])
    assert len(sheet.rows) == len(BUDGETS)
    alpha, beta = TRUTH["alpha"], TRUTH["beta"]
    scale = (alpha * TRUTH["A"] / (beta * TRUTH["B"])) ** (1 / (alpha + beta))
    for times, shown, ends in zip(
        BUDGETS, column(sheet, "#N"), column(sheet, "#95 % of N"), strict=True
    ):
        best = scale * (1e9 * 3e10 * times) ** (beta / (alpha + beta))
        assert number(shown) == pytest.approx(best, rel=0.05)
        low, high = (number(end) for end in ends.split(" to "))
        assert low <= number(shown) <= high
        assert low < high


def number(text: str) -> float:
    return float(text[:-1]) * {"k": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}[text[-1]]


def test_a_law_that_is_not_identified_has_no_best_size() -> None:
    sizes = np.geomspace(1e7, 1e9, 6)
    ladder = make_points(sizes, 20 * sizes, surface(sizes, 20 * sizes))
    one = fit(ladder, label="one ratio", settings=Settings(resamples=100))
    assert one.status is not Status.IDENTIFIED
    assert best_sizes_sheet([one]).rows == ()


def test_a_design_that_fits_no_law_has_no_form() -> None:
    sizes, tokens = grid(1, 2)
    pair = make_points(sizes, tokens, np.array([3.0, 2.9]))
    assert forms_sheet([fit(pair, label="two", settings=Settings(resamples=100))]).rows == ()
