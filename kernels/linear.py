"""A linear layer whose three GEMMs follow a recipe.

    y = x w^T        dx = dy w        dw = dy^T x        each by `kernels.gemm`

The weight is an FP32 master, of which the GEMMs see what the carrier, BF16 or FP16, holds; x, y, dx
and dy are of the carrier, dw stays FP32. Rounding has the gradient of the identity, so dw belongs
to the master weight as it is.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from kernels.gemm import DGRAD, FPROP, WGRAD, Form, LayerPass, refusal
from kernels.matmul import CARRIERS
from kernels.recipes import BF16_RECIPE, Recipe
from kernels.streams import Streams


class _QuantizedProduct(torch.autograd.Function):
    """y = x w^T with each of the three GEMMs under its own rule; x [t, in], w [out, in]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, call: LayerPass) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.call = call
        return call.multiply(FPROP, x, weight.to(call.carrier)).to(call.carrier)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, weight = ctx.saved_tensors
        call: LayerPass = ctx.call
        dx = dw = None
        if ctx.needs_input_grad[0]:
            dx = call.multiply(DGRAD, dy, weight.to(call.carrier)).to(call.carrier)
        if ctx.needs_input_grad[1]:
            dw = call.multiply(WGRAD, dy, x)
        return dx, dw, None


class QuantLinear(nn.Module):
    """Linear layer without bias under a recipe, carrier in and carrier out.

    Attributes:
        weight: FP32 master weight, [out_features, in_features]; not initialised here.
        active: What a forward pass follows: the recipe, or plain BF16 within `bf16_forward`.
        probe: Shown x [t, in] in a forward pass and dy [t, out] in a backward pass, by name and as
            the GEMMs take them; None while nobody looks.
    """

    def __init__(
        self, in_features: int, out_features: int, *, recipe: Recipe, name: str, streams: Streams
    ) -> None:
        """Makes the layer.

        Args:
            in_features: Size of the last axis of the input.
            out_features: Size of the last axis of the output.
            recipe: The rules of the three GEMMs, as they are for this layer.
            name: The layer's name in the model, for the random streams and for sentences.
            streams: Shared by all layers of the model.

        Raises:
            ValueError: If a feature axis does not divide into the blocks and transforms of the GEMM
                that contracts it, and the recipe does not pad.
        """
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.name = name
        self.streams = streams
        self.active = recipe
        self.probe: Callable[[str, Tensor], None] | None = None
        self.weight = nn.Parameter(torch.empty(out_features, in_features, dtype=torch.float32))
        self._check(FPROP, in_features)
        self._check(DGRAD, out_features)

    @property
    def carrier(self) -> torch.dtype:
        """Type of a forward pass's result."""
        return CARRIERS[self.active.carrier]

    def forward(self, x: Tensor) -> Tensor:
        """Multiplies by the transposed weight, y = x w^T.

        Args:
            x: [..., in_features]; rounded to the carrier if it is of another type.

        Returns:
            [..., out_features], of the carrier.

        Raises:
            ValueError: If the weight needs a gradient, the tokens do not divide into the blocks and
                transforms of wgrad, and the recipe does not pad.
        """
        rows = x.to(self.carrier).reshape(-1, self.in_features)
        if torch.is_grad_enabled() and self.weight.requires_grad:
            self._check(WGRAD, rows.shape[0])
        call = LayerPass(recipe=self.active, layer=self.name, streams=replace(self.streams))
        y: Tensor = _QuantizedProduct.apply(rows, self.weight, call)  # type: ignore[no-untyped-call]
        if self.probe is not None:
            self._show(self.probe, rows, y)
        return y.view(*x.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        """Shape and recipe, as printed within the model."""
        return f"{self.in_features}, {self.out_features}, recipe={self.active.name}"

    def _show(self, probe: Callable[[str, Tensor], None], x: Tensor, y: Tensor) -> None:
        probe("x", x.detach())
        if y.requires_grad:
            y.register_hook(lambda dy: probe("dy", dy))  # type: ignore[no-untyped-call]

    def _check(self, form: Form, size: int) -> None:
        if (reason := refusal(form, self.active, size)) is not None:
            raise ValueError(f"layer {self.name!r}: {reason}")


@contextmanager
def bf16_forward(model: nn.Module) -> Iterator[None]:
    """Runs every linear layer of a model in BF16 while the context lasts, whatever its carrier."""
    layers = [module for module in model.modules() if isinstance(module, QuantLinear)]
    before = [layer.active for layer in layers]
    for layer in layers:
        layer.active = BF16_RECIPE
    try:
        yield
    finally:
        for layer, active in zip(layers, before, strict=True):
            layer.active = active
