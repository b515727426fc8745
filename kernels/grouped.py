"""A stack of linear layers, each on its own group of rows, whose GEMMs follow one recipe.

    rows of e:   y = x w[e]^T        dx = dy w[e]        dw[e] = dy^T x

Layer e is called by the stack's name with `.e`, and gives what a `kernels.linear.QuantLinear` of
that name would give on its rows alone, bit for bit: scales, keys and draws are its own. For its
wgrad, a group is filled up with zero rows to whole blocks, which add nothing to any product.
"""

from itertools import pairwise

import torch
from torch import Tensor

from kernels.grouped_ops import GroupedPass
from kernels.probes import ShownBackward, ShownForward
from kernels.recipe_module import Numbers, RecipeModule
from kernels.recipes import Recipe
from kernels.streams import Streams


class GroupedQuantLinear(RecipeModule):
    """E layers without bias under a recipe, carrier in and carrier out.

    Its weight is [E, out_features, in_features]; its probe is shown `ends` [E] and x [rows, in] in
    a forward pass and dy [rows, out] in a backward pass.
    """

    def __init__(
        self,
        count: int,
        in_features: int,
        out_features: int,
        *,
        recipe: Recipe,
        name: str,
        streams: Streams,
    ) -> None:
        """Makes the stack.

        Args:
            count: E.
            in_features: Size of the last axis of the input.
            out_features: Size of the last axis of the output.
            recipe: The rules of the three GEMMs of each layer.
            name: The stack's name in the model.
            streams: Shared by all layers of the model.

        Raises:
            ValueError: If a feature axis does not divide into the blocks and transforms of the GEMM
                that contracts it, and the recipe does not pad.
        """
        shape = count, out_features, in_features
        super().__init__(shape, recipe=recipe, name=name, streams=streams)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the layers."""
        return tuple(f"{self.name}.{layer}" for layer in range(self.weight.shape[0]))

    @property
    def block(self) -> int:
        """What the number of rows of each group must be a multiple of."""
        return self.recipe.wgrad.block

    def forward(self, x: Tensor, ends: Tensor) -> Tensor:
        """Multiplies each group of rows by the transposed weight of its layer.

        Args:
            x: [rows, in_features], sorted by layer; rounded to the carrier if of another type.
            ends: [E] int64 on the host: where the rows of each layer end. Those after the last end
                belong to no layer.

        Returns:
            [rows, out_features], of the carrier; zero where the rows belong to no layer.

        Raises:
            ValueError: If the last axis is another, or a group is no multiple of `block`.
        """
        if x.shape[-1] != self.in_features:
            raise ValueError(
                f"layer {self.name!r} takes {self.in_features} features, got {x.shape[-1]}"
            )
        if self.numbers is Numbers.EXACT:
            return _unrounded(x, self.weight, ends)
        rules = self._followed
        rows = x.to(rules.carrier)
        grad = torch.is_grad_enabled()
        needs_dx, needs_dw = grad and rows.requires_grad, grad and self.weight.requires_grad
        if self.probe is not None:
            ends = ShownForward.apply(ends, self._number, "ends")  # type: ignore[no-untyped-call]
            rows = ShownForward.apply(rows, self._number, "x")  # type: ignore[no-untyped-call]
        y: Tensor = GroupedPass.apply(  # type: ignore[no-untyped-call]
            rows, self.weight, self._draws, ends, rules.number, needs_dx, needs_dw,
            rules.keeps_x, rules.keeps_w,
        )  # fmt: skip
        if self.probe is not None:
            y = ShownBackward.apply(y, self._number, "dy")  # type: ignore[no-untyped-call]
        return y

    def _rows(self, device: torch.device) -> Tensor:
        return self.streams.rows(self.recipe, self.names, device)


def _unrounded(x: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    """The products in the type of the weight, by torch's own autograd."""
    bounds = [0, *ends.tolist()]
    sizes = [after - before for before, after in pairwise(bounds)]
    groups = torch.split(x, [*sizes, x.shape[0] - bounds[-1]])
    products = [rows @ matrix.t() for rows, matrix in zip(groups, weight, strict=False)]
    return torch.cat([*products, x.new_zeros(groups[-1].shape[0], weight.shape[1])])
