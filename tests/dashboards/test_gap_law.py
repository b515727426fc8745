"""The gap law's figure: its cells, its lines, and the table of both."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest

from dashboards.gap_law import REACH, GapLawCurves, draw, gap_law_curves, table
from kernels.presets import PRESETS
from sweeps.fits.differences import differences
from sweeps.fits.gap_choice import GapLaws, gap_laws
from sweeps.fits.gap_result import GapForm
from sweeps.fits.points import make_points
from sweeps.fits.settings import Settings
from sweeps.gaps.pair import pair
from sweeps.records import RunRecord
from tests.dashboards.records import BUDGETS, diverged, finished, sweep

UFP4 = PRESETS["ufp4"]
THREE = (*BUDGETS, 4_194_304)


def laws_of(records: Sequence[RunRecord]) -> list[GapLaws]:
    """The gap law of every recipe, from the losses of the records."""
    rows = [
        (run.spec.recipe.name, run.N, end.tokens, end.loss, f"{run.N} {run.spec.seeds.init}")
        for run in sorted(records, key=lambda run: not run.spec.recipe.is_bf16)
        for end in run.endpoints
    ]
    arms, sizes, tokens, losses, groups = zip(*rows, strict=True)
    points = make_points(sizes, tokens, losses, arms=arms, groups=groups)
    bf16 = points.arm == 0
    reference = make_points(points.N[bf16], points.D[bf16], points.loss[bf16])
    settings = Settings(resamples=100)
    return [
        gap_laws(differences(points, arm), reference, None, settings) for arm in points.arms[1:]
    ]


def numbers_of(records: Sequence[RunRecord]) -> GapLawCurves:
    return gap_law_curves(records, pair(records), laws_of(records))


@pytest.fixture(scope="module")
def found() -> GapLawCurves:
    return numbers_of(sweep(budgets=THREE))


def lines(figure: go.Figure) -> list[go.Scatter]:
    return [t for t in figure.data if t.mode == "lines" and t.fill is None and t.x[0] is not None]


def dots(figure: go.Figure) -> list[go.Scatter]:
    return [trace for trace in figure.data if trace.mode == "markers"]


def test_a_cell_is_the_mean_gap_of_its_seeds() -> None:
    records = sweep(models=["tiny", "small"], seeds=(0, 1))
    gaps = pair(records).gaps
    numbers = gap_law_curves(records, pair(records), [])
    assert len(numbers.cells) == 2 * 2 * len(BUDGETS)
    for recipe, cell in numbers.cells:
        mine = [g.gap for g in gaps if (g.recipe, g.N, g.tokens) == (recipe, cell.N, cell.tokens)]
        assert cell.mean == pytest.approx(np.mean(mine), abs=1e-12)


def test_a_line_runs_over_the_measured_tokens_and_is_dashed_beyond(found: GapLawCurves) -> None:
    for band in found.bands:
        first, last = (THREE[-1], REACH * THREE[-1]) if band.beyond else (THREE[0], THREE[-1])
        assert (band.tokens[0], band.tokens[-1]) == pytest.approx((first, last))
        assert all(low <= high for low, high in zip(band.low, band.high, strict=True))
    dashes = [trace.line.dash for trace in lines(draw(found))]
    assert dashes.count("solid") == dashes.count("dash") == len(found.bands) / 2


def test_the_lines_of_all_sizes_are_one_law() -> None:
    records = sweep([UFP4], budgets=THREE)
    (law,) = laws_of(records)
    assert law.fit.model is not None
    for band in gap_law_curves(records, pair(records), [law]).bands:
        here = make_points([band.model.N] * 17, band.tokens, np.ones(17)).where
        expected = law.fit.model.predict(np.array(law.fit.theta), here)
        assert band.gap == pytest.approx(expected)


def test_a_recipe_without_a_gap_law_has_dots_and_no_line() -> None:
    records = sweep([UFP4], models=["small"])
    none = [replace(law, chosen=GapForm.NONE) for law in laws_of(records)]
    figure = draw(gap_law_curves(records, pair(records), none))
    assert lines(figure) == []
    assert [len(trace.x) for trace in dots(figure)] == [len(BUDGETS)]


def test_one_seed_has_no_whiskers_and_three_have() -> None:
    recipe = [PRESETS["e2m1-ref"]]
    one, three = (sweep(recipe, models=["small"], seeds=seeds) for seeds in ((0,), (0, 1, 2)))
    (bare,), (whiskered,) = (dots(draw(numbers_of(records))) for records in (one, three))
    assert bare.error_y.array is None
    cells = [cell for _, cell in numbers_of(three).cells]
    assert any(cell.high is not None for cell in cells)
    reach = [0.0 if cell.high is None else cell.high - cell.mean for cell in cells]
    assert whiskered.error_y.array == pytest.approx(reach)


def test_the_csv_holds_every_dot_and_every_step_of_a_line(found: GapLawCurves) -> None:
    rows = table(found).rows
    figure = draw(found)
    assert {len(row) for row in rows} == {len(table(found).columns)}
    shown = sorted(y for trace in dots(figure) for y in trace.y)
    assert sorted(float(row[6] or 0) for row in rows if row[0] == "cell") == pytest.approx(shown)
    drawn = sorted(y for trace in lines(figure) for y in trace.y)
    assert sorted(float(row[6] or 0) for row in rows if row[0] != "cell") == pytest.approx(drawn)


def test_every_recipe_has_a_panel_of_its_own_with_the_name_of_its_law(found: GapLawCurves) -> None:
    laws = {band.recipe: band.form for band in found.bands}
    titles = [note.text for note in draw(found).layout.annotations]
    assert titles == [f"<b>{recipe}</b>  {laws[recipe]} law" for recipe in ("e2m1-ref", "ufp4")]


def test_without_a_pair_the_figure_says_so() -> None:
    records = (finished(), diverged(UFP4))
    numbers = gap_law_curves(records, pair(records), [])
    assert "No endpoint has a BF16 partner" in draw(numbers).layout.annotations[-1].text


def test_one_column_and_three_columns_draw_the_same_traces(found: GapLawCurves) -> None:
    assert draw(found, columns=3).data == draw(found, columns=1).data


def test_a_band_that_runs_off_leaves_the_frame_of_what_was_measured(found: GapLawCurves) -> None:
    wild = replace(found.bands[0], low=(-300.0,), high=(300.0,))
    figure = draw(replace(found, bands=(wild,)))
    low, high = figure.layout.yaxis.range
    measured = [cell.mean for _, cell in found.cells]
    assert low <= min(0.0, *measured)
    assert max(measured) < high < 10 * max(measured)
