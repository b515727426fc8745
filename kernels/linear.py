"""A linear layer whose three GEMMs follow a recipe.

    fprop   y  = x w^T     x [t, in] along in,   w [out, in] along in
    dgrad   dx = dy w      dy [t, out] along out, w [out, in] along out
    wgrad   dw = dy^T x    dy [t, out] along t,  x [t, in] along t

Each operand is rounded to BF16, transformed if the GEMM has an RHT, and fake-quantized along the
axis that its GEMM contracts; the GEMM itself is FP32. y and dx are rounded to BF16, dw stays FP32.
Rounding has the gradient of the identity, so dw belongs to the FP32 master weight as it is.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from kernels.hadamard import random_signs
from kernels.matmul import bf16_matmul
from kernels.ops import fake_quantize
from kernels.philox import stream_key
from kernels.recipes import BF16_RECIPE, Gemm, Recipe


@dataclass(slots=True, kw_only=True)
class Streams:
    """Where the random numbers of all layers of a model stand; the training loop moves it on.

    Attributes:
        sr: Seed of stochastic rounding.
        rht: Seed of the signs of the Hadamard transforms, which do not change during a run.
        step: Optimizer step.
        microbatch: Position within the step.
    """

    sr: int
    rht: int
    step: int = 0
    microbatch: int = 0


@dataclass(frozen=True, slots=True)
class _Contraction:
    """Which operands a GEMM takes, and the axis of each that it contracts."""

    name: Literal["fprop", "dgrad", "wgrad"]
    left: str
    right: str
    left_axis: int
    right_axis: int


_FPROP = _Contraction("fprop", "x", "w", 1, 1)
_DGRAD = _Contraction("dgrad", "dy", "w", 1, 0)
_WGRAD = _Contraction("wgrad", "dy", "x", 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """One forward pass of a layer: its recipe, its name and the streams as they stood then."""

    recipe: Recipe
    layer: str
    streams: Streams

    def multiply(
        self, form: _Contraction, left: Tensor, right: Tensor, dtype: torch.dtype
    ) -> Tensor:
        """The GEMM of this form on operands as they lie in memory, in `dtype`."""
        gemm: Gemm = getattr(self.recipe, form.name)
        if gemm.is_quantized:
            signs = self._signs(form, gemm)
            left = fake_quantize(
                left, gemm.left, self._key(form, form.left), signs=signs, axis=form.left_axis
            )
            right = fake_quantize(
                right, gemm.right, self._key(form, form.right), signs=signs, axis=form.right_axis
            )
        a = left if form.left_axis == 1 else left.t()
        b = right.t() if form.right_axis == 1 else right
        return torch.mm(a, b).to(dtype) if gemm.is_quantized else bf16_matmul(a, b, dtype=dtype)

    def _signs(self, form: _Contraction, gemm: Gemm) -> tuple[float, ...] | None:
        if gemm.rht is None:
            return None
        return random_signs(seed=self.streams.rht, layer=self.layer, gemm=form.name, size=gemm.rht)

    def _key(self, form: _Contraction, operand: str) -> int:
        return stream_key(
            seed=self.streams.sr,
            step=self.streams.step,
            microbatch=self.streams.microbatch,
            layer=self.layer,
            gemm=form.name,
            operand=operand,
        )


class _QuantizedProduct(torch.autograd.Function):
    """y = x w^T with each of the three GEMMs under its own rule; x [t, in], w [out, in]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, call: _Call) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.call = call
        return call.multiply(_FPROP, x, weight.to(torch.bfloat16), torch.bfloat16)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, weight = ctx.saved_tensors
        call: _Call = ctx.call
        dx = dw = None
        if ctx.needs_input_grad[0]:
            dx = call.multiply(_DGRAD, dy, weight.to(torch.bfloat16), torch.bfloat16)
        if ctx.needs_input_grad[1]:
            dw = call.multiply(_WGRAD, dy, x, torch.float32)
        return dx, dw, None


class QuantLinear(nn.Module):
    """Linear layer without bias under a recipe, BF16 in and BF16 out.

    Attributes:
        weight: FP32 master weight, [out_features, in_features]; not initialised here.
        active: What a forward pass follows: the recipe, or plain BF16 where the recipe exempts
            this layer or within `bf16_forward`.
    """

    def __init__(
        self, in_features: int, out_features: int, *, recipe: Recipe, name: str, streams: Streams
    ) -> None:
        """Makes the layer.

        Args:
            in_features: Size of the last axis of the input.
            out_features: Size of the last axis of the output.
            recipe: The rules of the three GEMMs, and which layers are exempt from them.
            name: The layer's name in the model, for the recipe's globs and the random streams.
            streams: Shared by all layers of the model.

        Raises:
            ValueError: If a feature axis does not divide into the blocks of the GEMM that
                contracts it.
        """
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.name = name
        self.streams = streams
        self.active = recipe if recipe.quantizes(name) else BF16_RECIPE
        self.weight = nn.Parameter(torch.empty(out_features, in_features, dtype=torch.float32))
        self._check("fprop", "in_features", in_features)
        self._check("dgrad", "out_features", out_features)

    def forward(self, x: Tensor) -> Tensor:
        """Multiplies by the transposed weight, y = x w^T.

        Args:
            x: [..., in_features]; rounded to BF16 if it is not BF16.

        Returns:
            [..., out_features], BF16.

        Raises:
            ValueError: If the weight needs a gradient and the tokens do not divide into the
                blocks of wgrad.
        """
        rows = x.to(torch.bfloat16).reshape(-1, self.in_features)
        if torch.is_grad_enabled() and self.weight.requires_grad:
            self._check("wgrad", "tokens", rows.shape[0])
        call = _Call(recipe=self.active, layer=self.name, streams=replace(self.streams))
        y: Tensor = _QuantizedProduct.apply(rows, self.weight, call)  # type: ignore[no-untyped-call]
        return y.view(*x.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        """Shape and recipe, as printed within the model."""
        return f"{self.in_features}, {self.out_features}, recipe={self.active.name}"

    def _check(self, gemm: Literal["fprop", "dgrad", "wgrad"], axis: str, size: int) -> None:
        block = getattr(self.active, gemm).block
        if size % block:
            raise ValueError(
                f"layer {self.name!r}: {gemm} contracts over {axis} = {size}, "
                f"which is not a multiple of the block {block}"
            )


@contextmanager
def bf16_forward(model: nn.Module) -> Iterator[None]:
    """Runs every quantized linear layer of a model in BF16 while the context lasts."""
    layers = [module for module in model.modules() if isinstance(module, QuantLinear)]
    before = [layer.active for layer in layers]
    for layer in layers:
        layer.active = BF16_RECIPE
    try:
        yield
    finally:
        for layer, active in zip(layers, before, strict=True):
            layer.active = active
