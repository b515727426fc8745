"""Each mistake in a spec gives one problem that names its key and value in the user's words."""

import math
from typing import Any

import pytest

from sweeps.errors import SpecError
from sweeps.spec import SweepSpec, parse_spec
from tests.sweeps.specs import mapping, train

OWN = {"format": "int4", "rht": ["wgrad"]}
MODEL = {"layers": 2, "width": 64, "heads": 2}
LOOP: list[object] = []
LOOP.append(LOOP)

MISTAKES = [
    # what is written, key, value, words of the message
    ({"modles": 3}, "modles", "3", "unknown key; did you mean 'models'?"),
    ({"zzz": "x"}, "zzz", "x", "unknown key; the keys here are name, purpose, models"),
    ({"models": [MODEL | {"haeds": 1}]}, "models[0].haeds", "1", "did you mean 'heads'"),
    ({"train": train(contxt=3)}, "train.contxt", "3", "did you mean 'context'"),
    ({"recipes": [OWN | {"rth": []}]}, "recipes[0].rth", "[]", "did you mean 'rht'"),
    ({"tokenizer": {"bpe": 512, "bp": 1}}, "tokenizer.bp", "1", "did you mean 'bpe'"),
    ({"seeds": [{"int": 1}]}, "seeds[0].int", "1", "did you mean 'init'"),
    ({"grid": {"formats": [], "format": ["int4"]}}, "grid.formats", "[]", "mean 'format'"),
    ({"eval": {"token": "1ktok"}}, "eval.token", "1ktok", "did you mean 'tokens'"),
    ({"name": "My Sweep"}, "name", "My Sweep", "must match ^[a-z0-9]"),
    ({"name": ""}, "name", "", "must match"),
    ({"name": 7}, "name", "7", "must be text"),
    ({"name": "x" * 100}, "name", "x" * 77 + "...", "at most 48 characters"),
    ({"models": []}, "models", "[]", "needs at least 1"),
    ({"models": MODEL}, "models", '{"layers": 2, "width": 64, "heads": 2}', "must be a list"),
    ({"models": [3]}, "models[0]", "3", "must be a mapping of keys to values"),
    ({"models": LOOP}, "models[0]", "a list", "must be a mapping"),
    ({"models": [{"layers": 2, "width": 64}]}, "models[0].heads", "", "is required"),
    ({"models": [MODEL | {"width": 33, "heads": 2}], "recipes": ["bf16"]}, "models[0].width", "33",
     "not divisible by heads = 2"),
    ({"models": [MODEL | {"width": 48, "heads": 16}]}, "models[0].heads", "16", "width 3; rotary"),
    ({"models": [MODEL | {"width": 40}]}, "models[0].width", "40",
     "not divisible by the block 16 of recipe ufp4"),
    ({"models": [MODEL | {"mlp_width": 100}]}, "models[0].mlp_width", "100", "block 16 of recipe"),
    ({"models": [MODEL | {"width": -64}]}, "models[0].width", "-64", "must be at least 8"),
    ({"models": [MODEL | {"width": 10**9}]}, "models[0].width", "1000000000", "at most 65536"),
    ({"models": [MODEL | {"width": math.nan}]}, "models[0].width", "NaN", "a whole number"),
    ({"models": [MODEL | {"layers": "2"}]}, "models[0].layers", "2", "must be a whole number"),
    ({"models": [MODEL | {"layers": True}]}, "models[0].layers", "true", "must be a whole number"),
    ({"models": [MODEL | {"mlp": "gelu"}]}, "models[0].mlp", "gelu", "'swiglu' or 'relu2'"),
    ({"models": [MODEL, MODEL | {"name": "b"}]}, "models[1]", "b", "is the same as models[0]"),
    ({"models": [MODEL | {"name": "b"}, MODEL | {"name": "b", "layers": 1}]}, "models[1].name", "b",
     "names models[0] as well"),
    ({"budgets": []}, "budgets", "[]", "needs at least 1"),
    ({"budgets": "1Mtok"}, "budgets", "1Mtok", "must be a list"),
    ({"budgets": ["20"]}, "budgets[0]", "20", "has no unit; write it with one of tok, ktok"),
    ({"budgets": [20]}, "budgets[0]", "20", "has no unit"),
    ({"budgets": ["1mtok"]}, "budgets[0]", "1mtok", "did you mean Mtok?"),
    ({"budgets": ["1e30tok"]}, "budgets[0]", "1e30tok", "at most 1e+15tok"),
    ({"budgets": ["1e27flops"]}, "budgets[0]", "1e27flops", "above the 1000Ttok that a budget has"),
    ({"budgets": ["2ktok"]}, "budgets[0]", "2ktok", "2 of the 4 optimizer steps"),
    ({"budgets": ["11ktok"]}, "budgets[0]", "11ktok", "inside the warm-up of 10.2ktok"),
    ({"budgets": ["1Mtok", "1000ktok"]}, "budgets[1]", "1000ktok", "is the same as budgets[0]"),
    ({"seeds": []}, "seeds", "[]", "needs at least 1"),
    ({"seeds": [0, {"init": 0}]}, "seeds[1]", "init=0 data=0 sr=0 rht=0", "same as seeds[0]"),
    ({"seeds": [-1]}, "seeds[0]", "-1", "must be at least 0"),
    ({"seeds": [2**40]}, "seeds[0]", str(2**40), "must be at most 2147483647"),
    ({"seeds": ["a"]}, "seeds[0]", "a", "a whole number, or a mapping such as"),
    ({"seeds": 0}, "seeds", "0", "must be a list"),
    ({"corpus": ""}, "corpus", "", "must not be empty"),
    ({"tokenizer": "bpe"}, "tokenizer", "bpe",
     "must be 'byte', or a mapping such as {bpe: 512}"),
    ({"tokenizer": 3}, "tokenizer", "3", "must be a mapping of keys to values, or 'byte'"),
    ({"tokenizer": {"bpe": 256}}, "tokenizer.bpe", "256", "must be at least 258"),
    ({"tokenizer": {"bpe": 10**6}}, "tokenizer.bpe", "1000000", "must be at most 65536"),
    ({"train": train(context=128, batch="4ktok")}, "train.batch", "4000tok",
     "not a multiple of context = 128, as 3968tok and 4096tok would be"),
    ({"train": train(context=2048)}, "train.batch", "1024tok", ", as 2048tok would be"),
    ({"train": train(batch=1024)}, "train.batch", "1024", "has no unit; write it with one of tok"),
    ({"train": train(warmup="2tpp")}, "train.warmup", "2tpp", "unknown unit 'tpp'"),
    ({"train": train(learning_rate="fast")}, "train.learning_rate", "fast",
     "must be a number, or the name of a rule: auto, olmo, step-law"),
    ({"train": train(learning_rate=[1])}, "train.learning_rate", "[1]",
     "must be a number, or the name of a rule"),
    ({"train": train(learning_rate=math.inf)}, "train.learning_rate", "Infinity", "must be "),
    ({"train": train(learning_rate=math.nan)}, "train.learning_rate", "NaN", "a finite number"),
    ({"train": train(learning_rate=0)}, "train.learning_rate", "0", "must be above 0"),
    ({"train": train(batch="power-line")}, "train.batch", "power-line",
     "or the name of a rule: olmo, step-law, deepseek and power-lines"),
    ({"train": train(microbatch="176tok")}, "train.microbatch", "176tok",
     "not a multiple of context = 32, as 160tok and 192tok would be"),
    ({"train": train(microbatch="384tok")}, "train.batch", "1024tok",
     "not a multiple of microbatch = 384tok, as 768tok and 1152tok would be"),
    ({"train": train(schedule="linear")}, "train.schedule", "linear", "'wsd' or 'cosine'"),
    ({"train": train(schedule="cosine", cooldown=0.3)}, "train.cooldown", "0.3",
     "is not read: a cosine has no cooldown"),
    ({"train": train(schedule="cosine"), "budgets": ["10ktok"]}, "budgets[0]", "10ktok",
     "is 10.2ktok for model 2x64h2, no longer than the warm-up of 10.2ktok"),
    ({"train": train(momentum=0.9)}, "train.momentum", "0.9",
     "is not read: it is that of muon; what adamw has is beta1"),
    ({"train": train(optimizer="sgd")}, "train.optimizer", "sgd", "'adamw' or 'muon'"),
    ({"train": train(final_rate=-0.1)}, "train.final_rate", "-0.1", "must be at least 0"),
    ({"train": train(order="random")}, "train.order", "random", "'windows' or 'documents'"),
    ({"train": train(max_epochs=0)}, "train.max_epochs", "0", "must be at least 1"),
    ({"health": {"spike": 0}}, "health.spike", "0", "must be above 0"),
    ({"health": {"spikes": 1}}, "health.spikes", "1", "did you mean 'spike'?"),
    ({"resources": {"gpus": 0}}, "resources.gpus", "0", "must be at least 1"),
    ({"resources": {"gpus": 2, "pack": True}}, "resources.pack", "true",
     "several runs share one GPU only where a run takes one, and gpus = 2"),
    ({"resources": {"sharding": "zero"}}, "resources.sharding", "zero", "'shard' or 'replicate'"),
    ({"train": train(cooldown=1.5)}, "train.cooldown", "1.5", "must be at most 0.9"),
    ({"train": train(weight_decay=-1)}, "train.weight_decay", "-1", "must be at least 0"),
    ({"train": train(beta2=1)}, "train.beta2", "1", "must be below 1"),
    ({"train": train(gradient_clip=True)}, "train.gradient_clip", "true", "must be a number"),
    ({"eval": {"held_out": 2}}, "eval.held_out", "2", "must be at most 0.5"),
    ({"eval": {"tokens": "63tok"}}, "eval.tokens", "63tok",
     "needs at least two sequences of context = 32, which is 64tok"),
    ({"eval": {"tokens": "0tok"}}, "eval.tokens", "0tok", "must be above 0"),
    ({3: 4}, "sweep spec", "3", "keys must be text"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "key", "value", "words"), MISTAKES)
