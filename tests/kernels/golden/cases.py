"""Which operands have golden vectors, and the inputs that they meet.

Inputs are made of the bits of Philox alone, by sums and products that are exact in binary64, so
that every platform makes the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from math import inf, ldexp, nan

from kernels.blocks import BLOCK_1X16, parse_block
from kernels.formats import E2M1, E4M3, GRIDS, INT4, INT8, Grid
from kernels.operands import Operand, Rounding, Scale
from kernels.presets import PRESETS
from kernels.recipes import RHT_SIZES, Precision, Rht, Signs
from tests.kernels.golden import edges
from tests.kernels.golden.arithmetic import LARGEST, bf16, divide, f32, philox
from tests.kernels.golden.oracle import Matrix, Stream, key

AT = Stream(seed=7, step=3, microbatch=1, layer="blocks.2.mlp.down", gemm="wgrad")
"""Where in a run every case belongs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One operand that meets one input; the draws are those of `word`."""

    name: str
    source: str
    operand: Operand
    rht: Rht | None = None
    word: str = "dy"
    precision: Precision = Precision.FP32


def _normal(row: int, column: int, seed: int) -> float:
    """About standard normal: the sum of eight uniforms of 16 bits, less 4, times 5/4."""
    halves = [
        half / 2**16
        for word in philox((column, row, 0, 1), (seed, 2026))
        for half in divmod(word, 2**16)
    ]
    return (sum(halves) - 4) * 1.25


def _matrix(rows: int, columns: int, seed: int, *, heavy: bool = False) -> Matrix:
    """Normal, or its cube; FP32."""
    power = 3 if heavy else 1
    return [
        [f32(_normal(row, column, seed) ** power) for column in range(columns)]
        for row in range(rows)
    ]


def _in_bf16(x: Matrix) -> Matrix:
    return [[bf16(element) for element in row] for row in x]


def _scaled(x: Matrix, exponents: list[int]) -> Matrix:
    """Row i times 2**exponents[i]."""
    pairs = zip(x, exponents, strict=True)
    return [[f32(ldexp(element, exponent)) for element in row] for row, exponent in pairs]


def _plain() -> Matrix:
    """Normal and heavy rows of two sizes, BF16; with zeros of both signs, and one outlier."""
    x = _scaled(_in_bf16(_matrix(2, 144, 1) + _matrix(2, 144, 2, heavy=True)), [0, -4, 0, 5])
    x[0][16:32] = [0.0, -0.0] * 8
    x[1][128:144] = [0.0] * 5 + [-3.0] + [-0.0] * 10
    return x


def _tiny() -> Matrix:
    """From FP32's least number up to where block scales are normal."""
    x = _scaled(_matrix(5, 64, 4), [-149, -140, -130, -126, -123])
    x[0][16:32] = [2.0**-149, -(2.0**-149)] + [0.0] * 14
    x[4][:16] = [0.75 * 2.0**-126] * 8 + [-(2.0**-127)] * 8
    return x


def _huge() -> Matrix:
    """Up to FP32's largest number."""
    x = _scaled(_matrix(3, 64, 5), [124, 125, 100])
    x[0][3] = -LARGEST
    x[1][20] = LARGEST
    return x


def _broken() -> Matrix:
    """Rows with Inf, -Inf and NaN, a fourth without."""
    x = _in_bf16(_matrix(4, 80, 6))
    x[0][5], x[1][70], x[2][33] = inf, -inf, nan
    return x


def _ties() -> Matrix:
    """Multiples of 1/8 up to 16, one block scale of 1 for E2M1 and for 0 ... 7 among them."""
    return [[(1 if i % 2 else -1) * (i + 64 * row) / 8 for i in range(64)] for row in range(2)]


THIRDS = Grid("thirds", (0.0, 0.1, 0.3, 0.7, 3.3))
SPARSE = Grid("sparse", (0.0, 1e-6, 1.0, 1.0000001, 5e4))
NEAREST = Operand(grid=E2M1)
BITS_AND_OFFSETS = [(bits, half) for bits in (8, 16, 24) for half in (True, False)]
AT_DRAWS = [
    Operand(grid=grid, rounding=Rounding.SR, random_bits=bits, half_offset=half)
    for grid in (E2M1, THIRDS, GRIDS["e3m0"])
    for bits, half in BITS_AND_OFFSETS
]


