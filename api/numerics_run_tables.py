"""What `gridlaw numerics run` and `ptq` print for people.

SQNR in dB, losses in nats per token, shares and gains as fractions; a dash stands for what is not
there, or for SQNR without any loss.
"""

from collections.abc import Iterator, Mapping, Sequence

from rich.console import RenderableType
from rich.table import Table

from api.terminal import MISSING, heading, number, plain_table
from dashboards.gain_depth import Gains
from kernels.quality import LayerQuality, OperandQuality, WeightMotion
from kernels.recipes import GEMMS
from sweeps.budget import format_tokens
from sweeps.metrics import Diagnosis
from sweeps.run_questions import CastEndpoint, Difference, PtqAnswer
from sweeps.wording import plural

Lines = Iterator[RenderableType]

MOTION = ("flips", "oscillations", "mismatch")
SQNR, GAIN, SHARE, LOSS = ".2f", ".4f", ".4f", ".4f"


def quality_lines(
    standing: str, recipe: str, layers: Sequence[LayerQuality], gains: Sequence[Gains]
) -> Lines:
    """A table for each layer, then all layers in a row: gains, their products, weight motion."""
    yield standing
    yield (
        f"Measured under {recipe}. SQNR in dB without and with the RHT of the GEMM (size 16 where "
        "it has none); the columns after them are of what the GEMM multiplies."
    )
    for layer in layers:
        yield ""
        yield heading(layer.layer)
        yield _operands(layer.operands)
    yield ""
    yield heading("Over depth (gain: eta of each GEMM; product: of the gains so far)")
    yield _depth(layers, gains)
    yield (
        "flips: share of weights with another code in fprop after one step; oscillations: another "
        "after one, the first again after two; mismatch: relative RMS of the weight in fprop "
        "against dgrad."
    )


def logged_lines(label: str, diagnoses: Sequence[Diagnosis]) -> Lines:
    """A row for each layer of each diagnosis."""
    if not diagnoses:
        yield (
            f"Nothing was diagnosed of {label}; `diagnostics` in a sweep file asks for it, at "
            "steps that the run comes to, of a recipe that quantizes."
        )
        return
    pairs = _pairs(diagnoses)
    yield heading(f"Diagnosed of {label} while it trained (SQNR in dB as multiplied; eta: gain)")
    table = plain_table(
        left=("layer", "path"),
        right=(
            "step",
            *(f"{gemm} {operand}" for gemm, operand in pairs),
            *(f"eta {gemm}" for gemm in GEMMS),
            *MOTION,
        ),
    )
    for one in diagnoses:
        path = "trunk" if one.horizon is None else f"to {format_tokens(one.horizon)}"
        for layer in one.layers:
            ratios = {(o.gemm, o.operand): o.used.sqnr for o in layer.operands}
            gains = {product.gemm: product.gain for product in layer.products}
            table.add_row(
                layer.layer,
                path,
                str(one.step),
                *(number(ratios.get(pair), SQNR) for pair in pairs),
                *(number(gains.get(gemm), GAIN) for gemm in GEMMS),
                *_motion(layer.motion),
            )
    yield table


def ptq_lines(label: str, answer: PtqAnswer, gaps: Mapping[tuple[str, int], float]) -> Lines:
    """A row for each recipe at each horizon.

    Args:
        label: Of the run.
        answer: What was found.
        gaps: L(recipe) - L(bf16) of trained runs as the store has them, by recipe and tokens.
    """
    what = "weights alone" if answer.weights_only else "weights and activations"
    yield heading(
        f"Post-training quantization of {label}: {what} cast by fprop, "
        f"{plural(answer.sequences, 'held-out sequence')} ({answer.eval_tokens} tokens)"
    )
    table = plain_table(
        left=("tokens", "recipe"),
        right=("L(bf16)", "L(cast)", "cost", "se", "trained gap", "se"),
    )
    for row in answer.endpoints:
        gap = gaps.get((row.recipe, row.tokens))
        table.add_row(*_cast(row, gap))
    yield table
    yield (
        "cost: L(cast) less L(bf16), nats per token; trained gap: the same for the run trained "
        "with the recipe; se: standard error of the difference, paired over sequences."
    )


def _cast(row: CastEndpoint, gap: float | None) -> Iterator[str]:
    yield format_tokens(row.tokens)
    yield row.recipe
    yield number(row.loss_bf16, LOSS)
    yield "not finite" if row.loss is None else number(row.loss, LOSS)
    yield from _difference(row.cost)
    yield number(gap, "+.4f")
    yield number(None if row.trained is None else row.trained.se, LOSS)


def _difference(difference: Difference | None) -> tuple[str, str]:
    if difference is None:
        return MISSING, MISSING
    return number(difference.mean, "+.4f"), number(difference.se, LOSS)


def _operands(operands: Sequence[OperandQuality]) -> Table:
    table = plain_table(
        left=("GEMM", "operand", "multiplied"),
        right=("SQNR", "SQNR RHT", "alpha", "utilisation", "crest", "underflow", "saturation"),
    )
    for one in operands:
        used = one.used
        table.add_row(
            one.gemm,
            one.operand,
            "after RHT" if one.rotates else "as it is",
            number(one.plain.sqnr, SQNR),
            number(one.rotated.sqnr, SQNR),
            number(used.gain, GAIN),
            number(used.utilisation, ".3f"),
            number(used.crest_factor, ".2f"),
            number(used.underflow, SHARE),
            number(used.saturation, SHARE),
        )
    return table


def _depth(layers: Sequence[LayerQuality], gains: Sequence[Gains]) -> Table:
    columns = [name for gemm in GEMMS for name in (f"{gemm} gain", "product")]
    table = plain_table(left=("layer",), right=(*columns, *MOTION))
    found = {
        (one.gemm, layer): (gain, product)
        for one in gains
        for layer, gain, product in zip(one.layers, one.gains, one.products, strict=True)
    }
    for layer in layers:
        pairs = [found.get((gemm, layer.layer), (None, None)) for gemm in GEMMS]
        table.add_row(
            layer.layer,
            *(number(value, GAIN) for pair in pairs for value in pair),
            *_motion(layer.motion),
        )
    return table


def _motion(motion: WeightMotion | None) -> tuple[str, ...]:
    if motion is None:
        return (MISSING,) * len(MOTION)
    return (
        number(motion.flips, SHARE),
        number(motion.oscillations, SHARE),
        number(motion.mismatch, SHARE),
    )


def _pairs(diagnoses: Sequence[Diagnosis]) -> tuple[tuple[str, str], ...]:
    """The operands that any layer has, in the order of the GEMMs."""
    found = (
        (operand.gemm, operand.operand)
        for one in diagnoses
        for layer in one.layers
        for operand in layer.operands
    )
    return tuple(dict.fromkeys(found))
