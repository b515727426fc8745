"""How a sweep was run: recipes, models, training, data and numerics as tables of text."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from enum import StrEnum

from dashboards.sheets import Sheet
from dashboards.subject import recipes_of
from dashboards.wording import MISSING, count, scientific
from kernels.formats import E4M3
from kernels.operands import Operand, Rounding, Source
from kernels.recipes import Carrier, Gemm, Precision, Recipe, Rht, Signs
from sweeps.counts import six_n_flops_per_token
from sweeps.records import RunRecord
from sweeps.runspec import RunSpec
from sweeps.shapes import Experts
from sweeps.sources import CorpusRef
from sweeps.training import Health, Training
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
            operands = _gemm(gemm, recipe.carrier)
            rows.append(
                (recipe.name, name, product, *operands, _exemptions(recipe), _besides(recipe))
            )
    return Sheet(
        key="operands",
        caption="Recipes: grid, block and scale, and rounding of both operands of each GEMM of the "
        "linear layers in the blocks. RTNE is to nearest, ties to even; SR is stochastic; EDEN is "
        "RTNE with the block’s shrinkage undone in its scale. Embedding, head and norms are not "
        "quantized.",
        columns=(
            *("Recipe", "GEMM", "Product", "Left operand", "Right operand", "RHT"),
            *("Exemptions", "Besides"),
        ),
        rows=tuple(rows),
    )


def models_sheet(records: Sequence[RunRecord]) -> Sheet:
    """Every model shape once."""
    shapes = {(record.N, record.spec.model, record.flops_per_token) for record in records}
    return Sheet(
        key="models",
        caption="Models: N counts non-embedding parameters; FLOPs per token are forward and "
        "backward, an exact count of GEMMs and attention; 6 N takes the parameters that a token "
        "passes.",
        columns=(
            *("Model", "#N", "#Layers", "#Width", "#Heads", "#KV heads", "#Head width"),
            *("#MLP width", "MLP", "Experts", "#FLOPs per token", "#6 N"),
        ),
        rows=tuple(
            (
                shape.name,
                f"{N:,}",
                str(shape.num_layers),
                str(shape.width),
                str(shape.num_heads),
                str(shape.num_kv_heads or shape.num_heads),
                str(shape.head_width),
                str(shape.mlp_width),
                shape.mlp.value,
                _experts(shape.experts),
                scientific(flops),
                scientific(six_n_flops_per_token(shape)),
            )
            for N, shape, flops in sorted(shapes, key=lambda one: (one[0], one[1].name))
        ),
    )


def devices_sheet(records: Sequence[RunRecord]) -> Sheet:
    """Where the runs trained, and what was found there before they did."""
    found = Counter(
        (preflight.device, len(preflight.checks), preflight.failure or "none")
        for record in records
        if (preflight := record.preflight) is not None
    )
    return Sheet(
        key="devices",
        caption="Devices: what each run’s newest attempt trained on, and the preflight that came "
        "first. A run whose preflight fails does not start.",
        columns=("Device", "#Runs", "#Checks", "Failed"),
        rows=tuple(
            (device, str(runs), str(checks), failure)
            for (device, checks, failure), runs in sorted(found.items())
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


def _experts(experts: Experts | None) -> str:
    """`64 of width 128, 6 a token by sigmoid, 256 shared, from block 1`, or a dash."""
    if experts is None:
        return MISSING
    shared = f", {experts.shared_width} shared" if experts.shared_width else ""
    late = f", from block {experts.dense_layers}" if experts.dense_layers else ""
    return (
        f"{experts.count} of width {experts.width}, {experts.active} a token by "
        f"{experts.router.value}{shared}{late}"
    )


def _gemm(gemm: Gemm, carrier: Carrier) -> tuple[str, str, str]:
    return _operand(gemm.left, carrier), _operand(gemm.right, carrier), _rht(gemm.rht)


def _rht(rht: Rht | None) -> str:
    if rht is None:
        return MISSING
    signs = {
        Signs.NONE: "no signs",
        Signs.FIXED: "fixed signs",
        Signs.LAYER: "signs by layer and GEMM",
        Signs.STEP: "signs by step",
    }[rht.signs]
    return f"{rht.size} × {rht.size}, {signs}" + (", to BF16" if rht.to_bf16 else "")


def _operand(operand: Operand, carrier: Carrier) -> str:
    """`e2m1, 1×16 e4m3, SR, headroom 1.0625`: what is as usual is not said."""
    if operand.grid is None:
        return carrier.value
    block = str(operand.block).replace("x", "×") if operand.block.along else str(operand.block)
    rounding = operand.rounding.value.upper()
    if operand.rounding is not Rounding.RTNE:
        rounding += "" if operand.random_bits == 8 else f" of {operand.random_bits} bits"
        rounding += "" if operand.half_offset else " without half-offset"
    unusual = {
        f"headroom {operand.headroom:g}": operand.headroom != 1,
        f"maximum onto {operand.grid.maximum:g} or {operand.alternate or 0:g}": (
            operand.alternate is not None
        ),
        f"scales up to {operand.scale_maximum:g}": operand.scale_maximum != E4M3.maximum,
        f"FP32 scale by 1×{operand.outer}": operand.outer is not None,
        "from fprop’s values": operand.source is Source.FORWARD,
    }
    said = [words for words, applies in unusual.items() if applies]
    return ", ".join([operand.grid.name, f"{block} {operand.scale.value}", rounding, *said])


def _exemptions(recipe: Recipe) -> str:
    kept = recipe.carrier.value
    shares = {"first": recipe.exempt_first, "last": recipe.exempt_last}
    words = [
        f"{which} {share:.2g} of the blocks: {kept}" for which, share in shares.items() if share
    ]
    words += [f"{rule.pattern}: {'quantized' if rule.quantize else kept}" for rule in recipe.rules]
    return "; ".join(words) or "none"


def _besides(recipe: Recipe) -> str:
    words = ["tails padded"] if recipe.pad else []
    if recipe.gemm is not Precision.FP32:
        words.append(f"operands rounded to {recipe.gemm} for the product")
    if recipe.loss_scaling is not None:
        words.append(f"dynamic loss scaling from {recipe.loss_scaling.initial:,.0f}")
    return "; ".join(words) or MISSING


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
        ("Diverged is", _health(spec.health)),
        ("Numerics version", str(spec.numerics_version)),
        ("Training version", str(spec.training_version)),
    )


def _corpus(corpus: CorpusRef) -> tuple[tuple[str, str], ...]:
    size = f"{corpus.num_documents:,} documents, {count(corpus.num_bytes)} bytes"
    return (
        ("Corpus", f"{corpus.name} ({corpus.kind.value}), {size}"),
        ("Corpus fingerprint", corpus.fingerprint),
    )


def _training(training: Training) -> tuple[tuple[str, str], ...]:
    values = {field.name: getattr(training, field.name) for field in fields(training)}
    return tuple((_heading(name), _setting(value)) for name, value in values.items())


def _health(health: Health) -> str:
    looks = {
        f"a loss above {health.loss_bound} nats": health.loss_bound is not None,
        f"{health.spike} nats above its lowest mean for {health.spike_steps} steps": (
            health.spike is not None
        ),
    }
    return "; ".join([*(words for words, asked in looks.items() if asked), "a number not finite"])


def _setting(value: float | StrEnum | None) -> str:
    match value:
        case None:
            return MISSING
        case StrEnum():
            return value.value
        case _:
            return f"{value:,}"


def _heading(name: str) -> str:
    return name.replace("_", " ").capitalize()