@cache
def inputs() -> dict[str, Matrix]:
    """Every input by its name; each is FP32 [rows, k]."""
    return {
        "plain": _plain(),
        "fine": _scaled(_matrix(3, 144, 3), [0, 3, -3]),
        "tiny": _tiny(),
        "huge": _huge(),
        "broken": _broken(),
        "ties": _ties(),
        "zero": [[0.0, -0.0] * 16] * 2,
        "tails": _in_bf16(_matrix(5, 75, 7)),
        "tall": _in_bf16(_matrix(35, 72, 8)),
        "wide": _in_bf16(_matrix(2, 300, 9, heavy=True)),
        "large": _in_bf16(_matrix(130, 144, 10)),
        "least-powers": edges.least_powers_of_two(4 / 3),
        "largest-powers": edges.largest_powers_of_two(),
        "scale-ties": edges.scale_ties(6, lambda encode: divide(encode, 6)),
        "reciprocals": edges.scale_ties(
            6 / edges.HEADROOM,
            lambda encode: f32(encode * divide(1, f32(6 / edges.HEADROOM))),
        ),
        "multiplier-ties": edges.multiplier_ties(),
        "on-the-grid": edges.on_the_grid(),
    } | {_draws_name(operand): edges.draws(operand, key(AT, "dy")) for operand in AT_DRAWS}


def _draws_name(operand: Operand) -> str:
    assert operand.grid is not None
    offset = "half" if operand.half_offset else "whole"
    return f"draws-{operand.grid.name}-{operand.random_bits}-{offset}"


def _grids() -> Iterator[Case]:
    for name, grid in {**GRIDS, "thirds": THIRDS, "sparse": SPARSE}.items():
        for source in ("plain", "tiny"):
            yield Case(name=f"{name}-{source}", source=source, operand=Operand(grid=grid))
        stochastic = Operand(grid=grid, rounding=Rounding.SR, random_bits=16)
        yield Case(name=f"{name}-sr", source="fine", operand=stochastic)
    for grid in (E2M1, INT4, GRIDS["e3m0"]):
        yield Case(name=f"{grid.name}-ties", source="ties", operand=Operand(grid=grid))


def _scales() -> Iterator[Case]:
    for scale in Scale:
        for grid in (E2M1, INT4, E4M3):
            operand = Operand(grid=grid, scale=scale)
            yield Case(name=f"{scale}-{grid.name}", source="plain", operand=operand)
            yield Case(name=f"{scale}-{grid.name}-tiny", source="tiny", operand=operand)
        operand = Operand(grid=E2M1, scale=scale)
        for source in ("huge", "broken", "ties", "zero", "fine"):
            yield Case(name=f"{scale}-{source}", source=source, operand=operand)


def _blocks() -> Iterator[Case]:
    for text in ("1x16", "1x32", "1x64", "1x128", "16x16", "32x32", "128x128", "row", "tensor"):
        operand = Operand(grid=E2M1, block=parse_block(text))
        relative = replace(operand, scale=Scale.E4M3)
        source = "large" if text == "128x128" else "tall"
        yield Case(name=text, source=source, operand=operand)
        yield Case(name=f"{text}-tails", source="tails", operand=relative)
        yield Case(
            name=f"{text}-sr", source="tails", operand=replace(operand, rounding=Rounding.SR)
        )


def _rounding() -> Iterator[Case]:
    for bits, half in BITS_AND_OFFSETS:
        sr = Operand(grid=E2M1, rounding=Rounding.SR, random_bits=bits, half_offset=half)
        offset = "half" if half else "whole"
        yield Case(name=f"sr{bits}-{offset}", source="fine", operand=sr)
        yield Case(name=f"sr{bits}-{offset}-tails", source="tails", operand=sr, word="x")
        for scale in (Scale.FP32, Scale.E4M3):
            eden = Operand(
                grid=E2M1,
                scale=scale,
                rounding=Rounding.EDEN,
                random_bits=bits,
                half_offset=half,
                headroom=edges.HEADROOM,
            )
            yield Case(name=f"eden{bits}-{offset}-{scale}", source="plain", operand=eden)
    for scale in Scale:
        for headroom in (17 / 16, 4 / 3, 1.3):
            operand = Operand(grid=E2M1, scale=scale, rounding=Rounding.SR, headroom=headroom)
            name = f"headroom{headroom:.4f}-{scale}"
            yield Case(name=name, source="fine", operand=operand, word="w")
            yield Case(name=f"{name}-tiny", source="tiny", operand=operand, word="w")
    for scale in (Scale.FP32, Scale.E4M3):
        eden = Operand(grid=INT4, scale=scale, rounding=Rounding.EDEN)
        for source in ("tiny", "zero", "huge", "broken", "ties"):
            yield Case(name=f"eden-{scale}-{source}", source=source, operand=eden)


def _alternates() -> Iterator[Case]:
    for scale in (Scale.FP32, Scale.FP32_5BIT, Scale.E4M3):
        for source in ("plain", "fine", "tiny"):
            operand = Operand(grid=E2M1, scale=scale, alternate=4, scale_maximum=256)
            yield Case(name=f"{scale}-{source}", source=source, operand=operand)
    operand = Operand(
        grid=INT8, scale=Scale.E4M3, alternate=100.5, headroom=1.25, rounding=Rounding.SR
    )
    yield Case(name="int8-sr", source="fine", operand=operand)
    for rounding in Rounding:
        for outer in (16, 64, 128):
            operand = Operand(grid=E2M1, scale=Scale.E4M3, outer=outer, rounding=rounding)
            yield Case(name=f"outer{outer}-{rounding}", source="wide", operand=operand)
    operand = Operand(grid=E2M1, scale=Scale.E4M3, outer=128, block=parse_block("1x32"))
    yield Case(name="outer128-broken", source="broken", operand=operand)
    yield Case(name="outer128-alternate", source="fine", operand=replace(operand, alternate=4))


