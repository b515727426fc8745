"""The page about models says what the ladder and the sections say."""

import re
from pathlib import Path

from kernels.kept_operands import keeps_quantized_w
from kernels.presets import PRESETS as RECIPES
from sweeps.counts import active_non_embedding_parameters, non_embedding_parameters
from sweeps.families import dense, moe
from sweeps.families.ladder import SHORT_NAMES
from sweeps.memory import LOGIT
from sweeps.model_sections import ExpertsSection, ModelSection
from sweeps.spec import load_spec

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")


def table(header: str) -> list[list[str]]:
    """Rows of the table whose header starts so, in the order of the page."""
    lines = PAGE.split(f"\n| {header} |")[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]


def test_the_dense_ladder_is_that_of_the_family():
    assert table("preset | blocks | width") == [
        [
            *(shape.name, str(shape.num_layers), str(shape.width), str(shape.num_heads)),
            str(shape.kv_width // shape.head_width),
            *(str(shape.head_width), str(shape.mlp_width)),
            f"{non_embedding_parameters(shape):,}",
        ]
        for shape in dense.LADDER
    ]


def test_the_moe_ladder_is_that_of_the_family():
    rows = []
    for shape in moe.LADDER:
        experts = shape.experts
        assert experts is not None
        sizes = (
            *(shape.num_layers, experts.dense_layers, shape.width, shape.num_heads),
            *(shape.num_kv_heads, shape.head_width, experts.count, experts.active),
            *(experts.width, experts.shared_width),
        )
        counts = non_embedding_parameters(shape), active_non_embedding_parameters(shape)
        rows.append([shape.name, *map(str, sizes), *(f"{count:,}" for count in counts)])
    assert table("preset | blocks | dense") == rows


def test_every_key_of_a_model_is_on_the_page():
    assert [row[0] for row in table("key")] == [*ModelSection.model_fields]
    assert [row[0] for row in table("key of `experts`")] == [*ExpertsSection.model_fields]
    assert all(f"`{name}`" in PAGE for name in SHORT_NAMES)


def test_the_example_holds_every_preset_of_the_ladder():
    spec = load_spec(ROOT / "examples" / "ladder.yaml")
    assert spec.shapes() == (*dense.LADDER, *moe.LADDER)


def test_the_recipes_that_keep_quantized_weights_are_named_as_such():
    said = re.search(r"multiplies what forward did \(([^)]*)\)", PAGE)
    assert said is not None
    named = re.findall(r"`([^`]+)`", said[1])
    assert named == [name for name, recipe in RECIPES.items() if keeps_quantized_w(recipe)]


def test_the_bytes_of_a_logit_are_those_of_the_estimate():
    assert f"| logits | {LOGIT} t V;" in PAGE
