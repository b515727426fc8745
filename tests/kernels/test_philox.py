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


@pytest.mark.parametrize("bits", [8, 16, 24])
def test_draws_are_uniform(bits: int) -> None:
    draws = uniforms(torch.arange(1 << 14), 7, bits=bits)
    for place in range(0, bits, 8):  # each byte of b by itself
        part = ((draws * 2.0**bits - 0.5).round().to(torch.int64) >> place & 255).flatten()
        if bits == 24 and place == 0:
            continue  # the lowest bit of large draws is lost where the half is added
        counts = torch.bincount(part, minlength=256).double()
        expected = draws.numel() / 256
        statistic = float(((counts - expected) ** 2 / expected).sum())
        assert len(counts) == 256
        assert abs(statistic - 255) < 4 * (2 * 255) ** 0.5


def random_bits(word: list[list[int]], i: int, bits: int) -> int:
    """Those of element i of a run, given the words of its calls, as the contract's table says."""
    match bits:
        case 8:
            return word[0][i // 4] >> 8 * (i % 4) & 255
        case 16:
            return word[i // 8][i % 8 // 2] >> 16 * (i % 2) & 65535
        case _:
            return word[i // 4][i % 4] >> 8


@pytest.mark.parametrize("bits", [8, 16, 24])
@pytest.mark.parametrize("half_offset", [True, False])
def test_element_i_of_a_run_draws_from_its_bits_of_its_call(bits: int, half_offset: bool) -> None:
    key = 12345678901234567890
    for low, high in ((5, 1), (0xFFFFFFFF, 0), (0, 0)):
        words = [philox_by_integers([low, high, call, 0], key) for call in range(4)]
        drawn = [random_bits(words, i, bits) for i in range(16)]
        expected = [np.float32((b + (0.5 if half_offset else 1)) / 2**bits) for b in drawn]
        runs = torch.tensor([high << 32 | low])
        draws = uniforms(runs, key, bits=bits, half_offset=half_offset)
        assert draws.dtype == torch.float32
        assert draws[:, 0].tolist() == [float(u) for u in expected]


@pytest.mark.parametrize("bits", [8, 16, 24])
def test_draws_lie_above_zero_and_at_most_at_one(bits: int) -> None:
    runs = torch.arange(1 << 15)
    half = uniforms(runs, 3, bits=bits)
    whole = uniforms(runs, 3, bits=bits, half_offset=False)
    assert half.min() >= 2.0 ** -(bits + 1)
    assert half.max() <= 1
    assert whole.min() >= 2.0**-bits
    assert whole.max() <= 1
    # The half centres them, and without it they stand half a step higher.
    deviation = 12**-0.5 / half.numel() ** 0.5
    assert abs(float(half.double().mean()) - 0.5) < 4 * deviation
    assert float((whole - half).double().mean()) == pytest.approx(2.0 ** -(bits + 1), rel=1e-3)


@pytest.mark.parametrize("bits", [8, 16, 24])
def test_draws_follow_the_shape_of_the_runs(bits: int) -> None:
    runs = torch.arange(30).view(2, 3, 5)
    draws = uniforms(runs, 9, bits=bits)
    assert draws.shape == (2, 3, 16, 5)
    for i, j, k in product(range(2), range(3), range(5)):
        assert torch.equal(draws[i, j, :, k], uniforms(runs[i, j, k : k + 1], 9, bits=bits)[:, 0])


@pytest.mark.parametrize("bits", [8, 16, 24])
def test_neighbouring_elements_runs_and_keys_are_uncorrelated(bits: int) -> None:
    runs = torch.arange(1 << 14)
    draws = (uniforms(runs, 1, bits=bits) - 0.5).double()
    other = (uniforms(runs, 2, bits=bits) - 0.5).double()
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
