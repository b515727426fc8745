"""Statements: what they mean, and one sentence for each way to write none."""

import re
from math import inf

import pytest
from hypothesis import assume, given, settings, strategies as st

from sweeps.claims.statement import parse_statement

RECIPES = ("ufp4", "e2m1-ref", "ufp4-bf16(*.up,*.down)", "int4-rht.wgrad-sr.dy")


@pytest.mark.parametrize(
    ("text", "weights", "low", "high"),
    [
        ("gap(ufp4) < gap(e2m1-ref)", {"ufp4": 1, "e2m1-ref": -1}, -inf, 0),
        ("gap(ufp4) <= 0.8 * gap(e2m1-ref)", {"ufp4": 1, "e2m1-ref": -0.8}, -inf, 0),
        ("gap(a) > gap(b)", {"a": 1, "b": -1}, 0, inf),
        ("gap(fp8) < 0.01", {"fp8": 1}, -inf, 0.01),
        ("0.01 > gap(fp8)", {"fp8": 1}, -inf, 0.01),
        ("0 <= -gap(fp8) + 2e-3", {"fp8": 1}, -inf, 0.002),
        ("gap( a b ) >= 1", {"a b": 1}, 1, inf),
        ("(gap(a) + gap(b)) / 2 - gap(c) * 3 < 1 + 1", {"a": 0.5, "b": 0.5, "c": -3}, -inf, 2),
        ("abs(gap(mxfp8)) < 0.01", {"mxfp8": 1}, -0.01, 0.01),
        ("0.01 >= abs(gap(a) - gap(b) - 1)", {"a": 1, "b": -1}, 0.99, 1.01),
        ("gap(x-bf16(*.up,*.down)) < 1", {"x-bf16(*.up,*.down)": 1}, -inf, 1),
    ],
)
def test_a_statement_is_a_contrast_and_where_it_lies(text, weights, low, high):
    found = parse_statement(text)
    assert dict(found.weights) == pytest.approx(weights)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert not found.is_outside


@pytest.mark.parametrize(
    ("text", "low", "high", "region"),
    [
        ("abs(gap(a)) > 0", 0, 0, "other than 0"),
        ("0.01 <= abs(gap(a))", -0.01, 0.01, "beyond -0.01 to 0.01"),
    ],
)
def test_a_difference_that_is_claimed_lies_outside(text, low, high, region):
    found = parse_statement(text)
    assert (found.low, found.high, found.is_outside) == (low, high, True)
    assert found.region == region


def test_the_contrast_is_written_as_a_reader_would():
    text = "gap(ufp4) - gap(a) < 0.5 * gap(b) - gap(c)"
    assert parse_statement(text).contrast == "gap(ufp4) - gap(a) - 0.5 gap(b) + gap(c)"
    assert parse_statement("0 < gap(b) - gap(a)").contrast == "gap(b) - gap(a)"


def test_bf16_cancels_where_the_weights_do_even_in_decimals():
    assert parse_statement("gap(a) < gap(b)").bf16_weight == 0
    text = "0.1 * gap(a) + 0.2 * gap(b) < 0.3 * gap(c)"
    assert parse_statement(text).bf16_weight == 0
    assert parse_statement("gap(a) < 0.8 * gap(b)").bf16_weight == pytest.approx(-0.2)


