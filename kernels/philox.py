"""Random bits for stochastic rounding: Philox4x32-10, keyed by what is rounded.

    key      = blake2b(seed, step, microbatch, layer, gemm, operand), 64 bits     (`stream_key`)
    counter  = (run mod 2**32, run >> 32, call, 0)     one run: 16 elements of a row
    w0..w3   = Philox4x32-10(counter, key)                                        (`philox4x32`)
    u[i]     = (b + 1/2) / 2**n, or (b + 1) / 2**n     b: n = 8, 16 or 24 bits    (`uniforms`)

A call of the generator gives 128 bits, so that a run of 16 draws takes 1, 2 or 4 calls. The half
keeps the mean of u at exactly 1/2; without it the draws are those of hardware that adds n random
bits and cuts them off. Nothing is stateful: an element's draw depends on its position and the key
alone, not on the device, the order of work or the number of threads, so a resumed run repeats its
bits.

Source: Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC 2011).
"""

from hashlib import blake2b

import torch
from torch import Tensor

RUN = 16
"""Elements of a row that have their draws from one run of the generator."""

_WORD = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10


def stream_key(
    *, seed: int, step: int, microbatch: int, layer: str, gemm: str, operand: str
) -> int:
    """64-bit key of one operand in one GEMM of one layer at one step.

    The fields are hashed in this order as UTF-8 text that a zero byte separates; the digest is
    read as a little-endian integer.
    """
    fields = (seed, step, microbatch, layer, gemm, operand)
    text = "\0".join(str(field) for field in fields)
    return int.from_bytes(blake2b(text.encode(), digest_size=8, person=b"sr").digest(), "little")


def philox4x32(counter: Tensor, key: int) -> Tensor:
    """Philox4x32-10 of many counters under one key.

    Args:
        counter: [4, n] int64, each a 32-bit word, the least significant first.
        key: 64 bits, the low word first.

    Returns:
        [4, n] int64, each a 32-bit word.
    """
    device = counter.device
    multipliers = torch.tensor(_MULTIPLIERS, device=device).view(2, 1)
    keys = _round_keys(key, device)
    # Words 0 and 2 are multiplied, words 1 and 3 only mixed in. The low 64 bits of a signed
    # product are those of the unsigned one; what a shift or a mix leaves above bit 31 is masked.
    factors, high = counter[0::2].contiguous(), torch.empty_like(counter[0::2])
    mixed, product = counter[[3, 1]], torch.empty_like(high)
    (factor_0, factor_2), (high_0, high_2) = factors.unbind(0), high.unbind(0)
    (word_3, word_1), (low_0, low_2) = mixed.unbind(0), product.unbind(0)
    for round_key in keys:
        torch.mul(factors, multipliers, out=product)
        torch.bitwise_right_shift(product, 32, out=high)
        torch.bitwise_xor(high_2, word_1, out=factor_0)
        torch.bitwise_xor(high_0, word_3, out=factor_2)
        factors.bitwise_xor_(round_key).bitwise_and_(_WORD)
        mixed, product = product, mixed
        word_3, word_1, low_0, low_2 = low_0, low_2, word_3, word_1
    return torch.stack((factor_0, word_1 & _WORD, factor_2, word_3 & _WORD))


def uniforms(runs: Tensor, key: int, *, bits: int = 8, half_offset: bool = True) -> Tensor:
    """Sixteen draws from (0, 1] for each run.

    Args:
        runs: [..., n] int64, indices of runs.
        key: 64 bits.
        bits: Random bits of a draw: 8, 16 or 24.
        half_offset: Whether draws are the midpoints of 2**bits equal parts of (0, 1), rather than
            the upper ends.

    Returns:
        [..., 16, n] FP32: element i of a run has draw i.
    """
    per_word = 32 // bits
    calls = RUN // (4 * per_word)
    index = runs.reshape(-1)
    counter = torch.zeros(4, calls, index.numel(), dtype=torch.int64, device=runs.device)
    counter[0] = index & _WORD
    counter[1] = index >> 32
    counter[2] = torch.arange(calls, device=runs.device).view(calls, 1)
    words = philox4x32(counter.view(4, -1), key).to(torch.int32)
    # In the order of the elements: call, word, place in the word.
    words = words.view(4, calls, *runs.shape).transpose(0, 1).flatten(0, 1).movedim(0, -2)
    first = 8 if bits == 24 else 0
    shifts = torch.arange(first, 32, bits, dtype=torch.int32, device=runs.device).view(-1, 1)
    drawn = (words.unsqueeze(-2) >> shifts).bitwise_and_(2**bits - 1).to(torch.float32)
    # The product is exact, so the sum is rounded once, fused or not.
    offset = torch.full((), 2.0**-bits * (0.5 if half_offset else 1.0), device=runs.device)
    draws = torch.add(offset, drawn, alpha=2.0**-bits)
    return draws.reshape(*runs.shape[:-1], RUN, runs.shape[-1])


def _round_keys(key: int, device: torch.device) -> tuple[Tensor, ...]:
    words = (key & _WORD, key >> 32)
    rounds = [
        [(word + number * step) & _WORD for word, step in zip(words, _KEY_STEPS, strict=True)]
        for number in range(_ROUNDS)
    ]
    return torch.tensor(rounds, device=device).view(_ROUNDS, 2, 1).unbind(0)
