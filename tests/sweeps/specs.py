"""Sweep specs for tests: one small valid mapping, and any valid mapping for hypothesis."""

import json
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from kernels.recipes import Recipe
from sweeps.recipe_sections import RecipeSection, recipe_of
from sweeps.runspec import CorpusKind, CorpusRef

CORPUS = CorpusRef(
    name="stdlib",
    kind=CorpusKind.STDLIB,
    path="",
    fingerprint="ab" * 32,
    num_bytes=1_000_000,
    num_documents=100,
)


def mapping(**changes: Any) -> dict[str, Any]:
    """A valid spec with some top-level keys changed."""
    return {
        "name": "small",
        "models": [{"layers": 2, "width": 64, "heads": 2}],
        "recipes": ["bf16", "ufp4"],
        "budgets": ["100ktok"],
        "train": {"context": 32, "batch": "1024tok", "warmup": "10ktok"},
    } | changes


def train(**changes: Any) -> dict[str, Any]:
    """A valid `train` section with some keys changed."""
    return {"context": 32, "batch": "1024tok", "warmup": "10ktok"} | changes


def _meaning(entry: Any) -> Recipe:
    section = RecipeSection(**entry) if isinstance(entry, dict) else entry
    return replace(recipe_of(section), name="")


def _written(entry: Any) -> str:
    return json.dumps(entry, sort_keys=True)


GEMM_LISTS = st.lists(st.sampled_from(["fprop", "dgrad", "wgrad"]), unique=True)
OPERAND_LISTS = st.lists(st.sampled_from(["x", "w", "dy"]), unique=True)
MODELS = st.fixed_dictionaries(
    {
        "layers": st.integers(1, 4),
        "width": st.sampled_from([32, 96, 192]),
        "heads": st.sampled_from([1, 2, 4]),
        "mlp": st.sampled_from(["swiglu", "relu2"]),
    },
    optional={"mlp_width": st.sampled_from([160, 224])},
)
OWN_RECIPES = st.fixed_dictionaries(
    {"format": st.sampled_from(["e2m1", "int4", "e4m3"]), "rht": GEMM_LISTS, "sr": OPERAND_LISTS},
    optional={"block": st.sampled_from([16, 32]), "bf16_layers": st.just(["*.down"])},
)
RECIPES = st.sampled_from(["bf16", "e2m1-ref", "ufp4", "e4m3"]) | OWN_RECIPES
SEEDS = st.integers(0, 3) | st.fixed_dictionaries(
    {"init": st.integers(4, 9)}, optional={"data": st.integers(4, 9), "sr": st.integers(4, 9)}
)
BUDGETS = st.sampled_from(["100ktok", "0.2Mtok", "1Mtok", "64tpp", "200tpp", "5e12flops"])
SPECS = st.fixed_dictionaries(
    {
        "name": st.from_regex(r"[a-z0-9][a-z0-9-]{0,10}", fullmatch=True),
        "models": st.lists(MODELS, min_size=1, max_size=3, unique_by=_written),
        "recipes": st.lists(RECIPES, min_size=1, max_size=4, unique_by=_meaning),
        "budgets": st.lists(BUDGETS, min_size=1, max_size=3, unique=True),
        "seeds": st.lists(SEEDS, min_size=1, max_size=3, unique_by=_written),
        "tokenizer": st.just("byte") | st.fixed_dictionaries({"bpe": st.integers(258, 1024)}),
        "train": st.fixed_dictionaries(
            {
                "context": st.sampled_from([32, 64]),
                "batch": st.sampled_from(["1024tok", "2048tok"]),
                "warmup": st.sampled_from(["4ktok", "10ktok"]),
            },
            optional={
                "learning_rate": st.just("auto") | st.floats(1e-5, 1),
                "cooldown": st.floats(0.05, 0.5),
                "weight_decay": st.floats(0, 1),
            },
        ),
        "eval": st.fixed_dictionaries({"held_out": st.floats(0.01, 0.5)}),
    },
    optional={
        "purpose": st.text('abc xyz: #-äλ"', max_size=20),
        "grid": st.fixed_dictionaries(
            {"format": st.just(["e2m1", "int4"]), "sr": st.sampled_from([[[]], [[], ["dy"]]])}
        ),
    },
)
"""Valid specs of every shape, as a user would write them."""
