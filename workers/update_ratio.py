"""How far an optimizer step moves the matrices of a model.

    ratio = norm of (W after - W before) / norm of W before

Both norms go over all elements of all matrices together: embedding, head and stacks of experts are
among them, gains are not. The weights before are held beside those after while the optimizer runs,
when the activations of the step are gone; of a sharded model each rank holds its own rows.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from workers.shards import local, total


class UpdateRatio:
    """Of one model; `last` is a scalar on its device, None until an update was watched.

    Attributes:
        last: Of the update that was watched last.
    """

    def __init__(self, model: nn.Module) -> None:
        self._matrices = [weight for weight in model.parameters() if weight.ndim >= 2]
        self.last: Tensor | None = None

    @contextmanager
    def watching(self, *, wanted: bool) -> Iterator[None]:
        """Measure the update that happens within, if it is wanted; else there is none."""
        self.last = None
        if not wanted:
            yield
            return
        moved = [local(weight).clone() for weight in self._matrices]
        norm = self._norm(moved)
        yield
        torch._foreach_sub_(moved, [local(weight) for weight in self._matrices])
        self.last = self._norm(moved) / norm

    def _norm(self, parts: list[Tensor]) -> Tensor:
        squares = torch.stack(torch._foreach_norm(parts)).square().sum()
        return total(squares, of=self._matrices[0]).sqrt()
