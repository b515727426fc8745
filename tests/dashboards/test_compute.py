from collections.abc import Sequence
from math import log10
from typing import cast

import pytest

from dashboards.compute import REACH, ComputeCurves, compute_curves, draw, table
from kernels.presets import PRESETS
from sweeps.answer import answer
from sweeps.fits.result import Status, curve
from sweeps.records import RunRecord
from tests.dashboards.records import BUDGETS, diverged, finished, sweep

WIDE = (262_144, 524_288, 1_048_576, 2_097_152, 4_194_304)


def numbers_of(records: Sequence[RunRecord]) -> ComputeCurves:
    found = answer(records, resamples=100)
    return compute_curves(found.records, found.fits)


def test_compute_is_tokens_times_flops_per_token():
    record = finished()
    numbers = numbers_of([record])
    assert [point.flops for point in numbers.points] == [
        D * record.flops_per_token for D in BUDGETS
    ]
    assert [point.loss for point in numbers.points] == [end.loss for end in record.endpoints]


def test_what_is_not_identified_has_no_curve_and_a_sentence():
    numbers = numbers_of([finished()])
    assert numbers.bands == ()
    assert numbers.sentences[0].startswith("bf16: no curve. ")


def test_a_law_that_holds_inside_alone_stops_where_the_data_stop():
    numbers = numbers_of(sweep())
    assert numbers.bands
    assert not any(band.beyond for band in numbers.bands)
    for band in numbers.bands:
        assert (band.tokens[0], band.tokens[-1]) == pytest.approx(BUDGETS)
    assert numbers.sentences == (
        "bf16, e2m1-ref and ufp4: the curves stop where the data stop. "
        + answer(sweep()).fits[0].verdict[0],
    )


def test_an_identified_law_goes_on_dashed_beyond_the_data():
    found = answer(sweep((), budgets=WIDE, seeds=(0, 1)), resamples=100)
    (fit,) = found.fits
    assert fit.status is Status.IDENTIFIED
    numbers = compute_curves(found.records, found.fits)
    beyond = [band for band in numbers.bands if band.beyond]
    assert [band.tokens[-1] for band in beyond] == pytest.approx([REACH * WIDE[-1]] * 3)
    assert numbers.sentences == ()
    dashes = {trace.line.dash for trace in draw(numbers).data if trace.mode == "lines"}
    assert {"dash", "solid"} <= dashes


def test_a_band_is_the_fit_evaluated_at_the_models_size():
    found = answer(sweep(), resamples=100)
    numbers = compute_curves(found.records, found.fits)
    fits = {fit.label: fit for fit in found.fits}
    for band in numbers.bands:
        asked = curve(fits[band.recipe], float(band.model.N), band.tokens)
        assert (band.loss, band.low, band.high) == (asked.loss, asked.low, asked.high)
        assert all(
            low <= mid <= high
            for low, mid, high in zip(band.low, band.loss, band.high, strict=True)
        )


def test_a_diverged_horizon_is_a_cross_at_the_top():
    numbers = numbers_of([*sweep(), diverged(PRESETS["e4m3"], model="tiny")])
    assert [point.loss for point in numbers.diverged] == [None, None]
    (crosses,) = [t for t in draw(numbers).data if t.marker.symbol == "x-thin"]
    assert set(crosses.y) == {numbers.loss_range[1]}
    assert list(crosses.x) == [point.flops for point in numbers.diverged]


def test_the_csv_holds_every_endpoint_and_every_point_of_the_curves():
    numbers = numbers_of(sweep())
    rows = table(numbers).rows

    def pairs_of(kind: str) -> list[tuple[float, float]]:
        return [cast("tuple[float, float]", tuple(row[8:10])) for row in rows if row[0] == kind]

    figure = draw(numbers)
    drawn_points = sorted(
        (x, y)
        for trace in figure.data
        if trace.mode == "markers"
        for x, y in zip(trace.x, trace.y, strict=True)
    )
    drawn_fits = sorted(
        (x, y)
        for trace in figure.data
        if trace.mode == "lines" and trace.fill is None
        for x, y in zip(trace.x, trace.y, strict=True)
    )
    assert sorted(pairs_of("endpoint")) == drawn_points
    assert sorted(pairs_of("fit")) == drawn_fits


def test_both_axes_are_logarithmic_and_hold_all_of_the_data():
    numbers = numbers_of(sweep())
    figure = draw(numbers)
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("log", "log")
    low, high = figure.layout.xaxis.range
    assert all(low < log10(point.flops) < high for point in numbers.points)


def test_one_column_and_three_columns_draw_the_same_traces():
    numbers = numbers_of(sweep())
    assert draw(numbers, columns=3).data == draw(numbers, columns=1).data


def test_nothing_measured_gives_a_figure_that_says_so():
    numbers = numbers_of([diverged(PRESETS["ufp4"])])
    assert "No endpoint has been measured" in draw(numbers).layout.annotations[0].text
