"""How a sweep was run: recipes, models, training, data and numerics as tables of text."""

from collections.abc import Sequence
from dataclasses import fields

from dashboards.sheets import Sheet
from dashboards.subject import recipes_of
from dashboards.wording import MISSING, count, scientific
from kernels.recipes import Gemm, Operand, Recipe
from sweeps.records import RunRecord
from sweeps.runspec import CorpusRef, RunSpec, Training
from sweeps.wording import listed


def recipes_used_sheet(records: Sequence[RunRecord]) -> Sheet:
    """The six operands of every recipe, a row for each GEMM."""
    rows: list[tuple[str, ...]] = []
    for recipe in recipes_of(records):
        for name, product, gemm in (
            ("fprop", "x · w", recipe.fprop),
            ("dgrad", "dy · w", recipe.dgrad),
            ("wgrad", "dy · x", recipe.wgrad),
        ):
            rows.append((recipe.name, name, product, *_gemm(gemm), _rules(recipe)))
    return Sheet(
        key="operands",
        caption="Recipes: grid, block × scale and rounding of both operands of each GEMM of the "
        "linear layers in the blocks. RTNE is to nearest, ties to even; SR is stochastic. "
        "Embedding, head and norms are BF16.",
        columns=("Recipe", "GEMM", "Product", "Left operand", "Right operand", "RHT", "Exemptions"),
        rows=tuple(rows),
    )


def models_sheet(records: Sequence[RunRecord]) -> Sheet:
    """Every model shape once."""
    shapes = {(record.N, record.spec.model, record.flops_per_token) for record in records}
    return Sheet(
        key="models",
        caption="Models: N counts non-embedding parameters; FLOPs per token are forward and "
        "backward, an exact count of GEMMs and attention.",
        columns=(
            *("Model", "#N", "#Layers", "#Width", "#Heads", "#MLP width", "MLP"),
            *("#FLOPs per token", "#6 N"),
        ),
        rows=tuple(
            (
                shape.name,
                f"{N:,}",
                str(shape.num_layers),
                str(shape.width),
                str(shape.num_heads),
                str(shape.mlp_width),
                shape.mlp.value,
                scientific(flops),
                scientific(6.0 * N),
            )
            for N, shape, flops in sorted(shapes, key=lambda one: (one[0], one[1].name))
        ),
    )


def settings_sheets(records: Sequence[RunRecord]) -> tuple[Sheet, ...]:
    """Training, data and numerics: one sheet for each distinct set, saying whose it is."""
    groups: dict[tuple[tuple[str, str], ...], list[RunRecord]] = {}
    for record in records:
        groups.setdefault(_settings(record.spec), []).append(record)
    sheets = []
    for number, (settings, owners) in enumerate(groups.items(), start=1):
        models = sorted({record.spec.model.name for record in owners})
        whose = "all runs" if len(groups) == 1 else f"the runs of {listed(models)}"
        sheets.append(
            Sheet(
                key=f"settings-{number}",
                caption=f"Training, data and numerics of {whose}.",
                columns=("Setting", "Value"),
                rows=settings,
            )
        )
    return tuple(sheets)


def _gemm(gemm: Gemm) -> tuple[str, str, str]:
    rht = MISSING if gemm.rht is None else f"{gemm.rht} × {gemm.rht}"
    return _operand(gemm.left), _operand(gemm.right), rht


def _operand(operand: Operand) -> str:
    if operand.grid is None:
        return "bf16"
    block = f"1×{operand.block} {operand.scale.value}"
    return f"{operand.grid.name}, {block}, {operand.rounding.value.upper()}"


def _rules(recipe: Recipe) -> str:
    words = [f"{rule.pattern}: {'quantized' if rule.quantize else 'bf16'}" for rule in recipe.rules]
    return "; ".join(words) or "none"


def _settings(spec: RunSpec) -> tuple[tuple[str, str], ...]:
    return (
        *_corpus(spec.corpus),
        ("Tokenizer", f"{spec.tokenizer.kind.value}, {spec.tokenizer.vocab_size:,} tokens"),
        (
            "Evaluation",
            f"{spec.evaluation.held_out:.3g} of the documents held out, "
            f"{spec.evaluation.tokens:,} tokens read",
        ),
        *_training(spec.training),
        ("Numerics version", str(spec.numerics_version)),
    )


def _corpus(corpus: CorpusRef) -> tuple[tuple[str, str], ...]:
    size = f"{corpus.num_documents:,} documents, {count(corpus.num_bytes)} bytes"
    return (
        ("Corpus", f"{corpus.name} ({corpus.kind.value}), {size}"),
        ("Corpus fingerprint", corpus.fingerprint),
    )


def _training(training: Training) -> tuple[tuple[str, str], ...]:
    values = {field.name: getattr(training, field.name) for field in fields(training)}
    return tuple((_heading(name), f"{value:,}") for name, value in values.items())


def _heading(name: str) -> str:
    return name.replace("_", " ").capitalize()