MISTAKES = [
    ("gap(ufp4", "without its closing bracket"),
    ("gap() < 1", "without a recipe"),
    ("gap(a) == gap(b)", "bound the difference, as in abs(gap(a) - gap(b)) < 0.01"),
    ("gap(a) != 0", "no finite number of runs"),
    ("gap(a)", "compares nothing"),
    ("", "cannot be read"),
    ("gap(a) <", "cannot be read"),
    ("import os", "cannot be read"),
    ("(" * 1000 + "gap(a) < 1", "cannot be read"),
    ("1 < 2", "says nothing about gaps"),
    ("gap(a) - gap(a) < 1", "they cancel"),
    ("gap(a) < gap(b) < gap(c)", "make a claim of each comparison"),
    ("gap(a) < 1 and gap(b) < 1", "make a claim of each"),
    ("gap(a) in gap(b)", "not <, <=, > or >="),
    ("gap(a) * gap(b) < 1", "holds 'gap(a) * gap(b)'; gaps are multiplied and divided by numbers"),
    ("gap(a) / gap(b) < 0.8", "for a ratio write gap(a) < 0.8 * gap(b)"),
    ("gap(a) < 1 / 0", "holds '1 / 0'"),
    ("gap(a) ** 2 < 1", "only + - * / join gaps"),
    ("gap(a) < ufp4", "holds 'ufp4', which is neither gap(RECIPE) nor a number"),
    ("gap(a) < True", "holds 'True'"),
    ("gap(a) < 'x'", "neither gap(RECIPE) nor a number"),
    ("loss(a) < 1", "holds 'loss(a)'"),
    ("abs(gap(a)) + 1 < 2", "abs(...) stands alone on one side"),
    ("abs(gap(a)) < gap(b)", "with something else than a number above 0"),
    ("abs(gap(a)) < 0", "with something else than a number above 0"),
    ("abs(gap(a)) < -1", "with something else than a number above 0"),
    ("gap(a) < 1e999", "not finite"),
    ("1e308 * gap(a) * 1e10 < 1", "not finite"),
    ("gap(a) < 1" + "0" * 400, "not finite"),
    ("gap(a) < _0", "neither gap(RECIPE) nor a number"),
    ("gap(a) < __0", "neither gap(RECIPE) nor a number"),
]


@pytest.mark.parametrize(("text", "words"), MISTAKES, ids=[text[:20] for text, _ in MISTAKES])
def test_what_states_nothing_is_told_so_in_one_sentence(text, words):
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        parse_statement(text)
    assert "\n" not in str(caught.value)


NUMBERS = st.sampled_from(["0.5", "2", "0.8", "1e-2", "3"])
GAPS = st.sampled_from(RECIPES).map(lambda name: f"gap({name})")
SIDES = st.recursive(
    GAPS | NUMBERS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-"]), inner).map(lambda t: f"({' '.join(t)})"),
        st.tuples(NUMBERS, inner).map(lambda t: f"{t[0]} * {t[1]}"),
        st.tuples(inner, NUMBERS).map(lambda t: f"{t[0]} / {t[1]}"),
        inner.map(lambda side: f"-{side}"),
    ),
    max_leaves=5,
)
VALUES = st.fixed_dictionaries({name: st.floats(-1, 1) for name in RECIPES})


@settings(max_examples=150, deadline=None)
@given(sides=st.tuples(SIDES, SIDES), op=st.sampled_from(["<", "<=", ">", ">="]), values=VALUES)
def test_a_statement_is_true_of_the_same_gaps_as_its_text_is_in_python(sides, op, values):
    text = f"{sides[0]} {op} {sides[1]}"
    python = text
    for name in RECIPES:
        python = python.replace(f"gap({name})", f"values[{name!r}]")
    left, right = re.split(r" [<>]=? ", python)

    def distance(gaps: dict[str, float]) -> float:
        return float(eval(left, {"values": gaps}) - eval(right, {"values": gaps}))

    assume(abs(distance(values)) > 1e-9)
    nothing = dict.fromkeys(RECIPES, 0.0)
    slopes = [distance(nothing | {name: 1.0}) - distance(nothing) for name in RECIPES]
    if max(map(abs, slopes)) < 1e-9:
        with pytest.raises(ValueError, match="cancel"):
            parse_statement(text)
        return
    found = parse_statement(text)
    contrast = sum(weight * values[name] for name, weight in found.weights)
    assert (found.low < contrast < found.high) is eval(python, {"values": values})
