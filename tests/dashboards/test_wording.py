import csv
import io
from math import inf, nan

import pytest
from hypothesis import given, strategies as st

from dashboards import wording
from dashboards.facets import log_ticks
from dashboards.plotted import Plotted


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (3.14159, "3.1416"), (-0.5, "−0.5000"), (nan, "not finite"), (inf, "not finite")],
)
def test_nats(value, text):
    assert wording.nats(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.26e15, "1.26 × 10¹⁵"), (5e11, "5 × 10¹¹"), (9.999e2, "1 × 10³"), (2e-7, "2 × 10⁻⁷")],
)
def test_scientific(value, text):
    assert wording.scientific(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.3456789, "0.3457"), (-2.5, "−2.5"), (0.0, "0"), (123456.0, "1.23 × 10⁵"), (None, "–")],
)
def test_constant(value, text):
    assert wording.constant(value) == text


def test_a_gap_carries_its_sign():
    assert wording.signed(0.01234) == "+0.0123"
    assert wording.percent(-1.5) == "−1.50 %"
    assert wording.interval(-0.01, 0.02) == "[−0.0100, +0.0200]"
    assert wording.interval(None, 0.02) == "–"


def test_counts_that_round_alike_are_written_in_full():
    assert wording.counts([1_048_576, 1_049_600, 2_000_000]) == {
        1_048_576: "1,048,576",
        1_049_600: "1,049,600",
        2_000_000: "2M",
    }


def test_a_name_in_a_figure_is_escaped_and_cut():
    assert wording.drawn("<b>&x") == "&lt;b&gt;&amp;x"
    assert len(wording.drawn("long" * 40)) == 36


@given(
    st.floats(min_value=1e-3, max_value=1e21),
    st.floats(min_value=1.0001, max_value=1e12),
    st.integers(min_value=4, max_value=8),
)
def test_log_ticks_lie_inside_in_order_and_are_few(low, ratio, most):
    ticks = log_ticks(low, low * ratio, most)
    assert list(ticks) == sorted(set(ticks))
    assert len(ticks) <= most + 1
    assert ticks or ratio < 2
    assert all(low * (1 - 1e-9) <= tick <= low * ratio * (1 + 1e-9) for tick in ticks)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (3e4, 2.1e6, (5e4, 1e5, 2e5, 5e5, 1e6, 2e6)),
        (2.3, 3.2, (2.4, 2.6, 2.8, 3.0, 3.2)),
        (1e3, 1e12, (1e3, 1e5, 1e7, 1e9, 1e11)),
        (7.0, 7.0, (7.0,)),
    ],
)
def test_log_ticks_are_round(low, high, ticks):
    assert log_ticks(low, high) == pytest.approx(ticks)


@given(
    st.lists(
        st.tuples(
            st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
            st.floats(allow_nan=False, allow_infinity=False),
            st.integers(),
        )
    )
)
def test_csv_reads_back_to_the_same_numbers(rows):
    header, *read = csv.reader(io.StringIO(Plotted(("a", "b", "c"), rows).csv(), newline=""))
    assert header == ["a", "b", "c"]
    assert [(float(b), int(c)) for _, b, c in read] == [(b, c) for _, b, c in rows]
    assert [a.removeprefix("'") for a, _, _ in read] == [a.removeprefix("'") for a, _, _ in rows]


def test_csv_has_no_nan_and_no_field_that_a_spreadsheet_would_run():
    text = Plotted(("a", "b", "c", "d"), [(None, nan, -inf, "=1+1"), ("-2", 1.5, -3, "x")]).csv()
    assert text == "a,b,c,d\r\n,,,'=1+1\r\n'-2,1.5,-3,x\r\n"
