from dataclasses import replace
from math import nan
from typing import cast

import plotly.graph_objects as go
import pytest

from dashboards.loss_curves import MOST_POINTS, draw, loss_curves, table
from kernels.presets import PRESETS
from kernels.recipes import BF16_RECIPE
from tests.dashboards.records import BUDGETS, ENTROPY, diverged, finished, sweep

UFP4 = PRESETS["ufp4"]


def marks(figure: go.Figure) -> list[tuple[float, float]]:
    """(x, y) of everything drawn with a value."""
    return sorted(
        (x, y)
        for trace in figure.data
        for x, y in zip(trace.x, trace.y, strict=True)
        if x is not None
    )


def test_a_run_is_one_trunk_and_one_branch_for_each_horizon():
    numbers = loss_curves([finished()])
    assert [line.horizon for line in numbers.lines] == [None, *BUDGETS]
    assert [mark.tokens for mark in numbers.endpoints] == list(BUDGETS)


def test_a_branch_starts_at_the_last_point_of_the_trunk_before_it_leaves():
    record = finished()
    trunk, *branches = loss_curves([record]).lines
    for line in branches:
        assert line.horizon is not None
        leaves = record.spec.branch_tokens(line.horizon)
        start = max(D for D in trunk.tokens if D <= leaves)
        assert (line.tokens[0], line.loss[0]) == (start, trunk.loss[trunk.tokens.index(start)])
        assert list(line.tokens) == sorted(line.tokens)
        assert all(leaves < D <= line.horizon for D in line.tokens[1:])


def test_a_branch_without_a_trunk_point_before_it_stands_alone():
    record = finished()
    late = tuple(point for point in record.curve if point.horizon == BUDGETS[0])
    (line,) = loss_curves([replace(record, curve=late)]).lines
    assert line.tokens == tuple(point.tokens for point in late)


def test_lines_of_one_recipe_are_one_trace_broken_between_segments():
    figure = draw(loss_curves([finished(), finished(seed=1)]))
    lines = [trace for trace in figure.data if trace.mode == "lines"]
    assert len(lines) == 2
    trunks, branches = lines
    assert sum(x is None for x in trunks.x) == 2
    assert sum(x is None for x in branches.x) == 4
    assert not trunks.connectgaps


def test_the_csv_holds_exactly_what_is_drawn():
    numbers = loss_curves([*sweep(), diverged(PRESETS["e4m3"])])
    rows = table(numbers).rows
    assert sorted(cast("tuple[float, float]", row[-2:]) for row in rows) == marks(draw(numbers))


def test_a_diverged_run_has_a_cross_at_its_last_point():
    record = diverged(UFP4)
    numbers = loss_curves([finished(), record])
    (mark,) = numbers.diverged
    assert (mark.tokens, mark.loss) == (record.curve[-1].tokens, record.curve[-1].loss)
    (cross,) = [t for t in draw(numbers).data if t.mode == "markers" and "x" in t.marker.symbol]
    assert "loss is nan at step 61" in cross.customdata[0]


def test_a_run_that_diverged_before_its_first_report_has_no_mark():
    assert loss_curves([replace(diverged(UFP4), curve=())]).diverged == ()


def test_an_endpoint_that_is_not_finite_is_no_mark():
    record = finished()
    broken = replace(record.endpoints[0], loss=nan)
    numbers = loss_curves([replace(record, endpoints=(broken, record.endpoints[1]))])
    assert [mark.tokens for mark in numbers.endpoints] == [BUDGETS[1]]


@pytest.mark.parametrize(("entropy", "shown"), [(ENTROPY, ENTROPY), (0.2, None), (40.0, None)])
def test_the_unigram_entropy_is_drawn_only_among_the_losses(entropy, shown):
    record = finished()
    ends = tuple(replace(end, unigram_entropy=entropy) for end in record.endpoints)
    numbers = loss_curves([replace(record, endpoints=ends)])
    assert numbers.unigram_entropy == shown
    assert bool(draw(numbers).layout.shapes) == (shown is not None)


def test_a_long_line_keeps_its_ends_and_extremes_and_says_how_many_points_there_were():
    record = finished()
    one = record.curve[0]
    long = tuple(
        replace(one, step=k, tokens=64 * k, loss=3.0 + (9.0 if k == 1234 else k % 7 / 100))
        for k in range(1, 5001)
    )
    (line,) = loss_curves([replace(record, curve=long)]).lines
    assert len(line.tokens) <= MOST_POINTS
    assert (line.tokens[0], line.tokens[-1]) == (64, 64 * 5000)
    assert line.loss[line.tokens.index(64 * 1234)] == 12.0
    assert min(line.loss) == 3.0
    assert line.num_measured == 5000
    assert list(line.tokens) == sorted(set(line.tokens))


def test_panels_are_the_models_by_size_and_the_baseline_comes_first():
    numbers = loss_curves(tuple(reversed(sweep())))
    assert [model.name for model in numbers.models] == ["tiny", "small", "medium"]
    assert numbers.recipes[0] is BF16_RECIPE


def test_one_column_and_three_columns_draw_the_same_traces():
    numbers = loss_curves(sweep())
    wide, narrow = draw(numbers, columns=3), draw(numbers, columns=1)
    assert wide.data == narrow.data
    assert wide.layout.xaxis3.domain != narrow.layout.xaxis3.domain
    assert narrow.layout.xaxis3.domain == (0, 1)


def test_no_record_gives_a_figure_that_says_so():
    figure = draw(loss_curves([]))
    assert "No training loss" in figure.layout.annotations[0].text
