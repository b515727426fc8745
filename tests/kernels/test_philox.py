"""The generator against published vectors, an integer version, and what streams promise."""

from itertools import product
from typing import TypedDict

import numpy as np
import pytest
import torch

from kernels.philox import philox4x32, stream_key, uniforms

VECTORS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000",
     "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
     "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
]  # fmt: skip


class Fields(TypedDict):
    seed: int
    step: int
    microbatch: int
    layer: str
    gemm: str
    operand: str


FIELDS = Fields(seed=1, step=2, microbatch=3, layer="a", gemm="fprop", operand="x")


def words(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


def philox_by_integers(counter: list[int], key: int) -> list[int]:
    c0, c1, c2, c3 = counter
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (
            (p1 >> 32) ^ c1 ^ k0,
            p1 & 0xFFFFFFFF,
            (p0 >> 32) ^ c3 ^ k1,
            p0 & 0xFFFFFFFF,
        )
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return [c0, c1, c2, c3]


@pytest.mark.parametrize(("counter", "key", "expected"), VECTORS)
def test_published_vectors_come_out(counter: str, key: str, expected: str) -> None:
    low, high = words(key)
    out = philox4x32(torch.tensor(words(counter)).view(4, 1), low | high << 32)
    assert out[:, 0].tolist() == words(expected)


def test_many_counters_equal_the_integer_version() -> None:
    generator = np.random.default_rng(0)
    counters = generator.integers(0, 2**32, size=(4, 200))
    key = 0xDEADBEEF_CAFEF00D
    out = philox4x32(torch.from_numpy(counters), key)
    expected = [philox_by_integers(column, key) for column in counters.T.tolist()]
    assert out.T.tolist() == expected


def test_bytes_are_uniform() -> None:
    draws = (uniforms(torch.arange(1 << 14), 7) * 256 - 0.5).to(torch.int64).flatten()
    counts = torch.bincount(draws, minlength=256).double()
    expected = draws.numel() / 256
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert len(counts) == 256
    assert abs(statistic - 255) < 4 * (2 * 255) ** 0.5


def test_element_i_of_a_run_draws_from_byte_i() -> None:
    index = 2**32 + 5
    key = 12345678901234567890
    word = philox_by_integers([5, 1, 0, 0], key)
    expected = [((word[i >> 2] >> 8 * (i & 3) & 255) + 0.5) / 256 for i in range(16)]
    assert uniforms(torch.tensor([index]), key)[:, 0].tolist() == expected


def test_draws_follow_the_shape_of_the_runs() -> None:
    runs = torch.arange(30).view(2, 3, 5)
    draws = uniforms(runs, 9)
    assert draws.shape == (2, 3, 16, 5)
    for i, j, k in product(range(2), range(3), range(5)):
        assert torch.equal(draws[i, j, :, k], uniforms(runs[i, j, k : k + 1], 9)[:, 0])


def test_neighbouring_elements_runs_and_keys_are_uncorrelated() -> None:
    runs = torch.arange(1 << 14)
    draws = (uniforms(runs, 1) - 0.5).double()
    other = (uniforms(runs, 2) - 0.5).double()
    bound = 4 / draws.numel() ** 0.5
    for a, b in ((draws[:-1], draws[1:]), (draws[:, :-1], draws[:, 1:]), (draws, other)):
        correlation = float((a * b).mean() / (draws.var() * other.var()).sqrt())
        assert abs(correlation) < 1.1 * bound


@pytest.mark.parametrize(
    "changed",
    [
        Fields(**{**FIELDS, "seed": 2}),
        Fields(**{**FIELDS, "step": 3}),
        Fields(**{**FIELDS, "microbatch": 4}),
        Fields(**{**FIELDS, "layer": "b"}),
        Fields(**{**FIELDS, "gemm": "dgrad"}),
        Fields(**{**FIELDS, "operand": "w"}),
    ],
)
def test_each_field_changes_the_key(changed: Fields) -> None:
    assert stream_key(**FIELDS) != stream_key(**changed)


def test_the_key_is_stable_and_has_64_bits() -> None:
    assert stream_key(**FIELDS) == stream_key(**FIELDS)
    assert 0 <= stream_key(**FIELDS) < 2**64


def test_fields_do_not_run_into_each_other() -> None:
    first, second = FIELDS | {"seed": 11, "step": 1}, FIELDS | {"seed": 1, "step": 11}
    assert stream_key(**first) != stream_key(**second)
