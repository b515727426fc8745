"""The tables of sums of parts and of published laws."""

from dashboards.prediction_sheets import (
    additivity_sheet,
    orders_sheet,
    predicted_sheet,
    signs_sheet,
)
from dashboards.wording import MISSING
from sweeps.effective.additivity import Additivity
from sweeps.effective.predictions import Order, Predicted, Signs

SUM = Additivity(
    whole="fp4",
    parts=("forward", "backward"),
    mean=-0.0017,
    sd=0.003,
    t=-2.6,
    interval=(-0.0031, -0.0003),
    n_clusters=21,
    n_pairs=42,
)
SAID = Predicted(
    law="Kumar",
    recipe="fp4",
    N=(1e6, 2e6),
    D=(1e8, 1e8),
    measured=(0.02, 0.04),
    predicted=(0.01, 0.02),
    rms=0.0158,
    same_sign=1.0,
)
SILENT = Predicted(
    law="Kumar", recipe="bf8", N=(1e6,), D=(1e8,), measured=(0.02,), reason="no integer bits"
)
ORDER = Order(law="unified", recipes=("ufp4", "e2m1"), measured=(0.01, 0.02), rank=None, n_cells=6)


def test_every_row_is_as_long_as_the_heads() -> None:
    signs = [Signs(law="Chen", recipe="fp4", with_N=True, with_D=None)]
    for sheet in (
        additivity_sheet([SUM]),
        predicted_sheet([SAID, SILENT]),
        orders_sheet([ORDER]),
        signs_sheet(signs),
    ):
        assert sheet.rows
        assert {len(row) for row in sheet.rows} == {len(sheet.columns)}


def test_an_excess_has_its_sign_its_interval_and_what_it_is_over() -> None:
    (row,) = additivity_sheet([SUM]).rows
    assert row[:4] == ("fp4", "forward and backward", "−0.0017", "[−0.0031, −0.0003]")
    assert row[-2:] == ("21", "42")


def test_a_law_that_says_nothing_has_a_dash_and_the_reason() -> None:
    said, silent = predicted_sheet([SAID, SILENT]).rows
    assert said[3:5] == ("+0.0300", "+0.0150")
    assert said[6] == "100 %"
    assert silent[4:8] == (MISSING,) * 4
    assert silent[-1] == "no integer bits"


def test_an_order_names_each_recipe_with_its_measured_gap() -> None:
    (row,) = orders_sheet([ORDER]).rows
    assert row[1] == "ufp4 +0.0100, e2m1 +0.0200"
    assert row[2] == MISSING


def test_an_exponent_that_may_be_zero_is_open() -> None:
    three = [
        Signs(law="Chen", recipe=str(value), with_N=value, with_D=None)
        for value in (True, False, None)
    ]
    shown = [row[2:4] for row in signs_sheet(three).rows]
    assert shown == [("as predicted", "open"), ("against it", "open"), ("open", "open")]
