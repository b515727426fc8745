"""What can be asked of the numerics process, as values that it and the front doors share.

    TableQuestion       SQNR and gain of grids on known distributions     Survey
    BiasQuestion        mean rounding error in each bin of a grid         GridBias
    TensorQuestion      what quantizers make of a tensor in a file        TensorAnswer
    PreflightQuestion   whether the device computes as it should          Preflight
    RunQuestion, PtqQuestion   about a run: `sweeps.run_questions`

A question is sent as JSON and says by `verb` which one it is. It is checked when it is made, before
a process starts.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from kernels.blocks import parse_block
from kernels.formats import GRIDS, Grid
from kernels.operands import Operand, Scale
from kernels.quality import Surveyed
from kernels.recipes import RHT_SIZES, Gemm, Rht
from sweeps.errors import InputError
from sweeps.run_questions import PtqQuestion, RunQuestion

SAMPLES = 1 << 21
LEAST_SAMPLES = 1 << 16
MOST_SAMPLES = 1 << 26


@dataclass(frozen=True, slots=True, kw_only=True)
class TableQuestion:
    """SQNR and gain on known distributions.

    Attributes:
        samples: Elements drawn of each.
        verb: Which question this is.

    Raises:
        InputError: If the samples are too few to mean something or too many to hold.
    """

    samples: int = SAMPLES
    verb: Literal["table"] = "table"

    def __post_init__(self) -> None:
        _check_samples(self.samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class BiasQuestion:
    """Mean rounding error in each bin of a grid, in closed form and on Gaussian blocks of 16.

    Attributes:
        format: Name of a grid, or its magnitudes as in `0,1,2,4`.
        samples: Elements drawn.
        verb: Which question this is.

    Raises:
        InputError: If there is no such grid, or the samples are too few or too many.
    """

    format: str
    samples: int = SAMPLES
    verb: Literal["bias"] = "bias"

    def __post_init__(self) -> None:
        _check_samples(self.samples)
        grid_of(self.format)


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorQuestion:
    """What quantizers make of a tensor in a file, before and after an RHT.

    Attributes:
        file: Path of a `.npy` or `.safetensors` file.
        tensor: Name of the tensor within it, or None where there is but one.
        axis: Of the tensor, along which blocks lie; negative from the last.
        formats: Grids, as in `BiasQuestion`.
        scale: How block scales are stored.
        block: Which elements share one, as in `1x16`.
        rht: Size of the Hadamard matrix, or None for none.
        verb: Which question this is.

    Raises:
        InputError: If a quantizer makes no sense.
    """

    file: str
    tensor: str | None = None
    axis: int = -1
    formats: tuple[str, ...] = ("e2m1", "int4")
    scale: Scale = Scale.FP32
    block: str = "1x16"
    rht: int | None = 16
    verb: Literal["tensor"] = "tensor"

    def __post_init__(self) -> None:
        self.operands()

    def operands(self) -> tuple[Operand, ...]:
        """The quantizers, one for each format."""
        grids = [grid_of(text) for text in self.formats]
        if self.rht is not None and self.rht not in RHT_SIZES:
            raise InputError(f"rht = {self.rht}: must be a power of two from 4 to 128, or 0")
        rht = None if self.rht is None else Rht(size=self.rht)
        try:
            block = parse_block(self.block)
        except ValueError as error:
            raise InputError(f"block = {self.block}: {error}") from error
        try:
            operands = [Operand(grid=grid, block=block, scale=self.scale) for grid in grids]
            return tuple(Gemm(left=operand, rht=rht).left for operand in operands)
        except ValueError as error:
            raise InputError(str(error)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorAnswer:
    """A tensor under each quantizer, without RHT and, if one was asked for, with it.

    Attributes:
        file: Where it is.
        tensor: Its name there; None where tensors have none.
        shape: As it is in the file.
        rows: Format by format, each without RHT first.
    """

    file: str
    tensor: str | None
    shape: tuple[int, ...]
    rows: tuple[Surveyed, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightQuestion:
    """Whether the device at hand computes as the numerics say.

    Attributes:
        verb: Which question this is.
    """

    verb: Literal["preflight"] = "preflight"


Question = (
    TableQuestion | BiasQuestion | TensorQuestion | PreflightQuestion | RunQuestion | PtqQuestion
)
"""What `workers.numerics` answers; a new verb adds its question here."""


def grid_of(text: str) -> Grid:
    """The grid of a name such as `e2m1`, or of magnitudes such as `0,1,2,4`.

    Raises:
        InputError: If it is neither.
    """
    if text in GRIDS:
        return replace(GRIDS[text], name=text)  # a grid of two names is called as it was asked for
    if "," not in text:
        raise InputError(
            f"format = {text} is no number format; choose one of {', '.join(GRIDS)}, or write "
            "magnitudes as in 0,1,2,4"
        )
    try:
        magnitudes = tuple(float(magnitude) for magnitude in text.split(","))
    except ValueError:
        raise InputError(
            f"format = {text}: magnitudes are numbers with commas between them, as in 0,1,2,4"
        ) from None
    try:
        return Grid(text, magnitudes)
    except ValueError as error:
        raise InputError(f"format = {error}") from error


def scale_of(text: str) -> Scale:
    """The scale of a name such as `e8m0-floor`.

    Raises:
        InputError: If there is no such scale.
    """
    try:
        return Scale(text)
    except ValueError:
        raise InputError(f"scale = {text} is none of {', '.join(Scale)}") from None


def place_of(text: str, folder: Path) -> tuple[str, str | None]:
    """File and name of a tensor, from `FILE` or `FILE:NAME`; the file relative to the folder."""
    path = folder / text
    file, ending, name = text.partition(".safetensors:")
    if not ending or path.exists():
        return str(path), None
    return str(folder / f"{file}.safetensors"), name


def _check_samples(samples: int) -> None:
    if not LEAST_SAMPLES <= samples <= MOST_SAMPLES or samples % LEAST_SAMPLES:
        raise InputError(
            f"samples = {samples}: must be a multiple of {LEAST_SAMPLES} up to {MOST_SAMPLES}"
        )
