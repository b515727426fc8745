"""A run's identity: every scientific field moves it, names and places do not."""

import hashlib
import json
from dataclasses import asdict, replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kernels.presets import PRESETS
from kernels.recipes import Precision, Recipe, Rule
from sweeps.plan import expand
from sweeps.runspec import Diagnostics, RunSpec, Seeds
from sweeps.spec import parse_spec
from sweeps.training import Health, Training
from tests.sweeps.leaves import NO_PART, Leaf, as_stored, leaves, moved
from tests.sweeps.specs import CORPUS, mapping


def a_run() -> RunSpec:
    """A quantized run whose every kind of field is in use."""
    plan = expand(parse_spec(mapping(recipes=["e2m1-ref"])), CORPUS)
    spec = next(run.spec for run in plan.runs if not run.spec.recipe.is_bf16)
    rules = (Rule(pattern="blocks.0.*", quantize=False),)
    return replace(spec, recipe=replace(spec.recipe, rules=rules))


def test_every_field_that_is_no_name_or_place_changes_the_identity():
    run = a_run()
    seen = {run.run_id: "the run itself"}
    tried = [leaf for leaf in leaves(run) if leaf.is_part and not _is_unsaid(run, leaf)]
    for leaf in tried:
        run_id = moved(run, leaf).run_id
        assert run_id not in seen, f"{leaf} collides with {seen[run_id]}"
        seen[run_id] = str(leaf)
    assert len(tried) > 95


def _is_unsaid(run: RunSpec, leaf: Leaf) -> bool:
    """None or empty within the recipe: there is no other value of its type to try."""
    value: Any = run
    for step in leaf.path:
        value = value[step] if isinstance(step, int) else getattr(value, step)
    return leaf.path[0] == "recipe" and value in (None, ())


def test_names_and_places_do_not_change_the_identity():
    run = a_run()
    renamed = replace(
        run,
        model=replace(run.model, name="other"),
        recipe=replace(run.recipe, name="other"),
        corpus=replace(run.corpus, name="other", path="/elsewhere"),
        diagnostics=Diagnostics(every=10, layers=("blocks.0.*",)),
    )
    assert renamed != run
    assert renamed.run_id == run.run_id


def test_an_identity_is_the_hash_of_the_plain_json_without_names_and_what_nobody_set():
    def stripped(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: stripped(item) for key, item in value.items() if key not in NO_PART}
        return [stripped(item) for item in value] if isinstance(value, list) else value

    run = as_stored(a_run())
    plain = stripped(json.loads(json.dumps(asdict(run))))
    assert plain["recipe"].pop("gemm") == "fp32"  # which is said only where it is another
    assert plain.pop("health") == asdict(Health())
    for name in ("num_kv_heads", "head_size", "rope_base", "experts"):
        del plain["model"][name]
    for name in ("schedule", "horizon", "final_rate", "optimizer", "momentum"):
        del plain["training"][name]
    del plain["training"]["microbatch_tokens"], plain["training"]["order"]
    del plain["corpus"]["separator"], plain["tokenizer"]["separator"]
    del plain["tokenizer"]["fingerprint"]
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    assert run.run_id == hashlib.sha256(text.encode()).hexdigest()[:16]


def test_identities_of_stored_runs_stay_what_they_were():
    stored = replace(as_stored(a_run()), training_version=1)
    run = replace(stored, recipe=PRESETS["bf16"], numerics_version=1)
    assert run.run_id == "a2cefafd656e9f14"
    assert replace(run, numerics_version=2).run_id == "a5bbdb7cef75c52f"
    assert replace(stored, numerics_version=2).run_id == "4578e64f6e22d842"


@pytest.mark.parametrize("version", [1, 2])
def test_the_precision_of_products_is_part_of_the_identity_unless_it_is_fp32(version):
    run = replace(a_run(), numerics_version=version)
    fp32, tf32, bf16 = (
        replace(run, recipe=replace(run.recipe, gemm=gemm)).run_id
        for gemm in (Precision.FP32, Precision.TF32, Precision.BF16)
    )
    assert fp32 == run.run_id
    assert len({fp32, tf32, bf16}) == 3


def test_two_names_of_one_grid_are_one_run():
    def only(recipe: dict[str, Any]) -> str:
        return expand(parse_spec(mapping(recipes=[recipe])), CORPUS).cells[-1].run_id

    assert only({"format": "e1m2"}) == only({"format": "int4"}) != only({"format": "e2m1"})
    assert only({"format": "int4", "rht": ["fprop", "wgrad"]}) == only(
        {"rht": ["wgrad", "fprop"], "format": "int4"}
    )


@pytest.mark.parametrize("recipe", PRESETS.values(), ids=lambda recipe: recipe.name)
def test_a_label_names_model_recipe_and_seed(recipe: Recipe):
    assert replace(a_run(), recipe=recipe).label == f"2x64h2 {recipe.name} s0"


@pytest.mark.parametrize(
    ("seeds", "label"),
    [
        (Seeds(init=3, data=3, sr=3, rht=3), "s3"),
        (Seeds(data=1), "s0-data1"),
        (Seeds(sr=3), "s0-sr3"),
        (Seeds(init=1), "s1-data0-sr0-rht0"),
    ],
)
def test_streams_that_move_apart_are_named(seeds: Seeds, label: str):
    assert seeds.label == label


def test_no_two_seeds_share_a_label():
    every = [Seeds(init=i, data=d, sr=s, rht=r) for i, d, s, r in product((0, 1, 11), repeat=4)]
    assert len({seeds.label for seeds in every}) == len(every)


@given(
    steps=st.integers(1, 10**6),
    batch=st.sampled_from([1, 1024, 4096]),
    cooldown=st.floats(0.01, 0.9),
)
def test_a_branch_leaves_the_trunk_on_a_step_within_half_a_step_of_its_share(
    steps, batch, cooldown
):
    training = Training(
        context=1,
        batch_tokens=batch,
        learning_rate=1.0,
        warmup_tokens=batch,
        cooldown=cooldown,
    )
    horizon = steps * batch
    trunk = training.branch_tokens(horizon)
    assert trunk % batch == 0
    assert 0 <= trunk <= horizon - batch
    exact = horizon * (1 - cooldown)
    assert abs(trunk - exact) <= batch / 2 * (1 + 1e-9) or trunk == horizon - batch
