"""Diagnostics: what a recipe does to operands and products, as values of `kernels.quality`.

    SQNR           10 log10(sum y^2 / sum (yq - y)^2)   y after the RHT, which keeps sum y^2
    gain α         <yq, y> / sum y^2                    yq = α y + what is orthogonal to y
    utilisation    exp(-sum p log p) / (2n - 1)         p: shares of the signed codes
    output gain η  <zq, z> / sum z^2                    z: a GEMM's product; η is near α α'

What is not finite does not count. Sums are in binary64.

Source: UFP4 (arXiv 2606.20381), sections on accumulation and diagnostics.
"""

from collections.abc import Iterator, Mapping
from math import log10
from typing import NamedTuple

import torch
from torch import Tensor

from kernels.codes import Encoded, encoded
from kernels.formats import Grid
from kernels.gemm import FORMS, FPROP, Form, LayerPass
from kernels.hadamard import Rotation
from kernels.matmul import carried_matmul
from kernels.operands import Operand, Source
from kernels.quality import LayerQuality, OperandQuality, ProductQuality, Quality
from kernels.recipes import Precision, Rht

OVERSHOOT = 1 + 2.0**-20
"""The rounding of a scale can lift a block's largest element this far; it is no saturation."""


def quality(
    x: Tensor,
    operand: Operand,
    *,
    rotation: Rotation | None = None,
    axis: int = 1,
    key: int = 0,
    precision: Precision = Precision.FP32,
) -> Quality:
    """What an operand loses; arguments as in `kernels.reference.fake_quantize`.

    Raises:
        ValueError: If the operand has no grid, or x is not a matrix with elements.
    """
    panels = encoded(x, operand, rotation=rotation, axis=axis, key=key, precision=precision)
    assert operand.grid is not None
    return _total([_tally(panel, operand.grid) for panel in panels])


class _Tally(NamedTuple):
    """Sums over some elements, binary64 without axes, but for `counts` [2n - 1]."""

    power: Tensor
    noise: Tensor
    likeness: Tensor
    counts: Tensor
    nonzero: Tensor
    lost: Tensor
    beyond: Tensor
    crest: Tensor
    blocks: Tensor


@torch.no_grad()
def _tally(panel: Encoded, grid: Grid) -> _Tally:
    y, yq, q, codes = panel.original, panel.values, panel.scaled, panel.codes
    sums = _sums(y, yq)
    if not sums[1].isfinite():
        finite = y.isfinite() & yq.isfinite()
        y, yq, q, codes = y[finite], yq[finite], q[finite], codes[finite]
        sums = _sums(y, yq)
    crest = panel.crest[panel.crest.isfinite()]
    nonzero = y != 0
    top = len(grid.magnitudes) - 1
    return _Tally(
        *sums,
        counts=torch.bincount(codes.flatten() + top, minlength=2 * top + 1),
        nonzero=nonzero.sum(),
        lost=(nonzero & (yq == 0)).sum(),
        beyond=(q.abs() > grid.maximum * OVERSHOOT).sum(),
        crest=crest.double().sum(),
        blocks=torch.full_like(sums[0], len(crest)),
    )


def _total(tallies: list[_Tally]) -> Quality:
    total = _Tally(*(torch.stack(column).double().sum(0) for column in zip(*tallies, strict=True)))
    sqnr, gain = _ratios(total.power, total.noise, total.likeness)
    elements = float(total.counts.sum())
    buckets = total.counts / max(1.0, elements)
    return Quality(
        sqnr=sqnr,
        gain=gain,
        utilisation=float(torch.special.entr(buckets).sum().exp()) / len(buckets),
        crest_factor=float(total.crest / total.blocks) if total.blocks else None,
        underflow=float(total.lost) / max(1.0, float(total.nonzero)),
        saturation=float(total.beyond) / max(1.0, elements),
        buckets=tuple(buckets.tolist()),
    )


@torch.no_grad()
def sqnr_and_gain(original: Tensor, quantized: Tensor) -> tuple[float | None, float | None]:
    """SQNR in dB, None if nothing was lost, and gain; both None if the original is zero."""
    return _ratios(*_sums(original, quantized))


