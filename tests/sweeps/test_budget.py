"""Budgets: units, exact resolution, rounding to whole steps."""

from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from sweeps.budget import (
    Measure,
    exact_tokens,
    format_count,
    format_flops,
    format_tokens,
    parse_budget,
    parse_tokens,
    resolve,
    whole_steps,
)


@pytest.mark.parametrize(
    ("text", "measure", "amount"),
    [
        ("500tok", Measure.TOKENS, 500),
        ("4ktok", Measure.TOKENS, 4_000),
        ("50Mtok", Measure.TOKENS, 50_000_000),
        ("1.2Btok", Measure.TOKENS, 1_200_000_000),
        ("2 Ttok", Measure.TOKENS, 2 * 10**12),
        ("20tpp", Measure.TOKENS_PER_PARAMETER, 20),
        ("0.5tpp", Measure.TOKENS_PER_PARAMETER, Fraction(1, 2)),
        ("3e15flops", Measure.FLOPS, 3 * 10**15),
        (" 1.1e+3ktok ", Measure.TOKENS, 1_100_000),
    ],
)
def test_a_budget_means_its_number_times_its_unit_exactly(text, measure, amount):
    budget = parse_budget(text)
    assert (budget.measure, budget.amount) == (measure, amount)
    assert str(budget) == text.strip()


def test_two_spellings_of_one_amount_are_equal():
    assert parse_budget("1Mtok") == parse_budget("1000ktok")
    assert parse_budget("1tok") != parse_budget("1tpp")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("20", "has no unit; write it with one of tok, ktok, Mtok, Btok, Ttok, tpp, flops"),
        (20, "has no unit"),
        ("5mtok", "unknown unit 'mtok'; .*did you mean Mtok"),
        ("5kb", "unknown unit 'kb'"),
        ("3PFLOPS", "did you mean flops"),
        ("tok", "must be a number and a unit"),
        ("", "must be a number and a unit"),
        (None, "must be a number and a unit"),
        (True, "must be a number and a unit"),
        (["4ktok"], "must be a number and a unit"),
        ("nantok", "must be a number and a unit"),
        ("1_000tok", "must be a number and a unit"),
        ("0tok", "must be above 0"),
        ("-5tok", "must be above 0"),
        ("1e99tok", "at most 1e[+]15tok"),
        ("9e9tpp", "at most 1e[+]06tpp"),
        ("1e30flops", "at most 1e[+]27flops"),
    ],
)
def test_what_is_no_budget_is_refused_with_the_reason(given, message):
    with pytest.raises(ValueError, match=message):
        parse_budget(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("20tpp", "unknown unit 'tpp'; the units are tok, ktok, Mtok, Btok, Ttok"),
        ("4096", "has no unit"),
        ("0.5tok", "whole number of tokens"),
        ("0ktok", "above 0"),
        ("1e16tok", "at most"),
    ],
)
def test_a_token_count_takes_token_units_only(given, message):
    assert parse_tokens("1.5ktok") == 1500
    with pytest.raises(ValueError, match=message):
        parse_tokens(given)


def test_each_measure_resolves_by_its_definition():
    sizes = {"N": 50_000, "flops_per_token": 400_000}
    assert resolve(parse_budget("123ktok"), **sizes) == 123_000
    assert resolve(parse_budget("20tpp"), **sizes) == 20 * 50_000
    assert resolve(parse_budget("2e12flops"), **sizes) == 5_000_000
    assert resolve(parse_budget("1e6flops"), **sizes) == Fraction(5, 2)


@given(tokens=st.fractions(0, 10**12), batch=st.integers(1, 10**7))
def test_rounding_gives_the_nearest_whole_number_of_steps_and_at_least_one(tokens, batch):
    rounded = whole_steps(tokens, batch)
    assert rounded % batch == 0
    assert rounded >= batch
    assert abs(rounded - tokens) <= Fraction(batch, 2) or (rounded == batch and tokens < batch)


@given(steps=st.integers(1, 10**6), batch=st.integers(1, 10**6))
def test_a_whole_number_of_steps_is_left_alone(steps, batch):
    assert whole_steps(steps * batch, batch) == steps * batch


@given(st.integers(1, 10**15))
def test_a_formatted_token_count_parses_back_within_its_three_digits(tokens):
    shown = parse_budget(format_tokens(tokens)).amount
    assert abs(shown - tokens) <= Fraction(tokens, 200)


@given(st.integers(1, 10**15))
def test_an_exact_token_count_parses_back(tokens):
    assert parse_tokens(exact_tokens(tokens)) == tokens


def test_an_exact_token_count_has_the_largest_unit_and_no_idle_digits():
    counts = (1, 999, 500_000, 991_232, 10**6, 1_048_576, 2 * 10**12)
    assert [*map(exact_tokens, counts)] == [
        *("1tok", "999tok", "500ktok", "991.232ktok", "1Mtok", "1.048576Mtok", "2Ttok")
    ]


def test_counts_are_shown_with_three_digits():
    assert [format_count(n) for n in (0, 999, 1000, 55_600, 999_499, 1_050_000, 123_456_789)] == [
        *("0", "999", "1k", "55.6k", "999k", "1.05M", "123M")
    ]
    assert format_count(999_999) == "1M"
    assert format_tokens(999_424) == "999ktok"
    assert format_flops(3.021e15) == "3.02e15flops"
