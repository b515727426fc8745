"""The matrix products of a run, by the units of the device that compute them as they are defined.

    c = sum over k of carrier(a) * carrier(b)          an unquantized GEMM
    c = sum over k of precision(a) * precision(b)      a quantized one, its operands rounded already

Sums are FP32. A CPU with instructions for BF16 multiplies by them (`kernels.product`); without, a
16-bit GEMM is some ten times slower than an FP32 GEMM of the same rounded operands, which computes
the same thing by definition. A GPU has units for it, and others for TF32, which would round FP32
operands if they were not rounded already. Neither autocast nor what the process allows FP32
products to be changes a product of a run.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock
from typing import Literal, assert_never

import torch
from torch import Tensor

from kernels import product
from kernels.recipes import Precision

CARRIERS = {"bf16": torch.bfloat16, "fp16": torch.float16}
"""The types of `kernels.recipes.Carrier`."""


def carried_matmul(
    a: Tensor, b: Tensor, carrier: torch.dtype, out: torch.dtype = torch.float32
) -> Tensor:
    """Product of two matrices rounded to the carrier, summed in FP32.

    Args:
        a: [m, k], any floating type.
        b: [k, n], any floating type.
        carrier: BF16 or FP16.
        out: FP32, or the carrier, to which the sums are rounded once.

    Returns:
        [m, n].

    Raises:
        ValueError: If the process lets a CPU round the operands of FP32 products.
    """
    return _narrow(a.to(carrier), b.to(carrier), out)


def emulated_matmul(a: Tensor, b: Tensor, precision: Precision) -> Tensor:
    """Product of two fake-quantized matrices, summed in FP32.

    Args:
        a: [m, k], FP32, or BF16 where that is the precision; every value of the precision.
        b: [k, n], the same.
        precision: Of both.

    Returns:
        [m, n], FP32.

    Raises:
        ValueError: If the process lets a CPU round the operands of FP32 products.
    """
    match precision:
        case Precision.BF16:
            return _narrow(a.to(torch.bfloat16), b.to(torch.bfloat16), torch.float32)
        case Precision.TF32:
            return _wide(a, b, "tf32")
        case Precision.FP32:
            return _wide(a, b, "ieee")
        case never:
            assert_never(never)


def _narrow(a: Tensor, b: Tensor, out: torch.dtype) -> Tensor:
    """Of 16-bit operands."""
    if product.serves(a, b):
        return product.multiplied(a, b, out)
    if a.device.type == "cpu":
        return _wide(a.to(torch.float32), b.to(torch.float32), "ieee").to(out)
    with _outside_autocast(a.device):
        # With a 16-bit result a GPU may add partial sums in 16 bits.
        return torch.mm(a, b, out_dtype=torch.float32).to(out)


def _wide(a: Tensor, b: Tensor, units: Literal["ieee", "tf32"]) -> Tensor:
    """Of FP32 operands, by a GPU's units for FP32 or for TF32."""
    with _outside_autocast(a.device):
        if a.device.type != "cpu":
            with _by(units):
                return torch.mm(a, b)
        allowed = torch.backends.mkldnn.matmul.fp32_precision  # type: ignore[attr-defined]
        if allowed not in ("ieee", "none"):
            raise ValueError(
                f"products of FP32 operands must not be computed in {allowed}: call "
                "torch.set_float32_matmul_precision('highest')"
            )
        return torch.mm(a, b)


_SETTING = Lock()


@contextmanager
def _by(units: Literal["ieee", "tf32"]) -> Iterator[None]:
    """Has CUDA multiply FP32 operands so; the setting is one of the whole process.

    It is read as `fp32_precision`, which there always is, and written as `allow_tf32`, which sets
    that and what torch still keeps beside it.
    """
    matmul = torch.backends.cuda.matmul
    with _SETTING:
        before = matmul.fp32_precision
        matmul.allow_tf32 = units == "tf32"
        try:
            yield
        finally:
            matmul.allow_tf32 = before == "tf32"


def _outside_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Operands keep the types that the recipe says, within an autocast region too."""
    available = torch.amp.is_autocast_available(device.type)
    if available and torch.is_autocast_enabled(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()
