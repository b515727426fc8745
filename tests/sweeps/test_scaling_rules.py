"""Rules for rate and batch: against values that their sources state, and by their own laws."""

from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from sweeps.scaling_rules import (
    BATCHES,
    LEARNING_RATES,
    Rule,
    Scale,
    extrapolation,
    ruled_batch,
    ruled_learning_rate,
)

SCALES = st.builds(
    Scale,
    N=st.integers(10_000, 10**12),
    D=st.fractions(10**5, 10**13),
    M=st.integers(60_000, 10**13),
)
EVERY_RULE = [*LEARNING_RATES.items(), *BATCHES.items()]


def scale(N: float, D: float, M: float | None = None) -> Scale:
    return Scale(N=int(N), D=Fraction(int(D)), M=int(6 * N if M is None else M))


def deepseek_llm(layers: int, width: int) -> Scale:
    """Its models: context 4096, 2T tokens, M = 72 l d^2 + 12 l d T."""
    return scale(1, 2e12, 72 * layers * width**2 + 12 * layers * width * 4096)


def test_deepseek_gives_the_rates_and_batches_that_deepseek_llm_was_trained_with():
    small, large = deepseek_llm(30, 4096), deepseek_llm(95, 8192)
    assert ruled_learning_rate("deepseek", small) == pytest.approx(4.2e-4, rel=0.03)
    assert ruled_learning_rate("deepseek", large) == pytest.approx(3.2e-4, rel=0.03)
    assert BATCHES["deepseek"].law(small) == pytest.approx(2304 * 4096, rel=0.03)
    assert BATCHES["deepseek"].law(large) == pytest.approx(4608 * 4096, rel=0.1)


def test_olmo_gives_the_rates_and_batches_of_its_ladder():
    assert ruled_learning_rate("olmo", scale(190e6, 1)) == pytest.approx(9.73e-4, rel=1e-3)
    assert ruled_learning_rate("olmo", scale(3.2e9, 1)) == pytest.approx(3.81e-4, rel=5e-3)
    assert BATCHES["olmo"].law(scale(190e6, 1)) == pytest.approx(0.52e6, rel=0.1)
    assert BATCHES["olmo"].law(scale(3.2e9, 1)) == pytest.approx(3.1e6, rel=0.02)


def test_quartet_gives_the_rates_of_its_scripts():
    rates = {N: ruled_learning_rate("quartet", scale(N, 1)) for N in (30e6, 50e6, 800e6)}
    assert rates == {30e6: 1.2e-3, 50e6: 1.2e-3, 800e6: 7.5e-5}


def test_step_law_and_power_lines_have_their_published_exponents_and_constants():
    one = scale(1, 1)
    assert LEARNING_RATES["step-law"].law(one) == 1.79
    assert BATCHES["step-law"].law(one) == 0.58
    assert BATCHES["power-lines"].law(one) == pytest.approx(0.0306 * 2048)
    rate = LEARNING_RATES["step-law"].law
    assert rate(scale(1e9, 1e9)) / rate(scale(1e8, 1e9)) == pytest.approx(10**-0.713)
    assert rate(scale(1e9, 1e10)) / rate(scale(1e9, 1e9)) == pytest.approx(10**0.307)
    for name, exponent in (("step-law", 0.571), ("power-lines", 0.383)):
        batch = BATCHES[name].law
        assert batch(scale(1, 1e10)) / batch(scale(1, 1e9)) == pytest.approx(10**exponent)


def test_the_automatic_rate_is_that_of_olmo_up_to_a_cap():
    for N in (190e6, 3.2e9, 30e9):
        assert ruled_learning_rate("auto", scale(N, 1)) == ruled_learning_rate("olmo", scale(N, 1))
    assert ruled_learning_rate("auto", scale(50_000, 1)) == 0.01
    assert ruled_learning_rate("olmo", scale(50_000, 1)) > 0.01


@pytest.mark.parametrize(("name", "rule"), EVERY_RULE, ids=lambda value: str(value)[:12])
def test_a_rule_says_whether_it_sees_the_budget(name: str, rule: Rule):
    short, long = scale(1e8, 1e9), scale(1e8, 2e9)
    assert rule.sees_budget == (rule.law(short) != rule.law(long))


@given(SCALES)
def test_a_rate_has_three_digits_of_its_law(where):
    for name, rule in LEARNING_RATES.items():
        rate = ruled_learning_rate(name, where)
        assert rate == pytest.approx(rule.law(where), rel=0.005)
        assert float(f"{rate:.2e}") == rate


@given(SCALES, st.sampled_from([128, 384, 4096]))
def test_a_batch_is_the_nearest_with_three_bits_of_whole_units(where, unit):
    for name, rule in BATCHES.items():
        units, rest = divmod(ruled_batch(name, where, unit), unit)
        assert rest == 0
        assert units >= 1
        odd = units // (units & -units)
        assert odd <= 7
        law = rule.law(where) / unit
        assert abs(units - law) <= max(0.5, law / 8) or units == 1


def test_a_rule_out_of_its_range_says_where():
    step_law = LEARNING_RATES["step-law"]
    assert extrapolation(step_law, scale(200e6, 4e9)) == ""
    assert extrapolation(step_law, scale(50_000, 4e9)) == (
        "N = 5e+04 (fitted from 6e+07 to 1.1e+09)"
    )
    both = extrapolation(step_law, scale(50_000, 1e6))
    assert both.startswith("N = 5e+04 (")
    assert " and D = 1e+06 (fitted from 2e+09 to 1e+11)" in both
    assert "C = 6e+15" in extrapolation(BATCHES["deepseek"], scale(1e6, 1e9))


@given(SCALES)
def test_the_automatic_rate_is_nowhere_called_an_extrapolation(where):
    assert extrapolation(LEARNING_RATES["auto"], where) == ""
