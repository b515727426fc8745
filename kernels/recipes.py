"""Recipes: what a linear layer does to the operands of its three GEMMs.

    fprop   y  = x w^T    contracts over the input features
    dgrad   dx = dy w     contracts over the output features
    wgrad   dw = dy^T x   contracts over the tokens

A random Hadamard transform (RHT) belongs to a GEMM, since both operands must share it along the
contraction axis for it to cancel; grid, block and rounding belong to an operand. Blocks lie along
the contraction axis. An operand without a grid is BF16.

Sources: UFP4 (arXiv 2606.20381), table 1, for `ufp4` and `e2m1-ref`; both use FP32 block scales
s = amax / grid maximum over 1x16 blocks, no 2-D weight blocks, and SR on dy alone.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from math import lcm

from kernels.formats import E2M1, E4M3, INT4, Grid

NUMERICS_VERSION = 1
"""Rises whenever the same recipe would give other numbers; part of every run's identity."""


class Rounding(StrEnum):
    """How a scaled element is brought onto the grid."""

    RTNE = "rtne"  # to nearest, ties to the even code
    SR = "sr"  # stochastic: up with probability equal to the position between two neighbours


class Scale(StrEnum):
    """How a block's scale is stored."""

    FP32 = "fp32"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """How one operand of a GEMM is represented; without a grid it is plain BF16.

    Raises:
        ValueError: If the block is not a positive multiple of 16, or a BF16 operand asks for SR.
    """

    grid: Grid | None = None
    block: int = 16
    scale: Scale = Scale.FP32
    rounding: Rounding = Rounding.RTNE

    def __post_init__(self) -> None:
        if self.block < 16 or self.block % 16:
            raise ValueError(f"block must be a positive multiple of 16, got {self.block}")
        if self.grid is None and self.rounding is Rounding.SR:
            raise ValueError("stochastic rounding needs a grid; a bf16 operand has none")


BF16 = Operand()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemm:
    """The two operands of one GEMM in the order of the module docstring, and its RHT size.

    Raises:
        ValueError: If the RHT size is not a power of two from 4 to 128, does not divide both
            blocks, or has no quantized operand to act on.
    """

    left: Operand = BF16
    right: Operand = BF16
    rht: int | None = None

    def __post_init__(self) -> None:
        if self.rht is None:
            return
        if self.rht not in (4, 8, 16, 32, 64, 128):
            raise ValueError(f"rht size must be a power of two from 4 to 128, got {self.rht}")
        quantized = [operand for operand in (self.left, self.right) if operand.grid is not None]
        if not quantized:
            raise ValueError("rht needs a quantized operand; both operands of this GEMM are bf16")
        for operand in quantized:
            if operand.block % self.rht:
                raise ValueError(f"rht size {self.rht} does not divide the block {operand.block}")

    @property
    def is_quantized(self) -> bool:
        """Whether either operand leaves BF16."""
        return self.left.grid is not None or self.right.grid is not None

    @property
    def block(self) -> int:
        """What the contraction axis must be divisible by."""
        operands = (self.left, self.right)
        return lcm(*(operand.block for operand in operands if operand.grid is not None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A glob on layer names (`blocks.0.attention.query`), and whether its layers are quantized."""

    pattern: str
    quantize: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The three GEMMs of every linear layer in the blocks; rules are tried in order, first wins."""

    name: str
    fprop: Gemm = Gemm()
    dgrad: Gemm = Gemm()
    wgrad: Gemm = Gemm()
    rules: tuple[Rule, ...] = ()

    @property
    def is_bf16(self) -> bool:
        """Whether nothing is quantized, as in a baseline."""
        return not (self.fprop.is_quantized or self.dgrad.is_quantized or self.wgrad.is_quantized)

    def quantizes(self, layer: str) -> bool:
        """Whether the linear layer of this name follows the GEMMs above rather than BF16."""
        for rule in self.rules:
            if fnmatchcase(layer, rule.pattern):
                return rule.quantize
        return True


GEMMS = ("fprop", "dgrad", "wgrad")
OPERANDS = ("x", "w", "dy")


def compose(
    grid: Grid,
    *,
    name: str,
    rht: Collection[str] = (),
    sr: Collection[str] = (),
    block: int = 16,
    rht_size: int = 16,
    rules: tuple[Rule, ...] = (),
) -> Recipe:
    """Recipe of one grid everywhere, with RHT on the named GEMMs and SR on the named operands.

    Args:
        grid: The element grid of all six operands.
        name: What tables call the recipe.
        rht: GEMMs out of `fprop`, `dgrad`, `wgrad`.
        sr: Operands out of `x`, `w`, `dy`, in every GEMM that they enter.
        block: Elements that share a scale.
        rht_size: Size of the Hadamard matrix.
        rules: BF16 exemptions.

    Raises:
        ValueError: If a GEMM or an operand is unknown or the combination is impossible.
    """
    for given, known, key in ((rht, GEMMS, "rht"), (sr, OPERANDS, "sr")):
        for word in given:
            if word not in known:
                raise ValueError(f"{key} takes {', '.join(known)}, got {word!r}")

    def operand(word: str) -> Operand:
        rounding = Rounding.SR if word in sr else Rounding.RTNE
        return Operand(grid=grid, block=block, rounding=rounding)

    def gemm(word: str, left: str, right: str) -> Gemm:
        size = rht_size if word in rht else None
        return Gemm(left=operand(left), right=operand(right), rht=size)

    return Recipe(
        name=name,
        fprop=gemm("fprop", "x", "w"),
        dgrad=gemm("dgrad", "dy", "w"),
        wgrad=gemm("wgrad", "dy", "x"),
        rules=rules,
    )


BF16_RECIPE = Recipe(name="bf16")

PRESETS: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        BF16_RECIPE,
        compose(E2M1, name="e2m1-ref", rht=["wgrad"], sr=["dy"]),
        compose(INT4, name="ufp4", rht=["fprop", "dgrad", "wgrad"], sr=["dy"]),
        compose(E4M3, name="e4m3"),
    )
}