def _transforms() -> Iterator[Case]:
    for size in RHT_SIZES:
        for kind in Signs:
            rht = Rht(size=size, signs=kind, to_bf16=kind is Signs.FIXED)
            yield Case(name=f"{size}-{kind}", source="tails", operand=NEAREST, rht=rht)
        rht = Rht(size=size, signs=Signs.STEP, to_bf16=size == 16)
        yield Case(name=f"{size}-carried", source="fine", operand=Operand(), rht=rht)
    relative = Operand(grid=E2M1, scale=Scale.E4M3, block=BLOCK_1X16, rounding=Rounding.SR)
    for to_bf16 in (False, True):
        rht = Rht(size=64, to_bf16=to_bf16)
        name = "bf16" if to_bf16 else "fp32"
        yield Case(name=f"e4m3-{name}", source="plain", operand=relative, rht=rht)
        yield Case(name=f"broken-{name}", source="broken", operand=NEAREST, rht=rht)


def _presets() -> Iterator[Case]:
    """Each operand of each preset once, however many presets share it."""
    seen = set()
    for name, recipe in PRESETS.items():
        for gemm, word, operand in recipe.operands():
            rht = {"fprop": recipe.fprop, "dgrad": recipe.dgrad, "wgrad": recipe.wgrad}[gemm].rht
            if operand.grid is None or (operand, rht) in seen:
                continue
            seen.add((operand, rht))
            yield Case(
                name=f"{name}-{gemm}-{word}", source="tails", operand=operand, rht=rht, word=word
            )


def _precisions() -> Iterator[Case]:
    """Values of every kind of scale, at both ends of FP32, and of the carrier."""
    for precision in (Precision.TF32, Precision.BF16):
        for scale in (Scale.FP32, Scale.FP32_5BIT, Scale.E4M3, Scale.E8M0_FLOOR):
            for source in ("fine", "tiny", "huge"):
                yield Case(
                    name=f"{precision}-{scale}-{source}",
                    source=source,
                    operand=Operand(grid=INT8, scale=scale),
                    precision=precision,
                )
        relative = Operand(grid=E2M1, scale=Scale.E4M3)
        others = {
            "broken": Operand(grid=E4M3),
            "wide": replace(relative, outer=64, rounding=Rounding.SR),
            "tails": Operand(grid=E2M1, rounding=Rounding.EDEN),
            "tall": replace(relative, block=parse_block("16x16")),
            "ties": Operand(grid=E2M1, scale=Scale.E8M0_EVEN, headroom=1.3),
            "plain": Operand(),
        }
        for source, operand in others.items():
            yield Case(
                name=f"{precision}-{source}",
                source=source,
                operand=operand,
                rht=Rht(size=32) if source in ("tails", "plain") else None,
                precision=precision,
            )


def _edges() -> Iterator[Case]:
    for scale in (Scale.E8M0_FLOOR, Scale.E8M0_RCEIL):
        for headroom in (1.0, 4 / 3):
            operand = Operand(grid=E2M1, scale=scale, headroom=headroom)
            name = f"least-powers-{scale}-{headroom:.4f}"
            yield Case(name=name, source="least-powers", operand=operand)
        operand = Operand(grid=edges.BELOW_ONE, scale=scale)
        yield Case(name=f"largest-powers-{scale}", source="largest-powers", operand=operand)
    relative = replace(NEAREST, scale=Scale.E4M3)
    yield Case(name="scale-ties", source="scale-ties", operand=relative)
    yield Case(name="multiplier-ties", source="multiplier-ties", operand=relative)
    operand = replace(relative, headroom=edges.HEADROOM)
    yield Case(name="reciprocals", source="reciprocals", operand=operand)
    # 448 times 4.8, the target, is another FP32 number if the target is rounded first.
    operand = replace(relative, headroom=1.25)
    yield Case(name="rounded-target", source="fine", operand=operand)
    for operand in AT_DRAWS:
        yield Case(name=_draws_name(operand), source=_draws_name(operand), operand=operand)
    least = Operand(grid=edges.LEAST, rounding=Rounding.SR, random_bits=24)
    yield Case(name="on-the-grid", source="on-the-grid", operand=least)


GROUPS: dict[str, tuple[Case, ...]] = {
    "grids": tuple(_grids()),
    "scales": tuple(_scales()),
    "blocks": tuple(_blocks()),
    "rounding": tuple(_rounding()),
    "alternates": tuple(_alternates()),
    "transforms": tuple(_transforms()),
    "presets": tuple(_presets()),
    "edges": tuple(_edges()),
    "precisions": tuple(_precisions()),
}
"""The cases of each file."""
