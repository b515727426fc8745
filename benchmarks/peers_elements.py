"""The peers that round elements alone, each under a scale of 1.

Ours does more in the same time: it finds the scale of each block, which on `on_grid` is 1. torch's
own cast to FP8 and back is among them.
"""

from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.peers_quantizer import Peer, Quantizer
from kernels.formats import GRIDS, Grid, minifloat
from kernels.operands import Operand, Rounding, Scale

_RANDOM_BITS = 8


def _gfloat(name: str) -> Quantizer:
    package = import_module("gfloat")
    info = getattr(import_module("gfloat.formats"), f"format_info_ocp_{name}")
    nearest = package.RoundMode.TiesToEven

    def quantize(x: Tensor) -> Any:
        return torch.from_numpy(package.round_ndarray(info, x.numpy(), nearest, sat=True))

    return quantize


def _gfloat_e3m0() -> Quantizer:
    package = import_module("gfloat")
    info = package.FormatInfo(
        "e3m0",
        4,
        1,
        bias=3,
        is_signed=True,
        domain=package.Domain.Finite,
        has_nz=True,
        num_high_nans=0,
        has_subnormals=True,
        is_twos_complement=False,
    )
    nearest = package.RoundMode.TiesToEven

    def quantize(x: Tensor) -> Any:
        return torch.from_numpy(package.round_ndarray(info, x.numpy(), nearest, sat=True))

    return quantize


def _gfloat_stochastic(name: str) -> Quantizer:
    package = import_module("gfloat")
    info = getattr(import_module("gfloat.formats"), f"format_info_ocp_{name}")
    mode = package.RoundMode.StochasticFast
    draws = np.random.default_rng(0)

    def quantize(x: Tensor) -> Any:
        bits = draws.integers(0, 1 << _RANDOM_BITS, x.shape)
        rounded = package.round_ndarray(info, x.numpy(), mode, True, bits, _RANDOM_BITS)
        return torch.from_numpy(rounded)

    return quantize


def _ml_dtypes(name: str) -> Quantizer:
    element = getattr(import_module("ml_dtypes"), name)
    return lambda x: torch.from_numpy(x.numpy().astype(element).astype(np.float32))


def _qtorch(exponent_bits: int, mantissa_bits: int, rounding: str) -> Quantizer:
    quantize = import_module("qtorch.quant").float_quantize
    return lambda x: quantize(x, exponent_bits, mantissa_bits, rounding)


def _unit_scaling(exponent_bits: int, mantissa_bits: int, rounding: str) -> Quantizer:
    number = import_module("unit_scaling.formats").FPFormat(exponent_bits, mantissa_bits, rounding)
    return lambda x: number.quantise(x)


def _cast(element: torch.dtype) -> Quantizer:
    return lambda x: x.to(element).to(x.dtype)


def _without_reserved_codes(exponent_bits: int, mantissa_bits: int) -> Grid:
    """As unit-scaling has it: no code is reserved, and the bias is one more than IEEE 754's."""
    whole = minifloat("", exponent_bits, mantissa_bits)
    halved = tuple(magnitude / 2 for magnitude in whole.magnitudes)
    return Grid(f"e{exponent_bits}m{mantissa_bits} to {halved[-1]:g}", halved)


_ML_DTYPES = {
    "e2m1": "float4_e2m1fn",
    "e2m3": "float6_e2m3fn",
    "e3m2": "float6_e3m2fn",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
}
_CASTS = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
_BITS = {"e2m1": (2, 1), "e4m3": (4, 3), "e5m2": (5, 2)}


def _peer(
    package: str,
    grid: Grid,
    load: partial[Quantizer],
    *,
    rounding: Rounding = Rounding.RTNE,
    differs: str = "",
) -> Peer:
    return Peer(
        package=package,
        rule=grid.name if rounding is Rounding.RTNE else f"{grid.name}, SR",
        load=load,
        operand=Operand(grid=grid, scale=Scale.E8M0_FLOOR, rounding=rounding),
        takes=torch.float32,
        computes_scales=False,
        is_torch=package in ("torch", "unit-scaling"),
        differs=differs,
    )


ELEMENTS = (
    *(_peer("gfloat", GRIDS[name], partial(_gfloat, name)) for name in _ML_DTYPES),
    _peer("gfloat", GRIDS["e3m0"], partial(_gfloat_e3m0)),
    _peer("gfloat", GRIDS["e2m1"], partial(_gfloat_stochastic, "e2m1"), rounding=Rounding.SR),
    *(
        _peer("ml-dtypes", GRIDS[name], partial(_ml_dtypes, element))
        for name, element in _ML_DTYPES.items()
    ),
    *(
        _peer(
            "qtorch",
            GRIDS[name],
            partial(_qtorch, *bits, "nearest"),
            differs="half-way goes to the larger magnitude",
        )
        for name, bits in _BITS.items()
    ),
    _peer(
        "qtorch",
        GRIDS["e4m3"],
        partial(_qtorch, *_BITS["e4m3"], "stochastic"),
        rounding=Rounding.SR,
    ),
    *(
        _peer(
            "unit-scaling",
            _without_reserved_codes(*bits),
            partial(_unit_scaling, *bits, "nearest"),
            differs="half-way goes to the smaller magnitude",
        )
        for bits in _BITS.values()
    ),
    _peer(
        "unit-scaling",
        _without_reserved_codes(*_BITS["e4m3"]),
        partial(_unit_scaling, *_BITS["e4m3"], "stochastic"),
        rounding=Rounding.SR,
    ),
    *(_peer("torch", GRIDS[name], partial(_cast, element)) for name, element in _CASTS.items()),
)
