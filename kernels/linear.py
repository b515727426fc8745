"""A linear layer whose three GEMMs follow a recipe.

    y = x w^T        dx = dy w        dw = dy^T x        each by `kernels.gemm`

The weight is an FP32 master, of which the GEMMs see what the carrier, BF16 or FP16, holds; x, y, dx
and dy are of the carrier, dw stays FP32. Rounding has the gradient of the identity, so dw belongs
to the master weight as it is.
"""

import torch
from torch import Tensor
from torch.nn import functional

from kernels.gemm import WGRAD
from kernels.layer_ops import LinearPass
from kernels.plain_pass import PlainPass
from kernels.probes import ShownBackward, ShownForward
from kernels.recipe_module import Numbers, RecipeModule
from kernels.recipes import Recipe
from kernels.streams import Streams


class QuantLinear(RecipeModule):
    """Linear layer without bias under a recipe, carrier in and carrier out.

    Its weight is [out_features, in_features]; its probe is shown x [t, in] in a forward pass and
    dy [t, out] in a backward pass.
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
        super().__init__((out_features, in_features), recipe=recipe, name=name, streams=streams)

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
        if self.numbers is Numbers.EXACT:
            return functional.linear(x, self.weight)
        rules = self._followed
        if rules.is_plain and self.probe is None and not torch.compiler.is_compiling():
            plain: Tensor = PlainPass.apply(  # type: ignore[no-untyped-call]
                x.to(rules.carrier), self.weight
            )
            return plain
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

    def _rows(self, device: torch.device) -> Tensor:
        return self.streams.row(self.recipe, self.name, device)
