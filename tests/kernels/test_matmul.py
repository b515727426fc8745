"""Products of quantized operands: exact, summed in FP32, factors applied before anything rounds.

Devices with units for 16 bits or for TF32 are stood for by torch's device without memory, on which
the calls and their types are seen, and nothing is computed.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from kernels.linear import QuantLinear
from kernels.matmul import emulated_matmul
from kernels.presets import PRESETS
from kernels.recipes import Precision
from kernels.reference import fake_quantize
from kernels.rounding import round_significand
from kernels.streams import Streams

precisions = pytest.mark.parametrize("precision", Precision)


def operands(precision: Precision) -> tuple[Tensor, Tensor]:
    """[7, 333] and [333, 5] of a precision."""
    generator = torch.Generator().manual_seed(4)
    a, b = torch.randn(7, 333, generator=generator), torch.randn(333, 5, generator=generator)
    bits = precision.dropped_bits
    return round_significand(a, bits), round_significand(b, bits)


@precisions
def test_products_are_exact_and_summed_in_fp32(precision: Precision) -> None:
    a, b = operands(precision)
    found = emulated_matmul(a, b, precision)
    assert found.dtype is torch.float32
    torch.testing.assert_close(found.double(), a.double() @ b.double(), rtol=1e-6, atol=2e-5)
    if precision is not Precision.FP32:
        whole = [x.double() for x in operands(Precision.FP32)]
        assert not torch.allclose(found.double(), whole[0] @ whole[1], rtol=0, atol=1e-4)


def test_operands_that_are_stored_in_bf16_have_the_same_product() -> None:
    a, b = operands(Precision.BF16)
    stored = emulated_matmul(a.to(torch.bfloat16), b.to(torch.bfloat16), Precision.BF16)
    assert torch.equal(stored, emulated_matmul(a, b, Precision.BF16))


def test_sums_of_bf16_products_have_more_bits_than_bf16() -> None:
    ones = torch.ones(1, 257)
    assert emulated_matmul(ones, ones.t(), Precision.BF16).item() == 257


class Calls(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Each operation's name, the types of its tensors, and whether TF32 was allowed."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: list[tuple[str, set[torch.dtype], bool]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        kinds = {one.dtype for one in args if isinstance(one, Tensor)}
        allowed = torch.backends.cuda.matmul.fp32_precision == "tf32"
        self.seen.append((str(func).split(".")[1], kinds, allowed))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("precision", "kind", "is_tf32"),
    [
        (Precision.FP32, torch.float32, False),
        (Precision.TF32, torch.float32, True),
        (Precision.BF16, torch.bfloat16, False),
    ],
)
def test_another_device_multiplies_by_the_units_of_the_precision(
    precision: Precision, kind: torch.dtype, is_tf32: bool
) -> None:
    a, b = torch.empty(4, 8, device="meta"), torch.empty(8, 5, device="meta")
    with Calls() as calls:
        product = emulated_matmul(a, b, precision)
    assert (product.dtype, product.shape) == (torch.float32, (4, 5))
    assert [call for call in calls.seen if call[0] == "mm"] == [("mm", {kind}, is_tf32)]
    assert not torch.backends.cuda.matmul.allow_tf32


@pytest.fixture(params=[True, False])
def is_allowed(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether TF32 is allowed for now; torch's default is that it is not."""
    torch.backends.cuda.matmul.allow_tf32 = request.param
    yield request.param
    torch.backends.cuda.matmul.allow_tf32 = False


def test_whether_tf32_is_allowed_elsewhere_stays_as_it_was(is_allowed: bool) -> None:
    a, b = torch.empty(4, 8, device="meta"), torch.empty(8, 5, device="meta")
    emulated_matmul(a, b, Precision.TF32)
    assert torch.backends.cuda.matmul.allow_tf32 is is_allowed
    with pytest.raises(RuntimeError, match="reduction dim"):
        emulated_matmul(a, a, Precision.TF32)
    assert torch.backends.cuda.matmul.allow_tf32 is is_allowed


@precisions
def test_factors_multiply_the_fp32_sum_before_it_is_rounded_to_the_carrier(
    precision: Precision,
) -> None:
    recipe = replace(PRESETS["nvfp4"], gemm=precision)
    layer = QuantLinear(16, 64, recipe=recipe, name="blocks.0.mlp.up", streams=Streams(sr=1, rht=2))
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(128, 16, generator=generator).to(torch.bfloat16)
    w = torch.randn(64, 16, generator=generator)
    with torch.no_grad():
        layer.weight.copy_(w)
        y = layer(x)

    left = fake_quantize(x, recipe.fprop.left, 0, precision=precision)
    right = fake_quantize(w.to(torch.bfloat16), recipe.fprop.right, 0, precision=precision)
    assert left.factor is not None
    assert right.factor is not None
    exact = left.values.double() @ right.values.double().t()
    total = exact.float()
    assert torch.equal(total.double(), exact)  # one block: whatever the order of its sum
    assert torch.equal(y, (total * left.factor * right.factor).to(torch.bfloat16))
    rounded_twice = total.to(torch.bfloat16).float() * left.factor * right.factor
    assert not torch.equal(y, rounded_twice.to(torch.bfloat16))
