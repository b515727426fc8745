"""Where a pass first leaves the finite numbers: which layer, and what of it.

    blocks.1.mlp.down, fprop operand x is not finite

The pass is repeated with every module that computes something watched, in the order of computing:
forward through the model, then backward. Of a stack of experts the one is named at which it began,
as in blocks.1.mlp.experts.down.3. An ordinary pass is not watched and costs nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from kernels.grouped import GroupedQuantLinear
from kernels.recipe_module import RecipeModule


def first_nonfinite(model: nn.Module, repeat: Callable[[], object]) -> str | None:
    """Name the first tensor of a pass that is not finite.

    Args:
        model: What the pass goes through.
        repeat: Runs the pass again, from the same weights and random streams.

    Returns:
        Layer and tensor as above; None if every watched tensor is finite.
    """
    watch = _Watch()
    handles = [
        handle
        for name, module in model.named_modules()
        if any(True for _ in module.parameters(recurse=False))
        for handle in watch.over(name, module)
    ]
    try:
        repeat()
    finally:
        for handle in handles:
            handle.remove()
    return watch.found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    """What a module's tensors are called."""

    inputs: str
    weight: str
    output: str
    output_gradient: str
    weight_gradient: str


_LINEAR = _Words(
    inputs="fprop operand x",
    weight="fprop operand w",
    output="fprop product y",
    output_gradient="dgrad operand dy",
    weight_gradient="wgrad product dw",
)
_OTHER = _Words(
    inputs="its input",
    weight="its weight",
    output="its output",
    output_gradient="the gradient of its output",
    weight_gradient="the gradient of its weight",
)


_Part = Callable[[Tensor], str]
"""Says at the end of a module's name which part of it a tensor that is not finite is of."""


class _Watch:
    """Looks at tensors as they are computed and keeps the first sentence that it has to say."""

    def __init__(self) -> None:
        self.found: str | None = None

    def over(self, name: str, module: nn.Module) -> list[RemovableHandle]:
        """Look at all that a module takes and gives until the handles are removed."""
        words = _LINEAR if isinstance(module, RecipeModule) else _OTHER
        is_stack = isinstance(module, GroupedQuantLinear)
        look = partial(self._look, name)
        of_matrix = _matrix if is_stack else _alone

        def of_rows(inputs: tuple[Tensor, ...]) -> _Part:
            return partial(_group, inputs[1]) if is_stack else _alone

        def before(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            look(words.inputs, of_rows(inputs), inputs[0])
            for weight in module.parameters(recurse=False):
                look(words.weight, of_matrix, weight)

        def after(
            _: nn.Module, inputs: tuple[Tensor, ...], output: Tensor | tuple[Tensor, ...]
        ) -> None:
            for one in (output,) if isinstance(output, Tensor) else output:
                look(words.output, of_rows(inputs), one)
                if one.requires_grad:
                    gradient = partial(look, words.output_gradient, of_rows(inputs))
                    one.register_hook(gradient)  # type: ignore[no-untyped-call]

        def accumulated(weight: Tensor) -> None:
            look(words.weight_gradient, of_matrix, weight.grad)

        return [
            module.register_forward_pre_hook(before),
            module.register_forward_hook(after),
            *(
                weight.register_post_accumulate_grad_hook(accumulated)  # type: ignore[no-untyped-call]
                for weight in module.parameters(recurse=False)
            ),
        ]

    def _look(self, name: str, what: str, part: _Part, tensor: Tensor | None) -> None:
        if self.found is None and tensor is not None and not tensor.isfinite().all():
            self.found = f"{name}{part(tensor)}, {what} is not finite"


def _alone(_: Tensor) -> str:
    return ""


def _matrix(stack: Tensor) -> str:
    return f".{_first_bad(stack)}"


def _group(ends: Tensor, rows: Tensor) -> str:
    return f".{int(torch.searchsorted(ends, _first_bad(rows), right=True))}"


def _first_bad(tensor: Tensor) -> int:
    """The first index along the first axis where something is not finite."""
    return int(tensor.isfinite().flatten(1).all(1).logical_not().nonzero()[0])
