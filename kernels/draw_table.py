"""The words (`kernels.draws`) of all layers that share their random streams, on every device.

    row    [6, 3] int64, of one layer: three words for each of its six operands

A layer keeps its row beside its weight, and a stack of layers keeps its rows, one after the other;
each pass reads them. When the streams move on, all rows change in place. On a GPU the rows of a
model are one tensor, which a single copy changes, in the order of the stream that the passes run in
and without waiting for it.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

Words = tuple[tuple[int, ...], ...]
"""Of the six operands of a layer, in the order of `Recipe.operands`."""

STILL: Words = ((0, 0, 0),) * 6
"""Of a layer that draws nothing."""

_ROOM = 64
"""Rows of the tensors that hold them, at least."""


class DrawTable:
    """Begins without rows."""

    def __init__(self) -> None:
        self._words: list[Words] = []
        self._parts: dict[torch.device, list[tuple[int, Tensor]]] = {}

    def append(self, words: Words) -> int:
        """Add a row; returns its index."""
        index = len(self._words)
        self._words.append(words)
        for device, parts in self._parts.items():
            first, part = parts[-1]
            if index < first + len(part):
                part[index - first].copy_(_in_reach(device, words), non_blocking=True)
        return index

    def rows(self, index: int, count: int, device: torch.device) -> Tensor:
        """Rows on a device, [count, 6, 3]; a view, which `refresh` changes.

        Args:
            index: Of the first.
            count: How many follow on each other.
            device: Where.
        """
        parts = self._parts.setdefault(device, [])
        covered = parts[-1][0] + len(parts[-1][1]) if parts else 0
        if index + count > covered:
            # Rows that one view shows lie in one part: some may be in the part before it too.
            begin = min(index, covered)
            # The layers of a model are all here before the first of them moves to a GPU.
            rows = self._words[begin:]
            rows += [STILL] * (_ROOM - len(rows))
            # A model that is made for inference alone may still be moved on.
            with torch.inference_mode(mode=False):
                parts.append((begin, _in_reach(device, rows).to(device, non_blocking=True)))
        first, part = next(one for one in reversed(parts) if one[0] <= index)
        return part[index - first : index - first + count]

    def refresh(self, words: Sequence[Words]) -> None:
        """Have every row hold other words.

        Args:
            words: Of all rows.
        """
        self._words = list(words)
        for device, parts in self._parts.items():
            for first, part in parts:
                rows = self._words[first : first + len(part)]
                part[: len(rows)].copy_(_in_reach(device, rows), non_blocking=True)


def _in_reach(device: torch.device, words: object) -> Tensor:
    """In memory of the host that the device copies from by itself.

    It is new each time: a copy that has not begun yet still reads what it was given.
    """
    is_pinned = device.type == "cuda"
    return torch.tensor(words, dtype=torch.int64, device="cpu", pin_memory=is_pinned)
