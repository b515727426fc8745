from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest

from dashboards.gap_bars import GapBars, draw, gap_bars, table
from kernels.presets import PRESETS
from kernels.recipes import BF16_RECIPE
from sweeps.gaps.pair import pair
from sweeps.records import RunRecord
from tests.dashboards.records import BUDGETS, diverged, finished, sweep

UFP4 = PRESETS["ufp4"]


def numbers_of(*records: RunRecord) -> GapBars:
    return gap_bars(records, pair(records))


def bars_drawn(figure: go.Figure) -> list[go.Bar]:
    return [trace for trace in figure.data if trace.type == "bar" and trace.x[0] is not None]


def test_a_bar_is_the_difference_of_the_two_endpoint_losses():
    baseline, run = finished(), finished(UFP4)
    first, second = numbers_of(baseline, run).bars
    for bar, ours, theirs in zip((first, second), run.endpoints, baseline.endpoints, strict=True):
        assert bar.mean == pytest.approx(ours.loss - theirs.loss, abs=1e-12)
        assert bar.relative == pytest.approx(100 * (ours.loss / theirs.loss - 1), abs=1e-9)
        assert (bar.low, bar.high, bar.num_diverged) == (None, None, 0)
    assert (first.tokens, second.tokens) == BUDGETS


def test_several_seeds_give_their_mean_their_interval_and_a_dot_each():
    records = sweep([UFP4], models=["small"], seeds=(0, 1, 2))
    gaps = pair(records)
    bar = gap_bars(records, gaps).bars[0]
    cell = gaps.summaries[0].cells[0]
    assert bar.mean == pytest.approx(sum(gap for _, gap in bar.seeds) / 3)
    assert (bar.low, bar.high) == (cell.low, cell.high)
    assert [seed for seed, _ in bar.seeds] == [0, 1, 2]
    figure = draw(gap_bars(records, gaps))
    (shown,) = bars_drawn(figure)
    assert shown.y[0] + shown.error_y.array[0] == pytest.approx(cell.high)
    assert shown.y[0] - shown.error_y.arrayminus[0] == pytest.approx(cell.low)
    (dots,) = [trace for trace in figure.data if trace.type == "scatter"]
    assert len(dots.y) == 6


def test_repeats_say_what_they_would_show_and_where_the_gap_lies_beside_the_margin():
    records = sweep([UFP4], models=["small"], seeds=(0, 1, 2))
    numbers = gap_bars(records, pair(records, margin=0.5))
    bar = numbers.bars[0]
    assert bar.certainty is not None
    assert "beside a margin of 0.5: within" in bar.words
    assert f"detects {bar.certainty.detectable:.4f} with 80 % power" in bar.words
    (row, *_) = table(numbers).rows
    assert row[-3:] == (bar.certainty.detectable, 0.5, "within")
    (alone, *_) = numbers_of(finished(), finished(UFP4)).bars
    assert "margin" not in alone.words


def test_a_whisker_that_ends_at_zero_is_drawn_as_such():
    records = sweep([UFP4], models=["small"], seeds=(0, 1, 2))
    numbers = gap_bars(records, pair(records))
    ends = replace(numbers, bars=tuple(replace(bar, low=0.0) for bar in numbers.bars))
    (shown,) = bars_drawn(draw(ends))
    assert list(np.array(shown.y) - shown.error_y.arrayminus) == pytest.approx([0.0, 0.0])


def test_a_diverged_cell_is_hatched_and_says_so():
    numbers = numbers_of(finished(), diverged(UFP4), finished(PRESETS["e2m1-ref"]))
    lost = [bar for bar in numbers.bars if bar.recipe == "ufp4"]
    assert [(bar.mean, bar.num_diverged) for bar in lost] == [(None, 1), (None, 1)]
    (hatched,) = [t for t in bars_drawn(draw(numbers)) if t.marker.pattern.shape == "/"]
    assert hatched.text == ("diverged", "diverged")
    assert hatched.y == (numbers.top, numbers.top)


def test_a_cell_with_one_diverged_seed_keeps_its_gap_and_counts_the_lost_one():
    records = (
        *sweep([UFP4], models=["small"], seeds=(0, 1)),
        finished(seed=2),
        diverged(UFP4, seed=2),
    )
    bar = numbers_of(*records).bars[0]
    assert (len(bar.seeds), bar.num_diverged) == (2, 1)
    assert "n = 2 seeds, 1 diverged" in bar.words


def test_nothing_is_drawn_for_a_run_without_a_baseline():
    numbers = numbers_of(finished(UFP4))
    assert numbers.bars == ()
    assert "No endpoint has a BF16 partner" in draw(numbers).layout.annotations[-1].text


def test_budgets_that_round_alike_stay_apart():
    close = (1_048_576, 1_049_600)
    records = (finished(BF16_RECIPE, budgets=close), finished(UFP4, budgets=close))
    numbers = numbers_of(*records)
    assert [bar.budget for bar in numbers.bars] == ["1,048,576", "1,049,600"]


def test_the_csv_holds_exactly_the_bars_and_the_dots():
    records = (*sweep(seeds=(0, 1)), diverged(PRESETS["e4m3"]))
    numbers = gap_bars(records, pair(records))
    rows = table(numbers).rows
    figure = draw(numbers)
    means = sorted(y for t in bars_drawn(figure) if t.marker.pattern.shape == "" for y in t.y)
    dots = sorted(y for t in figure.data if t.type == "scatter" for y in t.y)
    assert sorted(float(row[6] or 0) for row in rows if row[0] == "mean") == means
    assert sorted(float(row[6] or 0) for row in rows if row[0] == "seed") == dots
    assert sum(row[0] == "diverged" for row in rows) == 2


def test_few_bars_carry_their_number_and_many_do_not():
    few = bars_drawn(draw(numbers_of(*sweep(models=["small"]))))
    assert few[0].text[0].startswith("+0.0")
    recipes = [PRESETS[name] for name in ("fp16", "fp8-block", "nvfp4", "ufp4", "ufp4-no-sr")]
    many = bars_drawn(draw(numbers_of(*sweep(recipes, models=["small"]))))
    assert all(trace.text is None for trace in many)


def test_a_negative_gap_is_drawn_below_zero():
    baseline, run = finished(), finished(UFP4)
    better = tuple(replace(end, loss=end.loss - 1) for end in run.endpoints)
    (shown,) = bars_drawn(draw(numbers_of(baseline, replace(run, endpoints=better))))
    assert all(y < 0 for y in shown.y)


def test_one_column_and_three_columns_draw_the_same_traces():
    numbers = numbers_of(*sweep())
    assert draw(numbers, columns=3).data == draw(numbers, columns=1).data
