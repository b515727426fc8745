"""What selects an operand's draws and signs, in three words that lie in a device's memory.

    word 0      the key of its stochastic rounding
    word 1, 2   sign i of its RHT is negative where bit i is set, bit 64 being the lowest of word 2

A GPU kernel reads them when it runs, so that a CUDA graph that is replayed at another step draws
anew once the words have changed.
"""

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from kernels.hadamard import Rotation


def words(key: int, rotation: Rotation | None) -> tuple[int, ...]:
    """The three words as signed 64-bit numbers.

    Args:
        key: 64 bits.
        rotation: Without one, no sign is negative.
    """
    signs = 0
    for place, sign in enumerate(() if rotation is None else rotation.signs):
        signs |= (sign < 0) << place
    return packed(key, signs)


def packed(key: int, signs: int) -> tuple[int, ...]:
    """The three words, from the signs as `kernels.hadamard.sign_bits` gives them."""
    return _signed(key), _signed(signs & _WORD), _signed(signs >> 64)


def on_device(key: int, rotation: Rotation | None, device: torch.device) -> Tensor:
    """[3] int64 on a device; copied there at once."""
    return torch.tensor(words(key, rotation), dtype=torch.int64, device=device)


def key_of(three: Sequence[int]) -> int:
    """The key that `words` was given."""
    return three[0] & _WORD


def rotation_of(three: Sequence[int], size: int, *, to_bf16: bool) -> Rotation:
    """The rotation of a size that `words` was given."""
    return _rotation(three[1], three[2], size, to_bf16)


_WORD = (1 << 64) - 1


@lru_cache(maxsize=4096)
def _rotation(low: int, high: int, size: int, to_bf16: bool) -> Rotation:
    bits = (high & _WORD) << 64 | low & _WORD
    signs = tuple(-1.0 if bits >> place & 1 else 1.0 for place in range(size))
    return Rotation(signs, to_bf16)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