def test_one_mistake_is_one_problem_with_key_and_value(changes, key, value, words):
    with pytest.raises(SpecError) as caught:
        parse_spec(mapping() | changes)
    assert len(caught.value.problems) == 1, caught.value
    problem = caught.value.problems[0]
    assert (problem.key, problem.value) == (key, value)
    assert words in problem.message
    assert "\n" not in str(problem)
    assert "pydantic" not in str(problem)


def test_every_problem_is_reported_at_once():
    with pytest.raises(SpecError) as caught:
        parse_spec({"name": "A", "models": [{"width": 0}], "budgets": ["1"], "train": {}, "x": 1})
    assert {problem.key for problem in caught.value.problems} == {
        *("name", "models[0].width", "models[0].layers", "models[0].heads", "budgets[0]"),
        *("train.context", "train.batch", "train.warmup", "x"),
    }
    with pytest.raises(SpecError) as caught:
        parse_spec(mapping(models=[MODEL | {"width": 40}], budgets=["2ktok", "3ktok"]))
    assert [problem.key for problem in caught.value.problems] == [
        *("models[0].width", "budgets[0]", "budgets[1]"),
    ]


def test_the_notebook_object_is_refused_in_the_same_words():
    with pytest.raises(SpecError, match=r"budgets\[0\] = 20: has no unit"):
        SweepSpec(**mapping(budgets=["20"]))
    with pytest.raises(SpecError, match="must be a mapping"):
        SweepSpec.model_validate([1])


