"""The sections `train`, `health` and `resources`: what they stand for, and what is left out."""

from fractions import Fraction

import pytest

from sweeps.runspec import Resources, Sharding
from sweeps.scaling_rules import Scale
from sweeps.spec import parse_spec, spec_text
from sweeps.train_sections import HealthSection, ResourcesSection, TrainSection
from sweeps.training import Health, OptimizerKind, Order, Schedule, Training
from tests.sweeps.specs import mapping, train

SCALE = Scale(N=200_000_000, D=Fraction(4_000_000_000), M=1_500_000_000)


def section(**changes) -> TrainSection:
    return TrainSection(**train(**changes))


def test_what_is_not_said_has_the_defaults_of_new_sweeps():
    assert section(learning_rate=0.003).training(SCALE) == Training(
        context=32,
        batch_tokens=1024,
        learning_rate=0.003,
        warmup_tokens=10 * 1024,
        order=Order.DOCUMENTS,
    )


def test_every_key_reaches_the_training():
    written = section(
        learning_rate=1,
        schedule="wsd",
        cooldown=0.3,
        final_rate=0.1,
        optimizer="muon",
        momentum=0.9,
        weight_decay=0.2,
        beta1=0.8,
        beta2=0.99,
        gradient_clip=2.0,
        microbatch="512tok",
        order="windows",
        max_epochs=9,
    )
    assert written.training(SCALE) == Training(
        context=32,
        batch_tokens=1024,
        learning_rate=1.0,
        warmup_tokens=10 * 1024,
        cooldown=0.3,
        final_rate=0.1,
        optimizer=OptimizerKind.MUON,
        momentum=0.9,
        weight_decay=0.2,
        beta1=0.8,
        beta2=0.99,
        gradient_clip=2.0,
        microbatch_tokens=512,
        order=Order.WINDOWS,
        max_epochs=9,
    )
    assert written.chosen() == set(TrainSection.model_fields) - {"schedule"}


def test_a_cosine_has_its_horizon_and_wsd_has_none():
    cosine = section(schedule="cosine").training(SCALE)
    assert (cosine.schedule, cosine.horizon) == (Schedule.COSINE, 3_906_250 * 1024)
    assert section().training(SCALE).horizon is None


def test_a_batch_of_a_rule_is_settled_before_warmup_and_horizon():
    ruled = section(batch="step-law", warmup="1Mtok", schedule="cosine").training(SCALE)
    exact = 0.58 * 4e9**0.571
    assert ruled.batch_tokens == pytest.approx(exact, rel=1 / 8)
    assert ruled.warmup_tokens == round(1e6 / ruled.batch_tokens) * ruled.batch_tokens
    assert ruled.horizon == round(4e9 / ruled.batch_tokens) * ruled.batch_tokens


@pytest.mark.parametrize("keys", [{}, {"context": 96}, {"microbatch": "1536tok"}])
def test_a_batch_of_a_rule_holds_whole_sequences_parts_and_blocks(keys):
    for D in (10**6, 10**9, 10**11):
        scale = Scale(N=10**8, D=Fraction(D), M=6 * 10**8)
        training = section(batch="power-lines", **keys).training(scale)
        assert training.batch_tokens % training.context == 0
        assert training.batch_tokens % 128 == 0
        assert training.batch_tokens % (training.microbatch_tokens or 1) == 0


def test_rules_in_use_are_named_by_their_key():
    used = section(batch="olmo", learning_rate="step-law").rules()
    assert {key: name for key, (name, _) in used.items()} == {
        "learning_rate": "step-law",
        "batch": "olmo",
    }
    assert section(learning_rate=0.1).rules() == {}
    assert set(section().rules()) == {"learning_rate"}


def test_health_is_watched_unless_it_is_turned_off():
    assert HealthSection().health() == Health(loss_bound=20.0, spike=1.0, spike_steps=64)
    off = HealthSection(loss_bound=None, spike=None).health()
    assert (off.loss_bound, off.spike) == (None, None)


def test_resources_are_one_unshared_gpu_unless_said():
    assert ResourcesSection().resources() == Resources()
    several = ResourcesSection(gpus=4, sharding="replicate").resources()
    assert several == Resources(gpus=4, sharding=Sharding.REPLICATE)


def test_a_spec_with_rules_and_sections_comes_back_from_its_own_text():
    written = mapping(
        train=train(batch="power-lines", learning_rate="deepseek", warmup="4ktok"),
        health={"spike": None},
        resources={"pack": True},
        budgets=["1Mtok"],
    )
    spec = parse_spec(written)
    text = spec_text(spec)
    assert "batch: power-lines" in text
    assert "spike: null" in text
    assert "microbatch" not in text
    assert parse_spec(spec.model_dump(mode="json")) == spec


def test_a_rule_far_from_where_it_was_fitted_is_said_once_a_key():
    spec = parse_spec(
        mapping(
            train=train(batch="step-law", learning_rate="step-law", warmup="4ktok"),
            budgets=["1Mtok", "2Mtok"],
        )
    )
    said = [sentence for sentence in spec.warnings() if "extrapolation" in sentence]
    assert [sentence.split(",")[0] for sentence in said] == [
        *("train.learning_rate = step-law", "train.batch = step-law"),
    ]
    assert "for model 2x64h2 at 1Mtok: N = " in said[0]
    assert not any("extrapolation" in one for one in parse_spec(mapping()).warnings())


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"schedule": "cosine"}, "train.schedule = cosine has one horizon"),
        ({"batch": "step-law"}, "train.batch = step-law sees the budget"),
        (
            {"schedule": "cosine", "learning_rate": "deepseek"},
            "train.learning_rate = deepseek sees the budget and train.schedule = cosine has one "
            "horizon",
        ),
    ],
)
def test_budgets_that_share_no_trunk_are_said_with_the_reason(changes, why):
    def said(budgets: list[str]) -> list[str]:
        spec = parse_spec(mapping(train=train(warmup="4ktok", **changes), budgets=budgets))
        return [sentence for sentence in spec.warnings() if "share no trunk" in sentence]

    assert said(["1Mtok"]) == []
    (sentence,) = said(["1Mtok", "4Mtok"])
    assert sentence.endswith(f"from its start: {why}")


def test_budgets_on_one_trunk_are_not_said():
    spec = parse_spec(mapping(budgets=["1Mtok", "4Mtok"], train=train(batch="olmo")))
    assert not any("trunk" in sentence for sentence in spec.warnings())
