"""A linear layer whose three GEMMs follow a recipe.

    y = x w^T        dx = dy w        dw = dy^T x        each by `kernels.gemm`

The weight is an FP32 master, of which the GEMMs see what the carrier, BF16 or FP16, holds; x, y, dx
and dy are of the carrier, dw stays FP32. Rounding has the gradient of the identity, so dw belongs
to the master weight as it is.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import torch
from torch import Tensor, nn

from kernels.gemm import DGRAD, FPROP, WGRAD, Form, refusal
from kernels.layer_ops import Followed, LinearPass, followed
from kernels.probes import Probe, ShownBackward, ShownForward, enrolled
from kernels.recipes import BF16_RECIPE, Recipe
from kernels.streams import Streams


class QuantLinear(nn.Module):
    """Linear layer without bias under a recipe, carrier in and carrier out.

    Attributes:
        weight: FP32 master weight, [out_features, in_features]; not initialised here.
        is_plain: Whether forward passes are in plain BF16 for now, as within `bf16_forward`.
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
        self._name = name
        self._streams = streams
        self._recipe = recipe
        self.is_plain = False
        self.probe: Probe | None = None
        self.weight = nn.Parameter(torch.empty(out_features, in_features, dtype=torch.float32))
        self._check(FPROP, in_features)
        self._check(DGRAD, out_features)
        self._number = enrolled(self)
        self._settle()

    @property
    def name(self) -> str:
        """The layer's name in the model."""
        return self._name

    @property
    def streams(self) -> Streams:
        """Shared by all layers of the model."""
        return self._streams

    @property
    def recipe(self) -> Recipe:
        """The rules of the three GEMMs, as they are for this layer."""
        return self._recipe

    @property
    def active(self) -> Recipe:
        """What a forward pass follows: the recipe, or plain BF16."""
        return BF16_RECIPE if self.is_plain else self.recipe

    @property
    def carrier(self) -> torch.dtype:
        """Type of a forward pass's result."""
        return self._followed.carrier

    def forward(self, x: Tensor) -> Tensor:
        """Multiplies by the transposed weight, y = x w^T.

        Args:
            x: [..., in_features]; rounded to the carrier if it is of another type.

        Returns:
            [..., out_features], of the carrier.

        Raises:
            ValueError: If the last axis is another; or if the weight needs a gradient, the tokens
                do not divide into the blocks and transforms of wgrad, and the recipe does not pad.
        """
        if x.shape[-1] != self.in_features:
            raise ValueError(
                f"layer {self.name!r} takes {self.in_features} features, got {x.shape[-1]}"
            )
        rules = self._followed
        rows = x.to(rules.carrier).reshape(-1, self.in_features)
        grad = torch.is_grad_enabled()
        needs_dx, needs_dw = grad and rows.requires_grad, grad and self.weight.requires_grad
        if needs_dw and rows.shape[0] % rules.tokens:
            self._check(WGRAD, rows.shape[0])
        if self.probe is not None:
            rows = ShownForward.apply(rows, self._number, "x")  # type: ignore[no-untyped-call]
        y: Tensor = LinearPass.apply(  # type: ignore[no-untyped-call]
            rows, self.weight, self._draws, rules.number, needs_dx, needs_dw,
            rules.keeps_x, rules.keeps_w,
        )  # fmt: skip
        if self.probe is not None:
            y = ShownBackward.apply(y, self._number, "dy")  # type: ignore[no-untyped-call]
        return y.view(*x.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        """Shape and recipe, as printed within the model."""
        return f"{self.in_features}, {self.out_features}, recipe={self.active.name}"

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy, or one from another process, has its row in the table of its own streams."""
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._number = enrolled(self)
        self._settle()

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        """A weight may be assigned that is on another device."""
        super()._load_from_state_dict(*args, **kwargs)
        self._settle()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._settle()
        return self

    def _settle(self) -> None:
        """Learn what depends on where the weight is."""
        device = self.weight.device
        self._draws = self.streams.row(self.recipe, self.name, device)
        self._own, self._plain = followed(self.recipe, device), followed(BF16_RECIPE, device)

    @property
    def _followed(self) -> Followed:
        return self._plain if self.is_plain else self._own

    def _check(self, form: Form, size: int) -> None:
        if (reason := refusal(form, self.recipe, size)) is not None:
            raise ValueError(f"layer {self.name!r}: {reason}")


@contextmanager
def bf16_forward(model: nn.Module) -> Iterator[None]:
    """Runs every linear layer of a model in BF16 while the context lasts, whatever its carrier."""
    layers = [module for module in model.modules() if isinstance(module, QuantLinear)]
    before = [layer.is_plain for layer in layers]
    for layer in layers:
        layer.is_plain = True
    try:
        yield
    finally:
        for layer, was_plain in zip(layers, before, strict=True):
            layer.is_plain = was_plain
