"""What `gridlaw numerics` prints for people: surveys, bins of a grid, a tensor under quantizers.

Each function takes an answer of the numerics process and returns lines and tables for a console.
SQNR is in dB to two decimals, gains have four; a dash stands for what is not there.
"""

from collections.abc import Iterator
from itertools import groupby

from rich.console import RenderableType

from api.terminal import MISSING, heading, number, plain_table
from kernels.bias import GridBias
from kernels.quality import Quality, Survey, Surveyed, SurveyedProduct
from sweeps.questions import TensorAnswer

Lines = Iterator[RenderableType]

LOSSES = ("SQNR dB", "gain", "utilisation")


def survey_lines(survey: Survey) -> Lines:
    """Tensors without and with an RHT, Gaussian ones under other quantizers, then products."""
    yield heading(
        f"Tensors of {survey.samples:,} elements, blocks of 1x16 under an FP32 scale, to nearest"
    )
    table = plain_table(
        left=("data", "format"), right=(*LOSSES, *(f"rht16: {name}" for name in LOSSES))
    )
    pairs = groupby(survey.tensors, key=lambda row: (row.data, row.format, _quantizer(row)))
    others = []
    for (data, grid, _), rows in pairs:
        match list(rows):
            case [plain, rotated]:
                table.add_row(data, grid, *_losses(plain.quality), *_losses(rotated.quality))
            case single:
                others += single
    yield table
    yield ""
    yield heading("Other quantizers, without RHT")
    table = plain_table(left=("data", "format", "block", "scale", "rounding"), right=LOSSES)
    for row in others:
        table.add_row(row.data, row.format, *_quantizer(row), *_losses(row.quality))
    yield table
    yield ""
    yield from _product_lines(survey)


def bias_lines(bias: GridBias) -> Lines:
    """Each bin: closed form, share of the elements, measured mean error."""
    yield heading(
        f"Rounding error of {bias.format} by bin, in units of the grid; measured on "
        f"{bias.samples:,} Gaussian elements in blocks of 1x16 under an FP32 scale"
    )
    table = plain_table(left=(), right=("magnitude", "bias", "bias / max", "share", "mean error"))
    maximum = bias.levels[-1].magnitude
    for level in bias.levels:
        relative = None if level.bias is None else level.bias / maximum
        table.add_row(
            f"{level.magnitude:g}",
            number(level.bias, "+.4g"),
            number(relative, "+.4f"),
            f"{level.occupancy:.4f}",
            number(level.error, "+.4f"),
        )
    yield table
    yield ""
    yield (
        "bias = (2 q - q below - q above) / 4, for a density that is constant within the bin; "
        "below 0 magnitudes shrink. The zero bin loses all that falls into it, and the top bin is "
        "open: neither has a closed form."
    )


def tensor_lines(answer: TensorAnswer) -> Lines:
    """Each quantizer, without and with the RHT."""
    shape = "x".join(map(str, answer.shape)) or "one number"
    named = answer.file if answer.tensor is None else f"{answer.tensor} of {answer.file}"
    first = answer.rows[0]
    yield heading(
        f"{named}, {shape}, in blocks of {first.block} under scale {first.scale}, to nearest"
    )
    table = plain_table(
        left=("format", "rht"), right=(*LOSSES, "crest factor", "underflow", "saturation")
    )
    for row in answer.rows:
        quality = row.quality
        table.add_row(
            row.format,
            MISSING if row.rht is None else str(row.rht),
            *_losses(quality),
            number(quality.crest_factor, ".3f"),
            f"{quality.underflow:.4f}",
            f"{quality.saturation:.4f}",
        )
    yield table


def _product_lines(survey: Survey) -> Lines:
    yield heading(
        f"Products with Gaussian weights, blocks of 1x16: mean of {survey.draws} draws and "
        "standard deviation of one"
    )
    table = plain_table(
        left=("data", "rht", "format", "scale"), right=("SQNR dB", "s.d.", "output gain", "s.d.")
    )
    for row in survey.products:
        table.add_row(*_product_cells(row))
    yield table


def _product_cells(row: SurveyedProduct) -> tuple[str, ...]:
    return (
        row.data,
        MISSING if row.rht is None else str(row.rht),
        row.format,
        row.scale,
        f"{row.sqnr:.2f}",
        f"{row.sqnr_sd:.2f}",
        f"{row.gain:.4f}",
        f"{row.gain_sd:.4f}",
    )


def _quantizer(row: Surveyed) -> tuple[str, str, str]:
    return (row.block, row.scale, row.rounding)


def _losses(quality: Quality) -> tuple[str, str, str]:
    return (
        number(quality.sqnr, ".2f"),
        number(quality.gain, ".4f"),
        f"{quality.utilisation:.3f}",
    )
