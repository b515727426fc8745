"""The recipes that have a name, and the compact form that most of them are written in.

    compose(grid, rht=[GEMMs], sr=[operands], ...)    one operand for all, but for rounding

Each preset has a section in docs/numerics.md with its source, its six operands, what is exempt and
where it differs from what was published.
"""

from collections.abc import Collection
from dataclasses import replace

from kernels.blocks import BLOCK_1X16, ROW, TENSOR, Block
from kernels.formats import E2M1, E4M3, E5M2, GRIDS, INT4, INT8, Grid
from kernels.loss_scaling import LossScaling
from kernels.operands import Operand, Rounding, Scale, Source
from kernels.recipes import (
    BF16_RECIPE,
    GEMMS,
    OPERANDS,
    Carrier,
    Gemm,
    Precision,
    Recipe,
    Rht,
    Rule,
    Signs,
)


def compose(
    grid: Grid,
    *,
    name: str,
    rht: Collection[str] = (),
    sr: Collection[str] = (),
    scale: Scale = Scale.FP32,
    block: Block = BLOCK_1X16,
    rht_size: int = 16,
    signs: Signs = Signs.LAYER,
    random_bits: int = 8,
    half_offset: bool = True,
    headroom: float = 1.0,
    rules: tuple[Rule, ...] = (),
    pad: bool = False,
    gemm: Precision = Precision.FP32,
) -> Recipe:
    """Recipe of one grid everywhere, with RHT on the named GEMMs and SR on the named operands.

    Args:
        grid: The element grid of all six operands.
        name: What tables call the recipe.
        rht: GEMMs out of `fprop`, `dgrad`, `wgrad`.
        sr: Operands out of `x`, `w`, `dy`, in every GEMM that they enter.
        scale: How block scales are stored.
        block: Which elements share a scale.
        rht_size: Size of the Hadamard matrix.
        signs: How its signs are drawn.
        random_bits: Of a draw of SR.
        half_offset: Whether the draws of SR are centred.
        headroom: Of the operands under SR, which alone can be biased by clipping.
        rules: BF16 exemptions.
        pad: Whether tails of axes are padded.
        gemm: What the products are computed from.

    Raises:
        ValueError: If a GEMM or an operand is unknown or the combination is impossible.
    """
    for given, known, key in ((rht, GEMMS, "rht"), (sr, OPERANDS, "sr")):
        for word in given:
            if word not in known:
                raise ValueError(f"{key} takes {', '.join(known)}, got {word!r}")
    nearest = Operand(grid=grid, block=block, scale=scale)
    stochastic = replace(
        nearest,
        rounding=Rounding.SR,
        random_bits=random_bits,
        half_offset=half_offset,
        headroom=headroom,
    )

    def product(word: str, left: str, right: str) -> Gemm:
        return Gemm(
            left=stochastic if left in sr else nearest,
            right=stochastic if right in sr else nearest,
            rht=Rht(size=rht_size, signs=signs) if word in rht else None,
        )

    return Recipe(
        name=name,
        fprop=product("fprop", "x", "w"),
        dgrad=product("dgrad", "dy", "w"),
        wgrad=product("wgrad", "dy", "x"),
        rules=rules,
        pad=pad,
        gemm=gemm,
    )


def _recipe(name: str, fprop: Gemm, dgrad: Gemm, wgrad: Gemm, *, pad: bool = False) -> Recipe:
    return Recipe(name=name, fprop=fprop, dgrad=dgrad, wgrad=wgrad, pad=pad)


def _fp16() -> Recipe:
    return Recipe(name="fp16", carrier=Carrier.FP16, loss_scaling=LossScaling())


def _fp8_tensor() -> Recipe:
    forward, gradient = (Operand(grid=grid, block=TENSOR) for grid in (E4M3, E5M2))
    return _recipe(
        "fp8-tensor",
        Gemm(left=forward, right=forward),
        Gemm(left=gradient, right=forward),
        Gemm(left=gradient, right=forward),
    )


def _fp8_block() -> Recipe:
    tile = Operand(grid=E4M3, block=Block(along=128))
    weight = Operand(grid=E4M3, block=Block(along=128, across=128))
    return _recipe(
        "fp8-block",
        Gemm(left=tile, right=weight),
        Gemm(left=tile, right=weight),
        Gemm(left=tile, right=tile),
        pad=True,
    )


def _int8() -> Recipe:
    row, weight = Operand(grid=INT8, block=ROW), Operand(grid=INT8, block=TENSOR)
    return _recipe("int8", Gemm(left=row, right=weight), Gemm(left=row, right=weight), Gemm())


