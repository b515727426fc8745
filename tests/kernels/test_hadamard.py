"""The transform against Sylvester's matrix, and the properties that it exists for."""

import pytest
import torch
from scipy.linalg import hadamard

from kernels.hadamard import random_signs, rotate
from kernels.recipes import Operand
from kernels.reference import fake_quantize

SIZES = (4, 8, 16, 32, 64, 128)


def signs_of(size: int, layer: str = "a", gemm: str = "fprop", seed: int = 1) -> tuple[float, ...]:
    return random_signs(seed=seed, layer=layer, gemm=gemm, size=size)


@pytest.mark.parametrize("size", SIZES)
def test_it_is_the_signed_sylvester_matrix(size: int) -> None:
    signs = signs_of(size)
    x = torch.randn(6, 2 * size, generator=torch.Generator().manual_seed(0))
    matrix = torch.diag(torch.tensor(signs, dtype=torch.float64)) @ torch.tensor(
        hadamard(size) / size**0.5
    )
    expected = (x.double().view(6, 2, size) @ matrix).view(6, -1)
    torch.testing.assert_close(rotate(x, signs).double(), expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("size", SIZES)
def test_it_is_orthogonal(size: int) -> None:
    matrix = rotate(torch.eye(size), signs_of(size)).double()
    identity = torch.eye(size, dtype=torch.float64)
    torch.testing.assert_close(matrix @ matrix.T, identity, rtol=0, atol=1e-6)


def test_butterflies_add_in_the_order_of_rising_strides() -> None:
    # Values whose FP32 sums depend on the order: a different one gives other bits.
    x = torch.randn(1, 16, generator=torch.Generator().manual_seed(3)) * torch.logspace(-6, 6, 16)
    signs = signs_of(16)
    values = [torch.tensor(sign) * value for sign, value in zip(signs, x[0], strict=True)]
    for stride in (1, 2, 4, 8):
        for start in range(16):
            if start & stride == 0:
                a, b = values[start], values[start + stride]
                values[start], values[start + stride] = a + b, a - b
    expected = torch.stack(values) * torch.tensor(0.25)
    assert torch.equal(rotate(x, signs)[0], expected)


@pytest.mark.parametrize("size", [4, 16, 128])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_transformed_bf16_operand_is_rounded_to_bf16(size: int, axis: int) -> None:
    x = torch.randn(256, 384, generator=torch.Generator().manual_seed(1))
    signs = signs_of(size)
    along = rotate(x, signs) if axis == 1 else rotate(x.t(), signs).t()
    expected = along.to(torch.bfloat16).to(torch.float32)
    assert torch.equal(fake_quantize(x, Operand(), 0, signs=signs, axis=axis), expected)


def test_the_input_stays_as_it_is() -> None:
    x = torch.randn(4, 16)
    before = x.clone()
    rotate(x, signs_of(16))
    assert torch.equal(x, before)


def test_signs_depend_on_seed_layer_and_gemm_and_repeat() -> None:
    base = signs_of(128)
    assert base == signs_of(128)
    assert set(base) == {-1.0, 1.0}
    assert base not in {signs_of(128, seed=2), signs_of(128, "b"), signs_of(128, gemm="dgrad")}


def test_signs_are_balanced_over_layers() -> None:
    total = sum(sum(signs_of(128, f"layer {i}")) for i in range(200))
    assert abs(total) < 4 * (128 * 200) ** 0.5
