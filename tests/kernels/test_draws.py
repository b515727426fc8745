"""Keys and signs as words in a device's memory, and back."""

import pytest
import torch

from kernels import ops
from kernels.draws import key_of, on_device, rotation_of, words
from kernels.formats import INT4
from kernels.hadamard import Rotation, random_signs
from kernels.operands import Operand, Rounding
from kernels.recipes import RHT_SIZES, Signs
from kernels.reference import fake_quantize
from kernels.request import Request

KEYS = (0, 1, 1 << 63, (1 << 64) - 1, 0xFEDCBA9876543210)


def turned(size: int, *, to_bf16: bool = False) -> Rotation:
    signs = random_signs(
        Signs.STEP, seed=1, layer="a", gemm="dgrad", step=2, microbatch=3, size=size
    )
    return Rotation(signs, to_bf16)


@pytest.mark.parametrize("to_bf16", [False, True])
@pytest.mark.parametrize("size", RHT_SIZES)
@pytest.mark.parametrize("key", KEYS)
def test_words_hold_key_and_signs(key: int, size: int, to_bf16: bool) -> None:
    rotation = turned(size, to_bf16=to_bf16)
    stored = on_device(key, rotation, torch.device("cpu")).tolist()
    assert key_of(stored) == key
    assert rotation_of(stored, size, to_bf16=to_bf16) == rotation


def test_a_sign_is_negative_where_its_bit_is_set() -> None:
    signs = tuple(-1.0 if place in (0, 63, 64, 127) else 1.0 for place in range(128))
    assert words(7, Rotation(signs)) == (7, 1 - (1 << 63), 1 - (1 << 63))
    assert words(7, None) == (7, 0, 0)


def test_a_request_that_has_words_goes_by_them_alone() -> None:
    x = torch.randn(32, 64, generator=torch.Generator().manual_seed(0))
    operand, rotation = Operand(grid=INT4, rounding=Rounding.SR), turned(32)
    expected = fake_quantize(x, operand, KEYS[-1], rotation=rotation)
    blank = Rotation((1.0,) * 32)
    draws = on_device(KEYS[-1], rotation, x.device)
    ours = ops.fulfil(x, Request(operand=operand, key=0, rotation=blank, draws=draws))
    assert torch.equal(ours.values, expected.values)
    other = ops.fulfil(x, Request(operand=operand, key=0, rotation=blank))
    assert not torch.equal(other.values, expected.values)
