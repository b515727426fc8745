"""The transform against Sylvester's matrix, and the properties that it exists for."""

from hashlib import blake2b
from typing import TypedDict

import pytest
import torch
from scipy.linalg import hadamard

from kernels.hadamard import Rotation, random_signs, rotate, rotation
from kernels.operands import Operand
from kernels.recipes import RHT_SIZES, Rht, Signs
from kernels.reference import fake_quantize

sizes = pytest.mark.parametrize("size", RHT_SIZES)


class Place(TypedDict):
    seed: int
    layer: str
    gemm: str
    step: int
    microbatch: int


PLACE = Place(seed=1, layer="a", gemm="fprop", step=2, microbatch=3)
ELSEWHERE = {
    "seed": Place(**{**PLACE, "seed": 2}),
    "layer": Place(**{**PLACE, "layer": "b"}),
    "gemm": Place(**{**PLACE, "gemm": "dgrad"}),
    "step": Place(**{**PLACE, "step": 3}),
    "microbatch": Place(**{**PLACE, "microbatch": 4}),
}


def turned(size: int, *, to_bf16: bool = False) -> Rotation:
    return Rotation(random_signs(Signs.LAYER, **PLACE, size=size), to_bf16)


@sizes
def test_it_is_the_signed_sylvester_matrix(size: int) -> None:
    x = torch.randn(6, 2 * size, generator=torch.Generator().manual_seed(0))
    matrix = torch.diag(torch.tensor(turned(size).signs, dtype=torch.float64)) @ torch.tensor(
        hadamard(size) / size**0.5
    )
    expected = (x.double().view(6, 2, size) @ matrix).view(6, -1)
    torch.testing.assert_close(rotate(x, turned(size)).double(), expected, rtol=0, atol=2e-6)


@sizes
def test_it_is_orthogonal(size: int) -> None:
    matrix = rotate(torch.eye(size), turned(size)).double()
    identity = torch.eye(size, dtype=torch.float64)
    torch.testing.assert_close(matrix @ matrix.T, identity, rtol=0, atol=1e-6)


def test_butterflies_add_in_the_order_of_rising_strides() -> None:
    # Values whose FP32 sums depend on the order: a different one gives other bits.
    x = torch.randn(1, 16, generator=torch.Generator().manual_seed(3)) * torch.logspace(-6, 6, 16)
    signs = turned(16).signs
    values = [torch.tensor(sign) * value for sign, value in zip(signs, x[0], strict=True)]
    for stride in (1, 2, 4, 8):
        for start in range(16):
            if start & stride == 0:
                a, b = values[start], values[start + stride]
                values[start], values[start + stride] = a + b, a - b
    expected = torch.stack(values) * torch.tensor(0.25)
    assert torch.equal(rotate(x, turned(16))[0], expected)


@sizes
def test_operands_that_share_it_keep_their_product(size: int) -> None:
    generator = torch.Generator().manual_seed(5)
    a, b = (torch.randn(rows, 256, generator=generator) for rows in (7, 5))
    product = rotate(a, turned(size)) @ rotate(b, turned(size)).t()
    torch.testing.assert_close(product, a @ b.t(), rtol=0, atol=2e-4)


@pytest.mark.parametrize("to_bf16", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_an_operand_without_a_grid_is_transformed_and_rounded_to_the_carrier(
    to_bf16: bool, axis: int
) -> None:
    x = torch.randn(256, 384, generator=torch.Generator().manual_seed(1))
    transform = turned(16)
    along = rotate(x, transform) if axis == 1 else rotate(x.t(), transform).t()
    if to_bf16:
        along = along.to(torch.bfloat16)
    found = fake_quantize(
        x, Operand(), 0, rotation=turned(16, to_bf16=to_bf16), axis=axis, carrier=torch.float16
    )
    assert torch.equal(found.values, along.to(torch.float16).to(torch.float32))


def test_the_result_is_rounded_to_bf16_where_it_is_asked() -> None:
    x = torch.randn(3, 5, 64, generator=torch.Generator().manual_seed(1))
    rounded = rotate(x, turned(32, to_bf16=True))
    assert rounded.dtype == torch.float32
    assert torch.equal(rounded, rotate(x, turned(32)).to(torch.bfloat16).float())
    assert not torch.equal(rounded, rotate(x, turned(32)))


@pytest.mark.parametrize("shape", [(16,), (1, 16), (4, 16), (2, 3, 32)])
def test_the_input_stays_as_it_is(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    before = x.clone()
    assert rotate(x, turned(16)).shape == shape
    assert torch.equal(x, before)


def test_an_axis_that_is_no_multiple_is_refused() -> None:
    with pytest.raises(ValueError, match="an RHT of 16 elements does not divide an axis of 24"):
        rotate(torch.zeros(2, 24), turned(16))


@pytest.mark.parametrize(
    ("kind", "depends"),
    [
        (Signs.NONE, set()),
        (Signs.FIXED, {"seed"}),
        (Signs.LAYER, {"seed", "layer", "gemm"}),
        (Signs.STEP, {"seed", "layer", "gemm", "step", "microbatch"}),
    ],
)
def test_signs_depend_on_what_their_kind_says_and_repeat(kind: Signs, depends: set[str]) -> None:
    base = random_signs(kind, **PLACE, size=128)
    assert base == random_signs(kind, **PLACE, size=128)
    changed = {
        word for word, place in ELSEWHERE.items() if random_signs(kind, **place, size=128) != base
    }
    assert changed == depends


@pytest.mark.parametrize(
    ("kind", "text"),
    [(Signs.FIXED, b"1"), (Signs.LAYER, b"1\0a\0fprop"), (Signs.STEP, b"1\0a\0fprop\x002\x003")],
)
def test_sign_i_is_bit_i_of_the_digest(kind: Signs, text: bytes) -> None:
    digest = blake2b(text, digest_size=16, person=b"rht").digest()
    expected = tuple(-1.0 if digest[i // 8] >> i % 8 & 1 else 1.0 for i in range(128))
    assert random_signs(kind, **PLACE, size=128) == expected
    assert random_signs(kind, **PLACE, size=16) == expected[:16]


def test_without_signs_it_is_the_plain_hadamard_transform() -> None:
    plain = rotation(Rht(size=8, signs=Signs.NONE), **PLACE)
    assert plain == Rotation((1.0,) * 8)
    expected = torch.tensor(hadamard(8) / 8**0.5, dtype=torch.float32)
    torch.testing.assert_close(rotate(torch.eye(8), plain), expected)


def test_a_gemms_rht_says_size_signs_and_rounding() -> None:
    assert rotation(None, **PLACE) is None
    found = rotation(Rht(size=32, signs=Signs.STEP, to_bf16=True), **PLACE)
    assert found == Rotation(random_signs(Signs.STEP, **PLACE, size=32), to_bf16=True)


def test_signs_are_balanced_over_layers() -> None:
    places = [Place(**{**PLACE, "layer": f"layer {i}"}) for i in range(200)]
    total = sum(sum(random_signs(Signs.LAYER, **place, size=128)) for place in places)
    assert abs(total) < 4 * (128 * 200) ** 0.5
