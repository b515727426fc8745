"""A linear layer's forward and backward pass as operations that torch.compile does not look into.

    gridlaw::linear_forward     x, weight, draws  ->  y, and what backward needs beside x and weight
    gridlaw::linear_backward    dy, those         ->  dx, dw

Each is a function of its tensors and of a recipe's number. Where the random streams stand is among
the tensors, as words (`kernels.draws`), and forward hands a copy of them to its backward: so a
compiled graph serves every step and every layer of the same sizes, and backward draws by the step
of its own forward pass, wherever the streams have gone since.

Eager passes call the same functions without torch's dispatcher between, which costs them more time
than it is worth.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from kernels.followed import recipe_of
from kernels.layer_products import Products, has_factor, values_type
from kernels.matmul import CARRIERS
from kernels.opaque import opaque
from kernels.operands import Operand
from kernels.reference import FakeQuantized


class LinearPass(torch.autograd.Function):
    """y = x w^T by the two operations."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        draws: Tensor,
        recipe: int,
        dx: bool,
        dw: bool,
        keeps_x: bool,
        keeps_w: bool,
    ) -> Tensor:
        """One pass.

        Args:
            ctx: What backward finds again.
            x: [t, in], of the carrier.
            weight: [out, in], FP32.
            draws: [6, 3] int64.
            recipe: Its number.
            dx: Whether backward may be asked for it.
            dw: The same.
            keeps_x: As in `Followed`.
            keeps_w: The same.

        Returns:
            [t, out], of the carrier.
        """
        keep_x, keep_w = dw and keeps_x, dx and keeps_w
        forward = _forward if torch.compiler.is_compiling() else _eager_forward
        y, *kept = forward(x, weight, draws, recipe, keep_x, keep_w, dx or dw)
        rest = x if dw and not keep_x else None, weight if dx and not keep_w else None
        ctx.save_for_backward(*rest, *kept)
        ctx.others = recipe, keep_x, keep_w, x.shape[1]
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of x and weight that are needed."""
        x, weight, *kept = ctx.saved_tensors
        recipe, keep_x, keep_w, in_features = ctx.others
        dx, dw = ctx.needs_input_grad[:2]
        backward = _backward if torch.compiler.is_compiling() else _eager_backward
        rules = recipe, keep_x, keep_w
        gradients = backward(dy, x, weight, kept, *rules, in_features, dx, dw)
        first = gradients[0] if dx else None
        return first, gradients[-1] if dw else None, None, None, None, None, None, None


def _eager_forward(
    x: Tensor,
    weight: Tensor,
    draws: Tensor,
    recipe: int,
    keep_x: bool,
    keep_w: bool,
    keep_draws: bool,
) -> list[Tensor]:
    rules = recipe_of(recipe)
    y, kept_x, kept_w = Products(rules, draws).forward(x, weight, keep_x=keep_x, keep_w=keep_w)
    kept = [draws.clone()] if keep_draws else []
    for operand in (kept_x, kept_w):
        if operand is not None:
            kept.append(operand.values.to(values_type(rules, x.device)))
            kept.extend(() if operand.factor is None else (operand.factor,))
    return [y, *kept]


def _forward_shapes(
    x: Tensor,
    weight: Tensor,
    draws: Tensor,
    recipe: int,
    keep_x: bool,
    keep_w: bool,
    keep_draws: bool,
) -> list[Tensor]:
    rules = recipe_of(recipe)
    t, rht = x.shape[0], rules.wgrad.rht
    filled = t if rht is None else t + -t % rht.size
    shapes = [x.new_empty(t, weight.shape[0], dtype=CARRIERS[rules.carrier])]
    if keep_draws:
        shapes.append(torch.empty_like(draws))
    for keep, operand, shape in (
        (keep_x, rules.wgrad.right, (filled, x.shape[1])),
        (keep_w, rules.fprop.right, weight.shape),
    ):
        if keep:
            shapes.append(x.new_empty(shape, dtype=values_type(rules, x.device)))
            shapes.extend([x.new_empty((), dtype=torch.float32)] if has_factor(operand) else ())
    return shapes


def _eager_backward(
    dy: Tensor,
    x: Tensor | None,
    weight: Tensor | None,
    kept: Sequence[Tensor],
    recipe: int,
    keep_x: bool,
    keep_w: bool,
    _in_features: int,
    dx: bool,
    dw: bool,
) -> list[Tensor]:
    rules = recipe_of(recipe)
    draws, *tensors = kept
    kept_x = _taken(tensors, rules.wgrad.right) if keep_x else None
    kept_w = _taken(tensors, rules.fprop.right) if keep_w else None
    gradients = Products(rules, draws).backward(
        dy, (x if kept_x is None else kept_x) if dw else None,
        (weight if kept_w is None else kept_w) if dx else None,
    )  # fmt: skip
    return [gradient for gradient in gradients if gradient is not None]


def _backward_shapes(
    dy: Tensor, _x: Tensor | None, _weight: Tensor | None, _kept: Sequence[Tensor], *rest: int
) -> list[Tensor]:
    recipe, _, _, in_features, dx, dw = rest
    t, out_features = dy.shape
    shapes = []
    if dx:
        shapes.append(dy.new_empty(t, in_features, dtype=CARRIERS[recipe_of(recipe).carrier]))
    if dw:
        shapes.append(dy.new_empty(out_features, in_features, dtype=torch.float32))
    return shapes


def _taken(tensors: list[Tensor], operand: Operand) -> FakeQuantized:
    """The next operand of a list that forward left."""
    values = tensors.pop(0)
    return FakeQuantized(values, tensors.pop(0) if has_factor(operand) else None)


_KEPT = "int recipe, bool keep_x, bool keep_w"
_forward = opaque(
    f"linear_forward(Tensor x, Tensor weight, Tensor draws, {_KEPT}, bool keep_draws) -> Tensor[]",
    _eager_forward,
    _forward_shapes,
)
_backward = opaque(
    f"linear_backward(Tensor dy, Tensor? x, Tensor? weight, Tensor[] kept, {_KEPT}, "
    "SymInt in_features, bool dx, bool dw) -> Tensor[]",
    _eager_backward,
    _backward_shapes,
)
