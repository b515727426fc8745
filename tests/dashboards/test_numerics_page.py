"""The numerics page: each figure shows the numbers it was given, and the page stands alone."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime

import plotly.graph_objects as go
import pytest

from dashboards import bucket_bars, gain_depth, numerics_page, rounding_error, sqnr_bars
from dashboards.measured_recipe import grids_of
from kernels.formats import E2M1, GRIDS, INT4
from kernels.presets import PRESETS
from kernels.recipes import BF16_RECIPE
from tests.dashboards.html_check import of, read
from tests.dashboards.qualities import measured

E2M1_REF, UFP4 = measured(PRESETS["e2m1-ref"]), measured(PRESETS["ufp4"])


def traces(figure: go.Figure, **wanted: str) -> list[go.Scatter | go.Bar]:
    return [
        t for t in figure.data if all(getattr(t, key) == value for key, value in wanted.items())
    ]


def test_the_mean_error_of_e2m1_is_negative_at_2_and_4_alone_inside():
    (errors,) = rounding_error.rounding_errors([E2M1])
    inside = {round(one.value * 6, 3): one.bias * 6 for one in errors.bins[1:-1]}
    assert inside == pytest.approx({0.5: 0, 1: 0, 1.5: 0, 2: -0.125, 3: 0, 4: -0.25})


def test_a_uniform_grid_has_no_mean_error_inside():
    (errors,) = rounding_error.rounding_errors([INT4])
    assert [one.bias for one in errors.bins[1:-1]] == pytest.approx([0] * 6)
    assert errors.bins[0].bias < 0 < errors.bins[-1].bias


def test_each_error_is_drawn_from_low_to_high_with_a_gap_between_bins():
    figure = rounding_error.draw(rounding_error.rounding_errors([E2M1]))
    (line,) = traces(figure, name="rounding error")
    assert line.x[:3] == (0.0, pytest.approx(0.25 / 6), None)
    assert line.y[:3] == (0.0, pytest.approx(-0.25 / 6), None)
    assert len(line.x) == 3 * 8


def test_the_grids_of_recipes_are_named_once():
    assert grids_of([E2M1_REF, UFP4, E2M1_REF]) == (E2M1, INT4)
    assert grids_of([measured(BF16_RECIPE)]) == ()


def test_the_histogram_is_of_the_layer_that_gains_most_from_the_rht():
    before, after = bucket_bars.histograms([UFP4], gemm="fprop", operand="x")
    assert {before.layer, after.layer} == {"blocks.2.mlp.down"}
    assert (before.quality.utilisation, after.quality.utilisation) == (0.5, 0.8)
    assert before.values == tuple(float(code) for code in range(-7, 8))


def test_bars_stand_at_codes_in_percent():
    figure = bucket_bars.draw(bucket_bars.histograms([E2M1_REF], gemm="dgrad", operand="dy"))
    before, after = figure.data
    assert before.x == after.x == tuple(range(-7, 8))
    assert sum(before.y) == pytest.approx(100)
    assert before.customdata[0] == "value -6: 6.67% before the RHT"


def test_every_operand_has_its_panel_and_what_the_recipe_multiplies_is_filled():
    numbers = sqnr_bars.sqnr_bars([E2M1_REF, UFP4])
    figure = sqnr_bars.draw(numbers)
    assert len({trace.xaxis for trace in figure.data}) == 6
    (before,) = traces(figure, xaxis="x", name="e2m1-ref, before the RHT")
    (after,) = traces(figure, xaxis="x", name="e2m1-ref, after the RHT")
    assert (before.y, after.y) == ((20, 21, 22), (22, 23, 24))
    assert "rgba(0, 0, 0, 0)" not in before.marker.color  # fprop has no RHT in e2m1-ref
    assert set(after.marker.color) == {"rgba(0, 0, 0, 0)"}
    assert len(sqnr_bars.table(numbers).rows) == 2 * 3 * 6


def test_gains_compound_down_the_model():
    (fprop, *_), figure = (
        gain_depth.gain_depth([UFP4]).gains,
        gain_depth.draw(gain_depth.gain_depth([UFP4])),
    )
    assert fprop.gains == pytest.approx((0.99, 0.98, 0.97))
    assert fprop.products == pytest.approx((0.99, 0.99 * 0.98, 0.99 * 0.98 * 0.97))
    lines = [trace for trace in figure.data if trace.mode == "lines"]
    assert lines[0].y == pytest.approx(fprop.products)


@pytest.mark.parametrize(
    "recipes", [[], ["bf16"], ["e2m1-ref", "ufp4"], ["fp8-tensor", "int8"]], ids=str
)
def test_the_page_stands_alone_whatever_was_measured(recipes: Sequence[str]):
    given = [measured(PRESETS[name]) for name in recipes]
    page = numerics_page.render(
        given,
        name="<b>run</b>",
        facts=["One & two."],
        made_at=datetime(2026, 11, 30, tzinfo=UTC),
    )
    elements = read(page)
    assert [
        e.attributes["id"] for e in of(elements, "div") if "plot" in e.attributes.get("class", "")
    ] == [f"figure-{key}" for key in ("rounding-error", "buckets", "sqnr", "gain")]
    assert "<b>run</b>" not in page
    assert "http" not in json.dumps([e.attributes.get("src", "") for e in elements])


def test_every_grid_can_be_drawn():
    drawn = {grid.name: grid for grid in GRIDS.values() if len(grid.magnitudes) < 1024}
    figure = rounding_error.draw(rounding_error.rounding_errors(list(drawn.values())))
    assert len(figure.data) == 2 * len(drawn)