def _mxfp4(name: str, *, rht: Collection[str] = (), sr: Collection[str] = ()) -> Recipe:
    """SR draws under the floor rule, whose scaled maxima reach 8 of 6: hence headroom 4/3."""
    return compose(
        E2M1,
        name=name,
        rht=rht,
        sr=sr,
        scale=Scale.E8M0_FLOOR,
        block=Block(along=32),
        rht_size=32,
        headroom=4 / 3,
    )


def _nvfp4() -> Recipe:
    activation = Operand(grid=E2M1, scale=Scale.E4M3)
    weight = replace(activation, block=Block(along=16, across=16))
    gradient = replace(activation, rounding=Rounding.SR)
    return Recipe(
        name="nvfp4",
        fprop=Gemm(left=activation, right=weight),
        dgrad=Gemm(left=gradient, right=weight),
        wgrad=Gemm(left=gradient, right=activation, rht=Rht(signs=Signs.FIXED, to_bf16=True)),
        exempt_first=2 / 62,
        exempt_last=8 / 62,
    )


def _quartet2() -> Recipe:
    """EDEN undoes shrinkage, so its scales are 0.93 of the largest, where the error is least."""
    forward = Operand(grid=E2M1, scale=Scale.E4M3, scale_maximum=256.0, alternate=4.0)
    backward = Operand(
        grid=E2M1,
        scale=Scale.E4M3,
        scale_maximum=256.0,
        rounding=Rounding.EDEN,
        headroom=17 / 16 * 0.93,
    )
    saved = replace(backward, source=Source.FORWARD)
    rht = Rht(size=128, signs=Signs.STEP)
    return _recipe(
        "quartet2",
        Gemm(left=forward, right=forward),
        Gemm(left=backward, right=saved, rht=rht),
        Gemm(left=backward, right=saved, rht=rht),
        pad=True,
    )


def _tetrajet2() -> Recipe:
    nearest = Operand(grid=E2M1, scale=Scale.E4M3, outer=128)
    stochastic = replace(nearest, rounding=Rounding.SR, headroom=17 / 16)
    saved = replace(stochastic, source=Source.FORWARD)
    backward = Gemm(left=stochastic, right=saved, rht=Rht(signs=Signs.STEP))
    return _recipe("tetrajet2", Gemm(left=nearest, right=nearest), backward, backward, pad=True)


def _four_over_six() -> Recipe:
    nearest = Operand(grid=E2M1, scale=Scale.E4M3, scale_maximum=256.0, alternate=4.0)
    gradient = replace(nearest, alternate=None, rounding=Rounding.SR, headroom=17 / 16)
    return _recipe(
        "four-over-six",
        Gemm(left=nearest, right=nearest),
        Gemm(left=gradient, right=nearest),
        Gemm(left=gradient, right=nearest, rht=Rht(signs=Signs.FIXED)),
    )


PRESETS: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        BF16_RECIPE,
        _fp16(),
        _fp8_tensor(),
        _fp8_block(),
        compose(E4M3, name="mxfp8", scale=Scale.E8M0_RCEIL, block=Block(along=32)),
        compose(E4M3, name="e4m3"),
        _int8(),
        _mxfp4("mxfp4"),
        _mxfp4("mxfp4-rht", rht=GEMMS),
        _mxfp4("mxfp4-sr", sr=["dy"]),
        _mxfp4("mxfp4-rht-sr", rht=GEMMS, sr=["dy"]),
        _nvfp4(),
        _four_over_six(),
        _quartet2(),
        _tetrajet2(),
        compose(INT4, name="hifloat4", scale=Scale.FP32_5BIT, block=Block(along=64)),
        compose(E2M1, name="e2m1-ref", rht=["wgrad"], sr=["dy"]),
        compose(GRIDS["e2m1-max2"], name="e2m1-max2", rht=GEMMS, sr=["dy"]),
        compose(GRIDS["e2m1-max3"], name="e2m1-max3", rht=GEMMS, sr=["dy"]),
        compose(GRIDS["e2m1-max4"], name="e2m1-max4", rht=GEMMS, sr=["dy"]),
        compose(INT4, name="ufp4-no-rht", sr=["dy"]),
        compose(INT4, name="ufp4-rht-wgrad", rht=["wgrad"], sr=["dy"]),
        compose(INT4, name="ufp4-rht-dgrad-wgrad", rht=["dgrad", "wgrad"], sr=["dy"]),
        compose(INT4, name="ufp4-rht-fprop-wgrad", rht=["fprop", "wgrad"], sr=["dy"]),
        compose(INT4, name="ufp4", rht=GEMMS, sr=["dy"]),
        compose(INT4, name="ufp4-no-sr", rht=GEMMS),
    )
}
