"""Sweep specs for tests: one small valid mapping, and any valid mapping for hypothesis."""

import json
from typing import Any

from hypothesis import strategies as st
from pydantic import TypeAdapter

from kernels.recipes import Recipe
from sweeps.meaning import meaning
from sweeps.recipe_sections import RecipeEntry, recipe_of
from sweeps.sources import CorpusKind, CorpusRef

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


ENTRIES: TypeAdapter[Any] = TypeAdapter(RecipeEntry)


def _recipe(entry: Any) -> Recipe:
    return recipe_of(ENTRIES.validate_python(entry))


def _meaning(entry: Any) -> Recipe:
    return meaning(_recipe(entry))


def _name(entry: Any) -> str:
    return _recipe(entry).name


def _written(entry: Any) -> str:
    return json.dumps(entry, sort_keys=True)


GEMM_LISTS = st.lists(st.sampled_from(["fprop", "dgrad", "wgrad"]), unique=True)
OPERAND_LISTS = st.lists(st.sampled_from(["x", "w", "dy"]), unique=True)
EXPERTS = st.fixed_dictionaries(
    {"count": st.just(4), "active": st.integers(2, 4), "width": st.sampled_from([32, 64])},
    optional={
        "shared_width": st.just(32),
        "router": st.sampled_from(["sigmoid", "softmax"]),
        "balance_rate": st.floats(0, 0.1),
    },
)
SHAPES = st.fixed_dictionaries(
    {
        "layers": st.integers(1, 4),
        "width": st.sampled_from([32, 96, 192]),
        "heads": st.sampled_from([1, 2, 4]),
        "mlp": st.sampled_from(["swiglu", "relu2"]),
    },
    optional={
        "mlp_width": st.sampled_from([160, 224]),
        "rope_base": st.just(500_000.0),
    },
)
MIXTURES = st.builds(
    lambda shape, experts: (
        {key: shape[key] for key in shape if key != "mlp_width"} | {"experts": experts}
    ),
    SHAPES,
    EXPERTS,
)
MODELS = SHAPES | MIXTURES | st.sampled_from(["50k", "moe-1m"])
OWN_RECIPES = st.fixed_dictionaries(
    {"format": st.sampled_from(["e2m1", "int4", "e4m3"]), "rht": GEMM_LISTS, "sr": OPERAND_LISTS},
    optional={
        "block": st.sampled_from([16, "1x32", "16x16", "row", "tensor"]),
        "scale": st.sampled_from(["fp32", "e4m3", "e8m0-even"]),
        "bf16_layers": st.just(["*.down"]),
        "bf16_last": st.just(0.25),
        "pad": st.booleans(),
        "gemm": st.sampled_from(["fp32", "tf32", "bf16"]),
    },
)
OWN_FORMATS = st.lists(st.integers(1, 40), min_size=1, max_size=6, unique=True).map(
    lambda steps: {"format": {"name": "mine", "magnitudes": [0.0, *map(float, sorted(steps))]}}
)
FULL_RECIPES = st.fixed_dictionaries(
    {
        "name": st.just("full"),
        "fprop": st.fixed_dictionaries(
            {"x": st.fixed_dictionaries({"format": st.sampled_from(["e2m1", "int8"])})},
            optional={"rht": st.fixed_dictionaries({"size": st.sampled_from([8, 32])})},
        ),
    },
    optional={
        "wgrad": st.just({"dy": {"format": "e2m1", "rounding": "sr", "random_bits": 16}}),
        "pad": st.just(True),
        "gemm": st.just("bf16"),
    },
)
EXEMPT_PRESETS = st.fixed_dictionaries(
    {"preset": st.sampled_from(["ufp4", "nvfp4"])},
    optional={"bf16_layers": st.just(["*.up"]), "gemm": st.just("tf32")},
)
RECIPES = st.one_of(
    st.sampled_from(["bf16", "e2m1-ref", "ufp4", "e4m3", "fp16", "int8"]),
    OWN_RECIPES,
    OWN_FORMATS,
    FULL_RECIPES,
    EXEMPT_PRESETS,
)
SEEDS = st.integers(0, 3) | st.fixed_dictionaries(
    {"init": st.integers(4, 9)}, optional={"data": st.integers(4, 9), "sr": st.integers(4, 9)}
)
BUDGETS = st.sampled_from(["100ktok", "0.2Mtok", "1Mtok", "64tpp", "200tpp", "5e12flops"])
CORPORA = st.sampled_from(
    [
        "stdlib",
        "/data/texts",
        {"text": "/data/*.txt"},
        {"jsonl": "/data/*.jsonl", "column": "body"},
        {"parquet": "/data"},
        {"dataset": "owner/name", "subset": "one", "split": "test", "revision": "9f"},
    ]
)
SPECS = st.fixed_dictionaries(
    {
        "name": st.from_regex(r"[a-z0-9][a-z0-9-]{0,10}", fullmatch=True),
        "models": st.lists(MODELS, min_size=1, max_size=3, unique_by=_written),
        "recipes": st.lists(RECIPES, min_size=1, max_size=4, unique_by=(_meaning, _name)),
        "budgets": st.lists(BUDGETS, min_size=1, max_size=3, unique=True),
        "seeds": st.lists(SEEDS, min_size=1, max_size=3, unique_by=_written),
        "tokenizer": st.just("byte") | st.fixed_dictionaries({"bpe": st.integers(258, 1024)}),
        "train": st.fixed_dictionaries(
            {
                "context": st.sampled_from([32, 64]),
                "batch": st.sampled_from(["1024tok", "2048tok", "step-law", "power-lines"]),
                "warmup": st.sampled_from(["4ktok", "10ktok"]),
            },
            optional={
                "learning_rate": st.sampled_from(["auto", "step-law"]) | st.floats(1e-5, 1),
                "schedule": st.sampled_from(["wsd", "cosine"]),
                "final_rate": st.floats(0, 1),
                "optimizer": st.sampled_from(["adamw", "muon"]),
                "weight_decay": st.floats(0, 1),
                "order": st.sampled_from(["windows", "documents"]),
            },
        ),
        "eval": st.fixed_dictionaries({"held_out": st.floats(0.01, 0.5)}),
        "corpus": CORPORA,
    },
    optional={
        "health": st.fixed_dictionaries({"spike": st.none() | st.floats(0.1, 3)}),
        "resources": st.fixed_dictionaries({"pack": st.booleans()}),
        "purpose": st.text('abc xyz: #-äλ"', max_size=20),
        "grid": st.fixed_dictionaries(
            {"format": st.just(["e2m1", "int4"]), "sr": st.sampled_from([[[]], [[], ["dy"]]])}
        ),
    },
)
"""Valid specs of every shape, as a user would write them."""
