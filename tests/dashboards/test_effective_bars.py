"""The figure of effective numbers: a dot with its interval, or the words that there is none."""

from dataclasses import replace
from functools import cache

import numpy as np
import plotly.graph_objects as go
import pytest

from dashboards.effective_bars import TITLES, EffectiveBars, draw, effective_bars, table
from kernels.presets import PRESETS
from sweeps.effective.effective import effective
from sweeps.effective.result import Effective, Method, Multiplier
from sweeps.fits.fit import fit
from sweeps.fits.points import make_points
from sweeps.fits.settings import Settings
from tests.dashboards.records import sweep
from tests.sweeps.fits.made_points import grid, surface

RECORDS = sweep(models=["tiny", "small"])


def multiplier(name: str, value: float) -> Multiplier:
    return Multiplier(
        name=name,
        value=value,
        low=0.9 * value,
        high=1.1 * value,
        n=12,
        over="12 cells drawn with replacement",
        method=Method.JOINT,
    )


@cache
def fitted() -> Effective:
    """What two arms on a grid of a known law are found to be worth."""
    sizes, tokens = grid(5, 5)
    noise = np.random.default_rng(0).normal(0, 5e-4, len(sizes))
    losses = [surface(m * sizes, tokens) * np.exp(noise) for m in (1.0, 0.7)]
    points = make_points(
        np.tile(sizes, 2),
        np.tile(tokens, 2),
        np.concatenate(losses),
        arms=["bf16"] * 25 + ["ufp4"] * 25,
    )
    settings = Settings(law="chinchilla", resamples=100)
    reference = make_points(sizes, tokens, losses[0])
    (one,) = effective(points, fit(reference, label="bf16", settings=settings), settings)
    return one


def found(label: str, size: float = 0.7, data: float = 0.9) -> Effective:
    return replace(
        fitted(),
        label=label,
        eff_N=multiplier("eff_N", size),
        eff_D=multiplier("eff_D", data),
        C_mult=multiplier("C_mult", size * data),
        break_even=multiplier("break-even", 1 / (size * data)),
    )


def numbers() -> EffectiveBars:
    return effective_bars(RECORDS, [found("e2m1-ref", 0.6, 0.8), found("ufp4")])


def markers(figure: go.Figure) -> list[go.Scatter]:
    return [trace for trace in figure.data if trace.mode == "markers"]


def test_every_recipe_has_a_dot_with_its_interval_in_every_panel() -> None:
    shown = markers(draw(numbers()))
    assert len(shown) == 2 * len(TITLES)
    for trace, (recipe, one) in zip(
        shown, sorted(numbers().rows, key=lambda row: list(TITLES).index(row[1].name)), strict=True
    ):
        assert (trace.x[0], trace.y[0]) == (one.value, recipe)
        assert one.value is not None
        assert trace.x[0] + trace.error_x.array[0] == pytest.approx(1.1 * one.value)
        assert trace.x[0] - trace.error_x.arrayminus[0] == pytest.approx(0.9 * one.value)
        assert one.over in trace.customdata[0]


def test_a_fitted_format_is_drawn_where_its_law_puts_it() -> None:
    shown = markers(draw(effective_bars(RECORDS, [fitted()])))
    assert [trace.x[0] for trace in shown] == pytest.approx([0.7, 0.7, 1.0], rel=0.01)


def test_what_is_not_identified_is_said_and_has_no_dot() -> None:
    reason = "one D/N ratio"
    one = replace(found("ufp4"), eff_N=Multiplier(name="eff_N", reason=reason))
    figure = draw(effective_bars(RECORDS, [one]))
    (said,) = [trace for trace in figure.data if trace.mode == "text"]
    assert (said.text, said.customdata) == (("not identified",), (reason,))
    assert len(markers(figure)) == 2


def test_a_value_without_an_interval_has_no_whiskers_and_says_why() -> None:
    bare = Multiplier(name="C_mult", value=0.8, n=2, method=Method.SLOPE, reason="two cells")
    figure = draw(effective_bars(RECORDS, [replace(found("ufp4"), C_mult=bare)]))
    trace = markers(figure)[0]
    assert trace.error_x.array is None
    assert "no interval: two cells" in trace.customdata[0]


def test_the_axis_holds_bf16_and_every_end() -> None:
    wide = effective_bars(RECORDS, [found("ufp4", 0.05, 3.0)])
    low, high = draw(wide).layout.xaxis.range
    assert 10**low < 0.9 * 0.05
    assert 10**high > 1.1 * 3.0
    low, high = draw(numbers()).layout.xaxis.range
    assert low < 0 < high


def test_the_csv_has_a_row_for_every_number() -> None:
    plotted = table(numbers())
    assert [row[:3] for row in plotted.rows] == [
        (recipe, one.name, one.value) for recipe, one in numbers().rows
    ]
    assert {len(row) for row in plotted.rows} == {len(plotted.columns)}


def test_without_a_comparison_the_figure_says_so() -> None:
    figure = draw(effective_bars(RECORDS, []))
    assert "compared with BF16" in figure.layout.annotations[-1].text


def test_many_recipes_get_more_room_and_few_do_not() -> None:
    many = [found(f"r{k}") for k in range(20)]
    records = sweep([replace(PRESETS["ufp4"], name=one.label) for one in many], models=["tiny"])
    tall, short = draw(effective_bars(records, many)), draw(numbers())
    assert tall.layout.height > short.layout.height
    assert short.layout.height == draw(effective_bars(RECORDS, [found("ufp4")])).layout.height


def test_one_column_and_three_columns_draw_the_same_traces() -> None:
    assert draw(numbers(), columns=3).data == draw(numbers(), columns=1).data