def _sums(original: Tensor, quantized: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Power, noise and likeness: sum z^2, sum (zq - z)^2 and sum zq z."""
    z, zq = original.double().flatten(), quantized.double().flatten()
    noise = zq - z
    return z @ z, noise @ noise, zq @ z


def _ratios(power: Tensor, noise: Tensor, likeness: Tensor) -> tuple[float | None, float | None]:
    if power == 0:
        return None, None
    return (10 * log10(power / noise) if noise > 0 else None), float(likeness / power)


def operand_quality(
    call: LayerPass, form: Form, word: str, tensor: Tensor, *, rht: Rht | None = None
) -> OperandQuality:
    """An operand of a GEMM without an RHT and with one.

    Args:
        call: The layer's recipe and streams.
        form: Which GEMM.
        word: `x`, `w` or `dy`, one of its two operands.
        tensor: [rows, columns] as it lies in memory, rounded to the carrier.
        rht: What to try where the GEMM has none; None for one of 16.

    Raises:
        ValueError: If the operand has no grid.
    """
    gemm = call.gemm(form)
    operand = gemm.left if word == form.left else gemm.right
    axis = form.left_axis if word == form.left else form.right_axis
    if operand.source is Source.FORWARD:
        tensor = call.quantize(FPROP, word, tensor).dequantized()
    tried = gemm.rht or rht or Rht()
    key = call.streams.key(layer=call.layer, gemm=form.name, operand=word)
    rotation = call.streams.rotation(tried, layer=call.layer, gemm=form.name)

    def under(transform: Rotation | None) -> Quality:
        precision = call.recipe.gemm
        return quality(tensor, operand, rotation=transform, axis=axis, key=key, precision=precision)

    return OperandQuality(
        gemm=form.name,
        operand=word,
        rotates=gemm.rht is not None,
        plain=under(None),
        rotated=under(rotation),
    )


@torch.no_grad()
def product_quality(call: LayerPass, form: Form, left: Tensor, right: Tensor) -> ProductQuality:
    """A GEMM under the recipe against the product of what the carrier holds.

    Args:
        call: The layer's recipe and streams.
        form: Which GEMM.
        left: [rows, columns] as it lies in memory, rounded to the carrier.
        right: The same.
    """
    a = left if form.left_axis == 1 else left.t()
    b = right.t() if form.right_axis == 1 else right
    z, zq = carried_matmul(a, b, call.carrier), call.multiply(form, left, right)
    finite = z.isfinite() & zq.isfinite()
    sqnr, gain = sqnr_and_gain(z[finite], zq[finite])
    return ProductQuality(gemm=form.name, sqnr=sqnr, gain=gain)


def layer_quality(call: LayerPass, tensors: Mapping[str, Tensor]) -> LayerQuality:
    """Everything about a layer at one step, apart from the motion of its weight.

    Args:
        call: The layer's recipe and streams.
        tensors: By word: x [t, in], w [out, in] and, where backward has been, dy [t, out]; each as
            its GEMMs take it, the weight still FP32 or rounded to the carrier.

    Returns:
        The operands that have a grid and the GEMMs that have one, as far as `tensors` holds them.
    """
    carried = {word: tensor.to(call.carrier) for word, tensor in tensors.items()}
    forms = [form for form in FORMS.values() if {form.left, form.right} <= carried.keys()]
    return LayerQuality(
        layer=call.layer,
        operands=tuple(quality for form in forms for quality in _operands(call, form, carried)),
        products=tuple(
            product_quality(call, form, carried[form.left], carried[form.right])
            for form in forms
            if call.gemm(form).is_quantized
        ),
    )


def _operands(
    call: LayerPass, form: Form, tensors: Mapping[str, Tensor]
) -> Iterator[OperandQuality]:
    gemm = call.gemm(form)
    for word, operand in ((form.left, gemm.left), (form.right, gemm.right)):
        if operand.grid is not None:
            yield operand_quality(call, form, word, tensors[word])
