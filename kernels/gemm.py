"""The three GEMMs of a linear layer under a recipe: raw operands in, their quantized product out.

    fprop   y  = x w^T     x [t, in] along in,   w [out, in] along in
    dgrad   dx = dy w      dy [t, out] along out, w [out, in] along out
    wgrad   dw = dy^T x    dy [t, out] along t,  x [t, in] along t

Both operands are transformed if the GEMM has an RHT, fake-quantized along the axis that the GEMM
contracts, rounded to the recipe's precision and multiplied; the FP32 sum is multiplied by the
operands' factors. A GEMM without a grid multiplies what the carrier holds. The contract is
docs/numerics.md, "A linear layer".
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.hadamard import Rotation, rotate
from kernels.matmul import CARRIERS, carried_matmul, emulated_matmul
from kernels.operands import Operand, Source
from kernels.ops import fulfil
from kernels.recipes import Gemm, Precision, Recipe
from kernels.reference import FakeQuantized
from kernels.request import Request
from kernels.streams import Streams


@dataclass(frozen=True, slots=True)
class Form:
    """Which operands a GEMM takes, and the axis of each that it contracts, as both lie in memory.

    Attributes:
        name: `fprop`, `dgrad` or `wgrad`.
        left: `x` or `dy`.
        right: `w` or `x`.
        left_axis: 0 or 1.
        right_axis: 0 or 1.
        contracted: What the axis counts.
    """

    name: str
    left: str
    right: str
    left_axis: int
    right_axis: int
    contracted: str


FPROP = Form("fprop", "x", "w", 1, 1, "in_features")
DGRAD = Form("dgrad", "dy", "w", 1, 0, "out_features")
WGRAD = Form("wgrad", "dy", "x", 0, 0, "tokens")
FORMS = {form.name: form for form in (FPROP, DGRAD, WGRAD)}


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerPass:
    """One pass of a layer: what its GEMMs follow.

    Attributes:
        recipe: Resolved for the layer.
        layer: Its name.
        streams: As they stand at its forward pass.
    """

    recipe: Recipe
    layer: str
    streams: Streams

    @property
    def carrier(self) -> torch.dtype:
        """The type of activations, gradients and unquantized operands."""
        return CARRIERS[self.recipe.carrier]

    def multiply(self, form: Form, left: Tensor, right: Tensor) -> Tensor:
        """The product of a GEMM's two operands.

        Args:
            form: Which GEMM.
            left: [rows, columns] as it lies in memory, rounded to the carrier.
            right: The same.

        Returns:
            FP32; y [t, out], dx [t, in] or dw [out, in].
        """
        if not self.gemm(form).is_quantized:
            return carried_product(form, left, right, self.carrier)
        a = self.quantize(form, form.left, left)
        b = self.quantize(form, form.right, right)
        return quantized_product(form, a, b, self.recipe.gemm)

    def quantize(self, form: Form, word: str, tensor: Tensor) -> FakeQuantized:
        """One operand as the GEMM multiplies it: transformed, padded and fake-quantized.

        Args:
            form: Which GEMM.
            word: `x`, `w` or `dy`, one of its two operands.
            tensor: [rows, columns] as it lies in memory, rounded to the carrier.
        """
        operand, axis = operand_of(self.recipe, form, word)
        if operand.source is Source.FORWARD:
            # Draws depend on position and key alone: quantizing again repeats fprop's values, and
            # takes less memory than to keep them.
            tensor = self.quantize(FPROP, word, tensor).dequantized()
        request = Request(
            operand=operand,
            key=self.streams.key(layer=self.layer, gemm=form.name, operand=word),
            rotation=self.rotation(form),
            axis=axis,
            carrier=self.carrier,
            precision=self.recipe.gemm,
        )
        return fulfil(tensor, request)

    def seen(self, form: Form, word: str, tensor: Tensor) -> Tensor:
        """What an operand amounts to: quantized, then its transform undone and its padding cut off.

        Args:
            form: Which GEMM.
            word: `x`, `w` or `dy`, one of its two operands.
            tensor: [rows, columns] as it lies in memory, rounded to the carrier.

        Returns:
            The tensor's shape, FP32.
        """
        if not self.gemm(form).is_quantized:
            return tensor.to(self.carrier).to(torch.float32)
        _, axis = operand_of(self.recipe, form, word)
        values = self.quantize(form, word, tensor).dequantized()
        rotation = self.rotation(form)
        if rotation is not None:
            values = _rotated_back(values if axis == 1 else values.t(), rotation)
            values = values if axis == 1 else values.t()
        rows, columns = tensor.shape
        return values[:rows, :columns]

    def rotation(self, form: Form) -> Rotation | None:
        """The transform that both operands of a GEMM share."""
        return self.streams.rotation(self.gemm(form).rht, layer=self.layer, gemm=form.name)

    def gemm(self, form: Form) -> Gemm:
        """What the recipe says of a GEMM."""
        gemm: Gemm = getattr(self.recipe, form.name)
        return gemm


def operand_of(recipe: Recipe, form: Form, word: str) -> tuple[Operand, int]:
    """What a recipe says of an operand of a GEMM, and the axis that the GEMM contracts."""
    gemm: Gemm = getattr(recipe, form.name)
    if word == form.left:
        return gemm.left, form.left_axis
    return gemm.right, form.right_axis


def carried_product(
    form: Form,
    left: Tensor,
    right: Tensor,
    carrier: torch.dtype,
    out: torch.dtype = torch.float32,
) -> Tensor:
    """The product of a GEMM without a grid, of type `out`; operands as in `LayerPass.multiply`."""
    return carried_matmul(*_turned(form, left, right), carrier, out)


def quantized_product(
    form: Form, left: FakeQuantized, right: FakeQuantized, precision: Precision
) -> Tensor:
    """The product of a GEMM's operands as they were quantized for it, FP32."""
    product = emulated_matmul(*_turned(form, left.values, right.values), precision)
    for factor in (left.factor, right.factor):
        if factor is not None:
            product *= factor
    return product


def refusal(form: Form, recipe: Recipe, size: int) -> str | None:
    """Why a GEMM cannot contract over an axis of this many elements; None if it can."""
    if recipe.pad:
        return None
    gemm: Gemm = getattr(recipe, form.name)
    units = {
        f"the block {operand.block} of {word}": operand.block.along
        for word, operand in ((form.left, gemm.left), (form.right, gemm.right))
        if operand.grid is not None and operand.block.along is not None
    }
    if gemm.rht is not None:
        units[f"the RHT size {gemm.rht.size}"] = gemm.rht.size
    for name, unit in units.items():
        if size % unit:
            how = "is shorter than" if size < unit else "is not a multiple of"
            return (
                f"{form.name} contracts over {form.contracted} = {size}, which {how} {name}; "
                "a recipe with pad: true fills it with zeros"
            )
    return None


def _turned(form: Form, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """[m, k] and [k, n]."""
    return (
        left if form.left_axis == 1 else left.t(),
        right.t() if form.right_axis == 1 else right,
    )


def _rotated_back(x: Tensor, rotation: Rotation) -> Tensor:
    """H is symmetric, so the inverse of x D H / sqrt(n) is x H / sqrt(n) D."""
    size = len(rotation.signs)
    plain = rotate(x, Rotation((1.0,) * size))
    signs = torch.tensor(rotation.signs, device=x.device)
    return (plain.reshape(-1, size) * signs).reshape(x.shape)
