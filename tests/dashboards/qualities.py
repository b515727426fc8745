"""Layers whose qualities are known by construction."""

from dashboards.measured_recipe import MeasuredRecipe
from kernels.quality import LayerQuality, OperandQuality, ProductQuality, Quality
from kernels.recipes import Recipe


def quality(codes: int, *, sqnr: float | None, utilisation: float) -> Quality:
    return Quality(
        sqnr=sqnr,
        gain=0.99,
        utilisation=utilisation,
        crest_factor=2.5,
        underflow=0.01,
        saturation=0.0,
        buckets=(1 / codes,) * codes,
    )


def measured(recipe: Recipe, *, layers: int = 3) -> MeasuredRecipe:
    """Layer k has SQNR 20 + k dB, 2 dB more after the RHT, and gain 1 - 0.01 (k + 1)."""
    found = []
    for k in range(layers):
        operands = [
            OperandQuality(
                gemm=gemm,
                operand=word,
                rotates=getattr(recipe, gemm).rht is not None,
                plain=quality(2 * len(operand.grid.magnitudes) - 1, sqnr=20.0 + k, utilisation=0.5),
                rotated=quality(
                    2 * len(operand.grid.magnitudes) - 1, sqnr=22.0 + k, utilisation=0.6 + k / 10
                ),
            )
            for gemm, word, operand in recipe.operands()
            if operand.grid is not None
        ]
        products = [
            ProductQuality(gemm=gemm, sqnr=17.0, gain=1 - 0.01 * (k + 1))
            for gemm in dict.fromkeys(one.gemm for one in operands)
        ]
        found.append(
            LayerQuality(
                layer=f"blocks.{k}.mlp.down", operands=tuple(operands), products=tuple(products)
            )
        )
    return MeasuredRecipe(recipe=recipe, layers=tuple(found))
