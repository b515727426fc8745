"""The passes of a stack of linear layers, each over its group of rows, as operations of torch.

    gridlaw::grouped_forward    x, weight, draws, ends  ->  y, and what backward needs beside these
    gridlaw::grouped_backward   dy, those               ->  dx, dw

    y[rows of e] = x[rows of e] w[e]^T         dw[e] = dy[rows of e]^T x[rows of e]

Layer e of E has the rows from ends[e - 1] to ends[e], in whole blocks of wgrad; rows after the last
end belong to none and are zero in every result. Each layer is `kernels.layer_products` with scales,
keys and draws of its own: the bits are those of E separate layers. How many rows a layer has is
read on the host, so that `ends` lies there: one look at it serves all passes of a block.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from kernels.followed import recipe_of
from kernels.layer_products import Products, has_factor, values_type
from kernels.opaque import opaque
from kernels.operands import Operand
from kernels.recipes import Recipe
from kernels.reference import FakeQuantized


class GroupedPass(torch.autograd.Function):
    """y = x w^T of every layer on its rows, by the two operations."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        draws: Tensor,
        ends: Tensor,
        recipe: int,
        dx: bool,
        dw: bool,
        keeps_x: bool,
        keeps_w: bool,
    ) -> Tensor:
        """One pass.

        Args:
            ctx: What backward finds again.
            x: [rows, in], of the carrier.
            weight: [E, out, in], FP32.
            draws: [E, 6, 3] int64.
            ends: [E] int64 on the host, ascending.
            recipe: Its number.
            dx: Whether backward may be asked for it.
            dw: The same.
            keeps_x: As in `kernels.followed.Followed`.
            keeps_w: The same.

        Returns:
            [rows, out], of the carrier.
        """
        keep_x, keep_w = dw and keeps_x, dx and keeps_w
        forward = _forward if torch.compiler.is_compiling() else _eager_forward
        y, *kept = forward(x, weight, draws, ends, recipe, keep_x, keep_w, dx or dw)
        rest = x if dw and not keep_x else None, weight if dx and not keep_w else None
        ctx.save_for_backward(*rest, ends, *kept)
        ctx.others = recipe, keep_x, keep_w, x.shape[1]
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of x and weight that are needed."""
        x, weight, ends, *kept = ctx.saved_tensors
        recipe, keep_x, keep_w, in_features = ctx.others
        dx, dw = ctx.needs_input_grad[:2]
        backward = _backward if torch.compiler.is_compiling() else _eager_backward
        rules = recipe, keep_x, keep_w
        gradients = backward(dy, x, weight, ends, kept, *rules, in_features, dx, dw)
        first = gradients[0] if dx else None
        return first, gradients[-1] if dw else None, *(None,) * 7


class _Kept(NamedTuple):
    """Operands of all layers that forward quantized for backward.

    Attributes:
        values: Of x [rows, in] or of w [E, out, in].
        factors: FP32 [E], or None.
    """

    values: Tensor
    factors: Tensor | None

    @classmethod
    def blank(cls, like: Tensor, operand: Operand, recipe: Recipe, layers: int) -> Self:
        """Zeros to be filled, one operand after the other."""
        values = torch.zeros_like(like, dtype=values_type(recipe, like.device))
        factors = like.new_ones(layers, dtype=torch.float32) if has_factor(operand) else None
        return cls(values, factors)

    @classmethod
    def taken(cls, tensors: list[Tensor], operand: Operand) -> Self:
        """The next of a list that forward left."""
        values = tensors.pop(0)
        return cls(values, tensors.pop(0) if has_factor(operand) else None)

    def put(self, place: slice | int, layer: int, operand: FakeQuantized | None) -> None:
        """Fill in the operand of a layer."""
        assert operand is not None
        self.values[place] = operand.values
        if self.factors is not None:
            assert operand.factor is not None
            self.factors[layer] = operand.factor

    def of(self, place: slice | int, layer: int) -> FakeQuantized:
        """The operand of a layer."""
        factor = None if self.factors is None else self.factors[layer]
        return FakeQuantized(self.values[place], factor)

    def tensors(self) -> list[Tensor]:
        """One or two."""
        return [self.values, *(() if self.factors is None else (self.factors,))]


def _groups(ends: Tensor, block: int) -> Iterator[tuple[int, slice]]:
    """The layers that have rows, and which."""
    start = 0
    for layer, end in enumerate(ends.tolist()):
        if end > start:
            if (end - start) % block:
                raise ValueError(
                    f"layer {layer} of a stack has {end - start} rows, which is not a multiple of "
                    f"the {block} that wgrad takes at once"
                )
            yield layer, slice(start, end)
        start = max(start, end)


def _eager_forward(
    x: Tensor,
    weight: Tensor,
    draws: Tensor,
    ends: Tensor,
    recipe: int,
    keep_x: bool,
    keep_w: bool,
    keep_draws: bool,
) -> list[Tensor]:
    rules = recipe_of(recipe)
    layers = weight.shape[0]
    weight = weight.to(x.dtype)  # the carrier, of all layers at once
    y = x.new_zeros(x.shape[0], weight.shape[1])
    xs = _Kept.blank(x, rules.wgrad.right, rules, layers) if keep_x else None
    ws = _Kept.blank(weight, rules.fprop.right, rules, layers) if keep_w else None
    for layer, rows in _groups(ends, rules.wgrad.block):
        pass_ = Products(rules, draws[layer]).forward(
            x[rows], weight[layer], keep_x=keep_x, keep_w=keep_w
        )
        y[rows] = pass_.y
        if xs is not None:
            xs.put(rows, layer, pass_.x)
        if ws is not None:
            ws.put(layer, layer, pass_.w)
    kept = [draws.clone()] if keep_draws else []
    for operand in (xs, ws):
        kept.extend(() if operand is None else operand.tensors())
    return [y, *kept]


def _forward_shapes(
    x: Tensor,
    weight: Tensor,
    draws: Tensor,
    _ends: Tensor,
    recipe: int,
    keep_x: bool,
    keep_w: bool,
    keep_draws: bool,
) -> list[Tensor]:
    rules = recipe_of(recipe)
    shapes = [x.new_empty(x.shape[0], weight.shape[1])]
    if keep_draws:
        shapes.append(torch.empty_like(draws))
    for keep, operand, tensor in (
        (keep_x, rules.wgrad.right, x),
        (keep_w, rules.fprop.right, weight),
    ):
        if keep:
            shapes.extend(_Kept.blank(tensor, operand, rules, weight.shape[0]).tensors())
    return shapes


def _eager_backward(
    dy: Tensor,
    x: Tensor | None,
    weight: Tensor | None,
    ends: Tensor,
    kept: Sequence[Tensor],
    recipe: int,
    keep_x: bool,
    keep_w: bool,
    in_features: int,
    dx: bool,
    dw: bool,
) -> list[Tensor]:
    rules = recipe_of(recipe)
    draws, *tensors = kept
    layers = len(ends)
    xs = _Kept.taken(tensors, rules.wgrad.right) if keep_x else x
    ws: _Kept | Tensor | None = None
    if keep_w:
        ws = _Kept.taken(tensors, rules.fprop.right)
    elif weight is not None:
        ws = weight.to(dy.dtype)
    all_dx = dy.new_zeros(dy.shape[0], in_features) if dx else None
    all_dw = dy.new_zeros(layers, dy.shape[1], in_features, dtype=torch.float32) if dw else None
    for layer, rows in _groups(ends, rules.wgrad.block):
        one_dx, one_dw = Products(rules, draws[layer]).backward(
            dy[rows],
            _of(xs, rows, layer) if dw else None,
            _of(ws, layer, layer) if dx else None,
        )
        if all_dx is not None and one_dx is not None:
            all_dx[rows] = one_dx
        if all_dw is not None and one_dw is not None:
            all_dw[layer] = one_dw
    return [gradient for gradient in (all_dx, all_dw) if gradient is not None]


def _of(
    operand: _Kept | Tensor | None, place: slice | int, layer: int
) -> FakeQuantized | Tensor | None:
    if isinstance(operand, _Kept):
        return operand.of(place, layer)
    return None if operand is None else operand[place]


def _backward_shapes(
    dy: Tensor,
    _x: Tensor | None,
    _weight: Tensor | None,
    ends: Tensor,
    _kept: Sequence[Tensor],
    *rest: int,
) -> list[Tensor]:
    _, _, _, in_features, dx, dw = rest
    rows, out_features = dy.shape
    shapes = [dy.new_empty(rows, in_features)] if dx else []
    if dw:
        size = len(ends), out_features, in_features
        shapes.append(dy.new_empty(size, dtype=torch.float32))
    return shapes


_KEPT = "int recipe, bool keep_x, bool keep_w"
_forward = opaque(
    f"grouped_forward(Tensor x, Tensor weight, Tensor draws, Tensor ends, {_KEPT}, "
    "bool keep_draws) -> Tensor[]",
    _eager_forward,
    _forward_shapes,
)
_backward = opaque(
    f"grouped_backward(Tensor dy, Tensor? x, Tensor? weight, Tensor ends, Tensor[] kept, {_KEPT}, "
    "SymInt in_features, bool dx, bool dw) -> Tensor[]",
    _eager_backward,
    _backward_shapes,
)
