"""World: what a training asks of the processes that carry it out with it, its peers.

    rank 0 … size - 1    rank 0 leads: its clock decides, it alone reads and writes the run's folder
    mine(R n)            rank r of R takes r*n … r*n + n - 1 of a step's R*n microbatches

Every rank runs the same `train`, step by step, and each method below waits until all have come to
it. Draws are keyed by the index of a microbatch in its step, so that a run on R ranks has the
draws and the batches of one on a single rank; what differs is the order in which FP32 gradients are
added. `ALONE` is the world of a single process, in which nothing waits.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, TypeVar

import torch
from torch import Tensor, nn

T = TypeVar("T")


class World(Protocol):
    """The peers of one training, seen from one of them."""

    @property
    def rank(self) -> int:
        """Number of this process."""
        ...

    @property
    def size(self) -> int:
        """How many there are."""
        ...

    @property
    def is_lead(self) -> bool:
        """Whether this process is rank 0."""
        ...

    def place(self, model: nn.Module, device: torch.device) -> None:
        """Put a model on the device, its weights held as peers hold them; once for each model."""
        ...

    def mine(self, microbatches: int) -> range:
        """Which of a step's microbatches this rank takes.

        Raises:
            ValueError: If the ranks do not divide their number.
        """
        ...

    def backward(self, model: nn.Module, *, last: bool) -> AbstractContextManager[None]:
        """Around each backward pass of a step.

        Args:
            model: What the pass goes through.
            last: Whether it is this rank's last of the step; when it is done, gradients are the
                sum over all ranks.
        """
        ...

    def unsharded(self, model: nn.Module) -> AbstractContextManager[None]:
        """Holds a model's weights whole on every rank, also between its passes."""
        ...

    def summed(self, tensor: Tensor) -> Tensor:
        """Sum over ranks, in place."""
        ...

    def each(self, function: Callable[[T], Tensor], parts: Sequence[T]) -> list[Tensor]:
        """What a function makes of every part, in order, each part taken by one rank.

        Args:
            function: May pass through a model whose weights are shared; all ranks call it as often.
            parts: The same on every rank.
        """
        ...

    def agreed(self, flag: bool) -> bool:
        """The lead's flag."""
        ...

    def told(self, value: T) -> T:
        """The lead's value; what the others give is not looked at."""
        ...

    def told_tensors(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The lead's tensors, each handed over as all ranks look it up, in the same order."""
        ...

    def gathered(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The same tensors, each whole, for the lead; nothing for the others."""
        ...

    def first(self, word: str | None) -> str | None:
        """What the lowest rank says that has anything to say."""
        ...


class Alone:
    """A single process."""

    rank = 0
    size = 1
    is_lead = True

    def place(self, model: nn.Module, device: torch.device) -> None:
        """Move the model."""
        model.to(device)

    def mine(self, microbatches: int) -> range:
        """All of them."""
        return range(microbatches)

    def backward(self, model: nn.Module, *, last: bool) -> AbstractContextManager[None]:
        """Gradients are the sum already."""
        del model, last
        return nullcontext()

    def unsharded(self, model: nn.Module) -> AbstractContextManager[None]:
        """They are."""
        del model
        return nullcontext()

    def summed(self, tensor: Tensor) -> Tensor:
        """The tensor."""
        return tensor

    def each(self, function: Callable[[T], Tensor], parts: Sequence[T]) -> list[Tensor]:
        """One after the other."""
        return [function(part) for part in parts]

    def agreed(self, flag: bool) -> bool:
        """The flag."""
        return flag

    def told(self, value: T) -> T:
        """The value."""
        return value

    def told_tensors(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The tensors."""
        return tensors

    def gathered(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The tensors, sharing memory."""
        return tensors

    def first(self, word: str | None) -> str | None:
        """The word."""
        return word


ALONE: World = Alone()