def test_a_sweep_too_large_to_plan_is_refused_before_anything_is_laid_out():
    with pytest.raises(SpecError, match="makes 200000 cells; at most 100000"):
        parse_spec(mapping(budgets=[f"{n}Mtok" for n in range(1, 101)], seeds=list(range(1000))))
    lists = [["wgrad"]] * 64
    with pytest.raises(SpecError, match=r"grid = .*makes 4096 recipes; at most 1024"):
        parse_spec(mapping(grid={"format": ["int4"], "rht": lists, "block": [16] * 64}))


@pytest.mark.parametrize("key", ["<", "<text>", "<mapping>", "", "a.b", "[0]", "é"])
@pytest.mark.parametrize(
    "section",
    [
        *(None, "train", "models", "seeds", "tokenizer", "eval", "diagnostics", "grid"),
        *("recipes", "preset", "format", "gemms", "gemm", "operand", "rht"),
    ],
)
def test_an_unknown_key_is_named_whatever_it_looks_like(key, section):
    x = {"format": "int4", key: 1}
    places: dict[str | None, dict[str, Any]] = {
        None: {key: 1},
        "train": {"train": {**train(), key: 1}},
        "models": {"models": [{"layers": 1, "width": 32, "heads": 2, key: 1}]},
        "seeds": {"seeds": [{"init": 0, key: 1}]},
        "recipes": {"recipes": [{"format": "int4", key: 1}]},
        "preset": {"recipes": [{"preset": "ufp4", key: 1}]},
        "format": {"recipes": [{"format": {"name": "m", "magnitudes": [0, 1], key: 1}}]},
        "gemms": {"recipes": [{"name": "m", "fprop": {"x": {"format": "int4"}}, key: 1}]},
        "gemm": {"recipes": [{"name": "m", "wgrad": {"x": {"format": "int4"}, key: 1}}]},
        "operand": {"recipes": [{"name": "m", "dgrad": {"w": x}}]},
        "rht": {"recipes": [{"name": "m", "dgrad": {"w": {"format": "int4"}, "rht": {key: 1}}}]},
        "grid": {"grid": {"format": ["int4"], key: 1}},
        "diagnostics": {"diagnostics": {"every": 3, key: 1}},
        "tokenizer": {"tokenizer": {"bpe": 512, key: 1}},
        "eval": {"eval": {key: 1}},
    }
    with pytest.raises(SpecError) as caught:
        parse_spec(mapping(**places[section]))
    assert any("unknown key" in problem.message for problem in caught.value.problems)
