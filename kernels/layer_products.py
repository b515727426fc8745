"""The products of a layer, with as few quantizations as its recipe allows and nothing kept in vain.

    forward    x, w     ->  y
    backward   dy, w    ->  dx          dy, x  ->  dw

    dy    is asked for dgrad and wgrad at once: a GPU loads it once
    x     is asked for fprop and wgrad at once where the quantized x takes no more memory than x,
          and kept in its place; elsewhere x is kept, and quantized for wgrad in backward
    w     as fprop multiplied it is kept where dgrad multiplies the same, or quantizes that;
          elsewhere the weight is quantized for dgrad in backward

The numbers are those of `kernels.gemm.LayerPass`, bit for bit.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from kernels.draws import key_of, rotation_of
from kernels.gemm import (
    DGRAD,
    FPROP,
    WGRAD,
    Form,
    carried_product,
    operand_of,
    quantized_product,
)
from kernels.matmul import CARRIERS
from kernels.operands import Operand, Scale, Source
from kernels.ops import fulfil, fulfil_both
from kernels.recipes import BF16_RECIPE, Gemm, Precision, Recipe
from kernels.reference import FakeQuantized
from kernels.request import Request


def values_type(recipe: Recipe, device: torch.device) -> torch.dtype:
    """The type that the quantized operands of a layer are stored in."""
    narrow = recipe.gemm is Precision.BF16 and device.type == "cuda"
    return torch.bfloat16 if narrow else torch.float32


def keeps_quantized_x(recipe: Recipe, device: torch.device) -> bool:
    """Whether x is quantized for wgrad in forward already, and the result kept instead of x.

    It is where quantized values take 16 bits, as x does. In FP32 they would double what is kept,
    and save no more than a second look at x.
    """
    x, rht = recipe.wgrad.right, recipe.wgrad.rht
    both = recipe.fprop.is_quantized and (x.grid is not None or rht is not None)
    return both and values_type(recipe, device) is torch.bfloat16


def has_factor(operand: Operand) -> bool:
    """Whether an operand is quantized into values and a factor of the product."""
    if operand.grid is None:
        return False
    per_tensor = operand.scale is Scale.E4M3 and operand.outer is None
    return per_tensor or (operand.scale.is_power_of_two and operand.headroom != 1)


class Forward(NamedTuple):
    """What a forward pass leaves.

    Attributes:
        y: [t, out], of the carrier.
        x: As wgrad will multiply it, or None.
        w: As fprop multiplied it, or None.
    """

    y: Tensor
    x: FakeQuantized | None
    w: FakeQuantized | None


class Products:
    """The products of one pass of a layer.

    Args:
        recipe: Resolved for the layer.
        draws: [6, 3] int64, the words (`kernels.draws`) of its operands in the order of
            `Recipe.operands`, on the device of its tensors.
    """

    def __init__(self, recipe: Recipe, draws: Tensor) -> None:
        self._recipe = recipe
        self._carrier = CARRIERS[recipe.carrier]
        self._draws = draws
        # A GPU reads them by itself, and to read them here would be to wait for it.
        is_read = draws.device.type == "cpu" and recipe.is_quantized
        self._words = draws.tolist() if is_read else None

    def forward(self, x: Tensor, weight: Tensor, *, keep_x: bool, keep_w: bool) -> Forward:
        """The product of fprop, and what is kept for the others.

        Args:
            x: [t, in], of the carrier.
            weight: [out, in], FP32.
            keep_x: Whether x is quantized for wgrad too; both GEMMs must be quantized.
            keep_w: Whether w as fprop multiplies it leaves too; fprop must be quantized.
        """
        w = weight.to(self._carrier)
        if not self._recipe.fprop.is_quantized:
            y = carried_product(FPROP, x, w, self._carrier, self._carrier)
            return Forward(y, None, None)
        wq, later = fulfil(w, self._request(FPROP, "w")), None
        if not keep_x:
            xq = fulfil(x, self._request(FPROP, "x"))
        elif self._recipe.wgrad.right.source is Source.ORIGINAL:
            xq, later = fulfil_both(x, self._request(FPROP, "x"), self._request(WGRAD, "x"))
        else:
            xq = fulfil(x, self._request(FPROP, "x"))
            later = fulfil(xq.dequantized(), self._request(WGRAD, "x"))
        y = quantized_product(FPROP, xq, wq, self._recipe.gemm).to(self._carrier)
        return Forward(y, later, wq if keep_w else None)

    def backward(
        self, dy: Tensor, x: Tensor | FakeQuantized | None, w: Tensor | FakeQuantized | None
    ) -> tuple[Tensor | None, Tensor | None]:
        """The products of dgrad and wgrad, as far as they are needed.

        Args:
            dy: [t, out], of the carrier.
            x: [t, in] of the carrier, or what forward kept of it; None if dw is not needed.
            w: The weight, or what forward kept of it; None if dx is not needed.

        Returns:
            dx [t, in], of the carrier, and dw [out, in], FP32.
        """
        for_dgrad = w is not None and self._recipe.dgrad.is_quantized
        for_wgrad = x is not None and self._recipe.wgrad.is_quantized
        left = right = None
        if for_dgrad and for_wgrad:
            left, right = fulfil_both(dy, self._request(DGRAD, "dy"), self._request(WGRAD, "dy"))
        elif for_dgrad:
            left = fulfil(dy, self._request(DGRAD, "dy"))
        elif for_wgrad:
            right = fulfil(dy, self._request(WGRAD, "dy"))
        dx = None if w is None else self._dgrad(dy, left, w)
        return dx, None if x is None else self._wgrad(dy, right, x)

    def _dgrad(self, dy: Tensor, dyq: FakeQuantized | None, w: Tensor | FakeQuantized) -> Tensor:
        if dyq is None:
            assert isinstance(w, Tensor)
            return carried_product(DGRAD, dy, w.to(self._carrier), self._carrier, self._carrier)
        if isinstance(w, Tensor):
            w = self._quantized(DGRAD, "w", w.to(self._carrier))
        elif self._recipe.dgrad.right.source is Source.FORWARD:
            w = fulfil(w.dequantized(), self._request(DGRAD, "w"))
        return quantized_product(DGRAD, dyq, w, self._recipe.gemm).to(self._carrier)

    def _wgrad(self, dy: Tensor, dyq: FakeQuantized | None, x: Tensor | FakeQuantized) -> Tensor:
        if dyq is None:
            assert isinstance(x, Tensor)
            return carried_product(WGRAD, dy, x, self._carrier)
        if isinstance(x, Tensor):
            x = self._quantized(WGRAD, "x", x)
        return quantized_product(WGRAD, dyq, x, self._recipe.gemm)

    def _quantized(self, form: Form, word: str, tensor: Tensor) -> FakeQuantized:
        """An operand of backward from the tensor that fprop was given."""
        operand, _ = operand_of(self._recipe, form, word)
        if operand.source is Source.FORWARD:
            # Draws depend on position and key alone: this repeats fprop's values.
            tensor = fulfil(tensor, self._request(FPROP, word)).dequantized()
        return fulfil(tensor, self._request(form, word))

    def _request(self, form: Form, word: str) -> Request:
        operand, axis = operand_of(self._recipe, form, word)
        gemm: Gemm = getattr(self._recipe, form.name)
        index = _ROWS[form.name, word]
        words = (0, 0, 0) if self._words is None else self._words[index]
        rht, rotation = gemm.rht, None
        if rht is not None:
            rotation = rotation_of(words, rht.size, to_bf16=rht.to_bf16)
        return Request(
            operand=operand,
            key=key_of(words),
            rotation=rotation,
            axis=axis,
            carrier=self._carrier,
            precision=self._recipe.gemm,
            draws=self._draws[index] if self._words is None else None,
        )


_ROWS = {(gemm, word): index for index, (gemm, word, _) in enumerate(BF16_RECIPE.operands())}
