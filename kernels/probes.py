"""Probes: who looks at the tensors of a layer's passes, from within a compiled graph too.

    gridlaw::shown    tensor  ->  a copy of it, once a layer's probe has seen it

The operation is opaque to torch.compile, which so neither traces a probe nor compiles anew for
another one; and a pass goes on with its result, so that it is not left out as useless.
"""

from collections.abc import Callable
from itertools import count
from typing import Any, Protocol
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from kernels.opaque import opaque

Probe = Callable[[str, Tensor], None]
"""Is shown tensors by name, without their autograd history; leaves them as they are."""


class Probed(Protocol):
    """What can be looked at.

    Attributes:
        probe: None while nobody looks.
    """

    probe: Probe | None


def enrolled(layer: Probed) -> int:
    """A number that stands for a layer among the arguments of the operation while it lives."""
    number = next(_NUMBERS)
    _PROBED[number] = layer
    return number


class ShownForward(torch.autograd.Function):
    """A tensor, shown in the forward pass."""

    @staticmethod
    def forward(_: Any, tensor: Tensor, number: int, word: str) -> Tensor:
        """The tensor; `number` as `enrolled` gave it, and what the tensor is called."""
        shown: Tensor = _shown(tensor, number, word)
        return shown

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """The gradient as it is."""
        return gradient, None, None


class ShownBackward(torch.autograd.Function):
    """A tensor whose gradient is shown in the backward pass."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, number: int, word: str) -> Tensor:
        """The tensor; `number` as `enrolled` gave it, and what its gradient is called."""
        ctx.said = number, word
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """The gradient, once it has been seen."""
        return _shown(gradient, *ctx.said), None, None


_NUMBERS = count()
_PROBED: WeakValueDictionary[int, Probed] = WeakValueDictionary()


def _show(tensor: Tensor, number: int, word: str) -> Tensor:
    layer = _PROBED.get(number)
    if layer is not None and layer.probe is not None:
        layer.probe(word, tensor.detach())
    return tensor.clone()


_shown = opaque(
    "shown(Tensor tensor, int number, str word) -> Tensor",
    _show,
    lambda tensor, _number, _word: torch.empty_like(tensor),
)
