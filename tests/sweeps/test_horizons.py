"""Budgets of a model, settled: what the rules see, in which order, and what meets."""

from fractions import Fraction

import pytest

from sweeps.budget import parse_budget
from sweeps.counts import flops_per_token
from sweeps.families.ladder import PRESETS
from sweeps.horizons import Horizon, distinct, horizons_of
from sweeps.shapes import ModelShape
from sweeps.train_sections import TrainSection
from tests.sweeps.specs import train

DENSE, MIXED = PRESETS["50k"], PRESETS["moe-1m"]


def settled(shape: ModelShape, *budgets: str, **changes: object) -> tuple[Horizon, ...]:
    section = TrainSection.model_validate(train(**changes))
    asked = map(parse_budget, budgets)
    return tuple(horizons_of(asked, shape=shape, train=section, vocab_size=257))


def test_a_rule_sees_the_budget_as_it_was_asked():
    (one,) = settled(DENSE, "1234567tok", batch="step-law")
    assert one.scale.D == 1234567
    assert one.tokens % one.training.batch_tokens == 0
    assert abs(one.tokens - 1234567) <= one.training.batch_tokens / 2
    (flops,) = settled(DENSE, "1e12flops", batch="step-law")
    assert flops.scale.D == Fraction(10**12, flops_per_token(DENSE, vocab_size=257, context=32))


def test_tokens_per_parameter_count_all_experts_and_rules_those_that_a_token_passes():
    (one,) = settled(MIXED, "20tpp")
    experts = MIXED.experts
    assert experts is not None
    blocks = MIXED.num_layers - experts.dense_layers
    idle = 3 * MIXED.width * experts.width * (experts.count - experts.active) * blocks
    assert one.scale.D == 20 * (one.scale.N + idle)
    assert one.scale.M == flops_per_token(MIXED, vocab_size=0, context=32)


@pytest.mark.parametrize("vocab_size", [257, 65536])
def test_a_vocabulary_moves_no_rule(vocab_size):
    section = TrainSection.model_validate(train(batch="deepseek", learning_rate="deepseek"))
    budget = parse_budget("1Mtok")
    (one,) = horizons_of([budget], shape=DENSE, train=section, vocab_size=vocab_size)
    assert one == settled(DENSE, "1Mtok", batch="deepseek", learning_rate="deepseek")[0]


def test_of_budgets_that_meet_in_training_and_tokens_the_first_counts():
    found = settled(DENSE, "100ktok", "1Mtok", "100010tok")
    assert [one.budget.text for one in distinct(found)] == ["100ktok", "1Mtok"]
    (kept,) = distinct(settled(DENSE, "100010tok", "100ktok", schedule="cosine"))
    assert kept.budget.text == "100010tok"
