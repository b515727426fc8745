"""A run's identity: every scientific field moves it, names and places do not."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, fields, is_dataclass, replace
from enum import Enum
from itertools import product
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kernels.presets import PRESETS
from kernels.recipes import Precision, Recipe, Rule
from sweeps.plan import expand
from sweeps.runspec import Diagnostics, RunSpec, Seeds
from sweeps.spec import parse_spec
from sweeps.training import Training
from tests.sweeps.specs import CORPUS, mapping


def a_run() -> RunSpec:
    """A quantized run whose every kind of field is in use."""
    plan = expand(parse_spec(mapping(recipes=["e2m1-ref"])), CORPUS)
    spec = next(run.spec for run in plan.runs if not run.spec.recipe.is_bf16)
    rules = (Rule(pattern="blocks.0.*", quantize=False),)
    return replace(spec, recipe=replace(spec.recipe, rules=rules))


def other(value: Any) -> Any:
    """A different value of the same type."""
    match value:
        case bool():
            return not value
        case Enum():
            members = list(type(value))
            return members[(members.index(value) + 1) % len(members)]
        case str():
            return value + "x"
        case int() | float():
            return value * 2 + 1
        case _:
            raise AssertionError(value)


def variants(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Copies of a value with one leaf changed each, and the path of the leaf."""
    if is_dataclass(value):
        for field in fields(value):
            for name, changed in variants(getattr(value, field.name), f"{path}.{field.name}"):
                yield name, _set(value, field.name, changed)
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            for name, changed in variants(item, f"{path}[{index}]"):
                yield name, (*value[:index], changed, *value[index + 1 :])
    elif value is not None:
        yield path, other(value)


def _set(value: Any, name: str, changed: Any) -> Any:
    """Like `replace`, past the checks of what makes sense: only the hash is asked."""
    copy = object.__new__(type(value))
    for field in fields(value):
        given = changed if field.name == name else getattr(value, field.name)
        object.__setattr__(copy, field.name, given)
    return copy


def test_every_field_that_is_no_name_or_place_changes_the_identity():
    run = a_run()
    seen = {run.run_id: "the run itself"}
    tried = 0
    for path, changed in variants(run):
        if set(path.split(".")) & set(COSMETIC) or changed == run:
            continue
        assert changed.run_id not in seen, f"{path} collides with {seen[changed.run_id]}"
        seen[changed.run_id] = path
        tried += 1
    assert tried > 80


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


def test_an_identity_is_the_hash_of_the_plain_json_without_names():
    def stripped(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: stripped(item) for key, item in value.items() if key not in COSMETIC}
        return [stripped(item) for item in value] if isinstance(value, list) else value

    run = a_run()
    plain = stripped(json.loads(json.dumps(asdict(run))))
    assert plain["recipe"].pop("gemm") == "fp32"  # which is said only where it is another
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    assert run.run_id == hashlib.sha256(text.encode()).hexdigest()[:16]


def test_identities_of_stored_runs_stay_what_they_were():
    run = replace(a_run(), recipe=PRESETS["bf16"], numerics_version=1)
    assert run.run_id == "a2cefafd656e9f14"
    assert replace(run, numerics_version=2).run_id == "a5bbdb7cef75c52f"
    assert replace(a_run(), numerics_version=2).run_id == "4578e64f6e22d842"


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
