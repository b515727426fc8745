"""How the packages that compute block scales are called.

Every function here imports its package when it is called, and no sooner, and returns a quantizer
of matrices. nv stands for NVFP4, mx for blocks of 32 under powers of two.
"""

from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from benchmarks.peers_quantizer import Quantizer


def torchao_nv() -> Quantizer:
    """`NVFP4Tensor` under the scale of the tensor's largest magnitude."""
    nv = import_module("torchao.prototype.mx_formats.nvfp4_tensor")

    def quantize(x: Tensor) -> Any:
        scale = nv.per_tensor_amax_to_scale(x.abs().max())
        return nv.NVFP4Tensor.to_nvfp4(x, per_tensor_scale=scale).dequantize(torch.bfloat16)

    return quantize


def torchao_mx(element: torch.dtype, rule: str) -> Quantizer:
    """`MXTensor` by a rule of its `ScaleCalculationMode`."""
    tensor = import_module("torchao.prototype.mx_formats.mx_tensor").MXTensor
    mode = import_module("torchao.prototype.mx_formats.config").ScaleCalculationMode[rule]

    def quantize(x: Tensor) -> Any:
        return tensor.to_mx(x, element, 32, mode).dequantize(torch.bfloat16)

    return quantize


def fouroversix(**options: Any) -> Quantizer:
    """Its backend in torch, with the options of `QuantizationConfig`."""
    package = import_module("fouroversix")
    config = package.QuantizationConfig(backend="pytorch", **options)

    def quantize(x: Tensor) -> Any:
        return package.dequantize(package.quantize_to_fp4(x, config), torch.bfloat16)

    return quantize


def fouroversix_rht() -> Quantizer:
    """NVFP4 after the RHT, by the function below the public one.

    The public one puts the matrix of the transform on a GPU.
    """
    package = import_module("fouroversix")
    quantize_to_fp4 = import_module("fouroversix.quantize.pytorch.reference").quantize_to_fp4
    matrix = import_module("fouroversix.quantize").get_rht_matrix(device="cpu")
    kind, rule = package.DataType.nvfp4, package.ScaleRule.static_6

    def quantize(x: Tensor) -> Any:
        parts = quantize_to_fp4(x, had=matrix, fp4_format=kind, scale_rule=rule)
        quantized = package.QuantizedTensor(*parts, kind, tuple(x.shape), rule)
        return package.dequantize(quantized, torch.bfloat16)

    return quantize


FOUROVERSIX_SIGNS = (
    1.0, 1.0, 1.0, -1.0, 1.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0, 1.0, -1.0, 1.0, -1.0, -1.0,
)  # fmt: skip
"""The diagonal of its RHT."""


def auto_round_nv() -> Quantizer:
    """`nv_fp4`."""
    nv_fp4 = import_module("auto_round.data_type.nvfp").nv_fp4
    return lambda x: nv_fp4(x)[0]


def auto_round_mx(function: str, bits: int, rounding: str) -> Quantizer:
    """`quant_mx` or `quant_mx_rceil`."""
    quantize = getattr(import_module("auto_round.data_type.mxfp"), function)
    return lambda x: quantize(x, bits, 32, mantissa_rounding=rounding)[0]


def compressed_tensors(
    bits: int, strategy: str, elements: int, scale_dtype: torch.dtype
) -> Quantizer:
    """Scales from the least and the largest element of each block, as its observer finds them."""
    utils = import_module("compressed_tensors.quantization.utils")
    fake_quantize = import_module("compressed_tensors.quantization.lifecycle.forward").fake_quantize
    asked = import_module("compressed_tensors.quantization").QuantizationArgs(
        num_bits=bits,
        type="float",
        strategy=strategy,
        group_size=elements,
        symmetric=True,
        scale_dtype=scale_dtype,
        zp_dtype=scale_dtype,
    )

    def quantize(x: Tensor) -> Any:
        blocks = x.view(len(x), -1, elements)
        low, high = blocks.amin(-1), blocks.amax(-1)
        above = None
        if strategy == "tensor_group":
            above = utils.generate_gparam(low.min(), high.max())
        scale, zero = utils.calculate_qparams(low, high, asked, global_scale=above)
        return fake_quantize(x, scale, zero, asked, global_scale=above)

    return quantize


def modelopt_nv() -> Quantizer:
    """`NVFP4QTensor`."""
    tensor = import_module("modelopt.torch.quantization.qtensor.nvfp4_tensor").NVFP4QTensor

    def quantize(x: Tensor) -> Any:
        quantized, scale, above = tensor.quantize(x, 16)
        return quantized.dequantize(
            torch.bfloat16, scale=scale, double_scale=above, block_sizes={-1: 16}
        )

    return quantize


def modelopt_mxfp4() -> Quantizer:
    """`MXFP4QTensor`."""
    tensor = import_module("modelopt.torch.quantization.qtensor.mxfp4_tensor").MXFP4QTensor

    def quantize(x: Tensor) -> Any:
        quantized, scale = tensor.quantize(x, 32)
        return quantized.dequantize(torch.bfloat16, scale=scale, block_sizes={-1: 32})

    return quantize


def modelopt_mxfp8() -> Quantizer:
    """`MXFP8QTensor`."""
    tensor = import_module("modelopt.torch.quantization.qtensor.mxfp8_tensor").MXFP8QTensor

    def quantize(x: Tensor) -> Any:
        quantized, scale = tensor.quantize(x)
        return quantized.dequantize(torch.bfloat16, scale=scale)

    return quantize


def neural_compressor(element: str, rounding: str) -> Quantizer:
    """`_quantize_mx`, which is that of microxcaling; `dither` is its stochastic rounding."""
    module = import_module("neural_compressor.torch.algorithms.mx_quant.utils")
    return lambda x: module._quantize_mx(x, 8, element, axes=[-1], block_size=32, round=rounding)


def brevitas(exponent_bits: int, mantissa_bits: int) -> Quantizer:
    """`QuantIdentity` with its MX activations of so many bits."""
    activations = import_module("brevitas.quant.mx_quant_ocp").MXFloat8e4m3Act.let(
        bit_width=1 + exponent_bits + mantissa_bits,
        exponent_bit_width=exponent_bits,
        mantissa_bit_width=mantissa_bits,
    )
    identity = import_module("brevitas.nn").QuantIdentity
    layer: Quantizer = identity(activations, group_dim=-1, return_quant_tensor=False).eval()
    return layer


def quark(element: str) -> Quantizer:
    """`non_scaled_fake_quantize` with scales to even."""
    module = import_module("quark.torch.kernel.hw_emulation.hw_emulation_interface")
    return lambda x: module.non_scaled_fake_quantize(x, "mx", element, -1, 32, "even")


def qtorch(rounding: str) -> Quantizer:
    """`block_quantize` to words of 4 bits, a block for each row."""
    block_quantize = import_module("qtorch.quant").block_quantize
    return lambda x: block_quantize(x, wl=4, dim=0, rounding=rounding)
