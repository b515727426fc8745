"""Where a pass first leaves the finite numbers: which layer, and what of it.

    blocks.1.mlp.down, fprop operand x is not finite

The pass is repeated with every module that computes something watched, in the order of computing:
forward through the model, then backward. An ordinary pass is not watched and costs nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from kernels.linear import QuantLinear


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


class _Watch:
    """Looks at tensors as they are computed and keeps the first sentence that it has to say."""

    def __init__(self) -> None:
        self.found: str | None = None

    def over(self, name: str, module: nn.Module) -> list[RemovableHandle]:
        """Look at all that a module takes and gives until the handles are removed."""
        words = _LINEAR if isinstance(module, QuantLinear) else _OTHER
        look = partial(self._look, name)

        def before(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            look(words.inputs, inputs[0])
            for weight in module.parameters(recurse=False):
                look(words.weight, weight)

        def after(_: nn.Module, __: object, output: Tensor) -> None:
            look(words.output, output)
            if output.requires_grad:
                output.register_hook(partial(look, words.output_gradient))  # type: ignore[no-untyped-call]

        def accumulated(weight: Tensor) -> None:
            look(words.weight_gradient, weight.grad)

        return [
            module.register_forward_pre_hook(before),
            module.register_forward_hook(after),
            *(
                weight.register_post_accumulate_grad_hook(accumulated)  # type: ignore[no-untyped-call]
                for weight in module.parameters(recurse=False)
            ),
        ]

    def _look(self, name: str, what: str, tensor: Tensor | None) -> None:
        if self.found is None and tensor is not None and not tensor.isfinite().all():
            self.found = f"{name}, {what} is not finite"
