"""What selects an operand's draws and signs, in three words that lie in a device's memory.

    word 0      the key of its stochastic rounding
    word 1, 2   sign i of its RHT is negative where bit i is set, bit 64 being the lowest of word 2

A GPU kernel reads them when it runs, so that a CUDA graph that is replayed at another step draws
anew once the words have changed.
"""

import torch
from torch import Tensor

from kernels.hadamard import Rotation

WORDS = 3


def words(key: int, rotation: Rotation | None) -> tuple[int, ...]:
    """The three words as signed 64-bit numbers.

    Args:
        key: 64 bits.
        rotation: Without one, no sign is negative.
    """
    signs = 0
    for place, sign in enumerate(() if rotation is None else rotation.signs):
        signs |= (sign < 0) << place
    return tuple(_signed(word) for word in (key, signs & _WORD, signs >> 64))


def on_device(key: int, rotation: Rotation | None, device: torch.device) -> Tensor:
    """[3] int64 on a device; copied there at once."""
    return torch.tensor(words(key, rotation), dtype=torch.int64, device=device)


_WORD = (1 << 64) - 1


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
