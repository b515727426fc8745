"""The peers that compute block scales, each with the operand of ours that is nearest to it.

NVFP4 is E2M1 in blocks of 1x16 under E4M3 scales and one scale for the tensor, MX is blocks of 1x32
under powers of two. Why numbers differ was found block by block, and by reading the packages.
"""

from functools import partial
from typing import Any

import torch

from benchmarks import peers_calls as calls
from benchmarks.peers_quantizer import Peer
from kernels.blocks import ROW, Block
from kernels.formats import E2M1, E4M3, INT4, Grid
from kernels.hadamard import Rotation
from kernels.operands import Operand, Rounding, Scale


def _mx(grid: Grid, scale: Scale, rounding: Rounding = Rounding.RTNE) -> Operand:
    return Operand(grid=grid, scale=scale, block=Block(along=32), rounding=rounding)


_NV = Operand(grid=E2M1, scale=Scale.E4M3)
_ORDER = "scales are rounded in another order, so that what is half-way here is not there"
_LOST = f"nothing is clipped: beyond 7, under a scale that was rounded down, is 0; {_ORDER}"
_FLOOR, _EVEN, _RCEIL = Scale.E8M0_FLOOR, Scale.E8M0_EVEN, Scale.E8M0_RCEIL

_torchao = partial(Peer, package="torchao")
_auto_round = partial(Peer, package="auto-round")
_compressed = partial(Peer, package="compressed-tensors")
_modelopt = partial(Peer, package="nvidia-modelopt")
_compressor = partial(Peer, package="neural-compressor-pt", takes=torch.float32)
_brevitas = partial(Peer, package="brevitas", takes=torch.float32)
_quark = partial(Peer, package="amd-quark")
_qtorch = partial(Peer, package="qtorch", takes=torch.float32, is_torch=False)


def _fouroversix(rule: str, operand: Operand, differs: str = "", **options: Any) -> Peer:
    return Peer(
        package="fouroversix",
        rule=rule,
        load=partial(calls.fouroversix, **({"scale_rule": "static_6"} | options)),
        operand=operand,
        differs=differs,
    )


BLOCKS = (
    _torchao(
        rule="NVFP4",
        load=calls.torchao_nv,
        operand=_NV,
        differs=f"block scales are at least 2**-6; {_ORDER}",
    ),
    *(
        _torchao(
            rule=f"{name}, {rule}",
            load=partial(calls.torchao_mx, element, rule),
            operand=_mx(grid, scale),
        )
        for name, element, grid in (
            ("MXFP4", torch.float4_e2m1fn_x2, E2M1),
            ("MXFP8", torch.float8_e4m3fn, E4M3),
        )
        for rule, scale in (("FLOOR", _FLOOR), ("RCEIL", _RCEIL))
    ),
    _fouroversix("NVFP4, onto 6", _NV, _LOST, dtype="nvfp4"),
    _fouroversix(
        "NVFP4, onto 4 or 6",
        Operand(grid=E2M1, scale=Scale.E4M3, alternate=4.0, scale_maximum=256.0),
        _LOST,
        dtype="nvfp4",
        scale_rule="mse",
    ),
    _fouroversix(
        "NVFP4, 16x16",
        Operand(grid=E2M1, scale=Scale.E4M3, block=Block(along=16, across=16)),
        _LOST,
        dtype="nvfp4",
        block_scale_2d=True,
    ),
    Peer(
        package="fouroversix",
        rule="NVFP4, RHT",
        load=calls.fouroversix_rht,
        operand=_NV,
        rotation=Rotation(calls.FOUROVERSIX_SIGNS, to_bf16=True),
        differs=_LOST,
    ),
    _fouroversix(
        "NVFP4, SR",
        Operand(grid=E2M1, scale=Scale.E4M3, rounding=Rounding.SR),
        dtype="nvfp4",
        round_style="stochastic",
    ),
    _fouroversix("NVINT4", Operand(grid=INT4, scale=Scale.E4M3), _ORDER, dtype="nvint4"),
    _fouroversix(
        "MXFP4",
        _mx(E2M1, _RCEIL),
        "it dequantizes through FP16, which loses what is small",
        dtype="mxfp4",
    ),
    _auto_round(rule="NVFP4", load=calls.auto_round_nv, operand=_NV, differs=_ORDER),
    *(
        _auto_round(
            rule=rule,
            load=partial(calls.auto_round_mx, function, bits, rounding),
            operand=operand,
        )
        for rule, function, bits, rounding, operand in (
            ("MXFP4", "quant_mx", 4, "even", _mx(E2M1, _FLOOR)),
            ("MXFP4, rceil", "quant_mx_rceil", 4, "even", _mx(E2M1, _RCEIL)),
            ("MXFP4, SR", "quant_mx", 4, "stochastic", _mx(E2M1, _FLOOR, Rounding.SR)),
            ("MXFP8", "quant_mx", 8, "even", _mx(E4M3, _FLOOR)),
        )
    ),
    _compressed(
        rule="NVFP4",
        load=partial(calls.compressed_tensors, 4, "tensor_group", 16, torch.float8_e4m3fn),
        operand=_NV,
        differs="scales and quotients are rounded to BF16, under torch.compile fewer of them",
    ),
    _compressed(
        rule="MXFP4",
        load=partial(calls.compressed_tensors, 4, "group", 32, torch.uint8),
        operand=_mx(E2M1, _EVEN),
    ),
    _compressed(
        rule="MXFP8",
        load=partial(calls.compressed_tensors, 8, "group", 32, torch.uint8),
        operand=_mx(E4M3, _EVEN),
        differs="exponents go up from a significand of 1.75, as for E2M1; here from 1.9375",
    ),
    _modelopt(
        rule="NVFP4",
        load=calls.modelopt_nv,
        operand=_NV,
        differs=f"block scales are at least 2**-9; {_ORDER}",
    ),
    _modelopt(
        rule="MXFP4",
        load=calls.modelopt_mxfp4,
        operand=_mx(E2M1, _RCEIL),
        differs="half-way goes to the smaller magnitude",
    ),
    _modelopt(rule="MXFP8", load=calls.modelopt_mxfp8, operand=_mx(E4M3, _RCEIL)),
    *(
        _compressor(
            rule=rule,
            load=partial(calls.neural_compressor, element, rounding),
            operand=operand,
        )
        for rule, element, rounding, operand in (
            ("MXFP4", "fp4", "even", _mx(E2M1, _FLOOR)),
            ("MXFP4, SR", "fp4", "dither", _mx(E2M1, _FLOOR, Rounding.SR)),
            ("MXFP8", "fp8_e4m3", "even", _mx(E4M3, _FLOOR)),
        )
    ),
    _brevitas(rule="MXFP4", load=partial(calls.brevitas, 2, 1), operand=_mx(E2M1, _FLOOR)),
    _brevitas(rule="MXFP8", load=partial(calls.brevitas, 4, 3), operand=_mx(E4M3, _FLOOR)),
    _quark(rule="MXFP4", load=partial(calls.quark, "fp4"), operand=_mx(E2M1, _EVEN)),
    _quark(rule="MXFP8", load=partial(calls.quark, "fp8_e4m3"), operand=_mx(E4M3, _EVEN)),
    *(
        _qtorch(
            rule=rule,
            load=partial(calls.qtorch, rounding),
            operand=Operand(grid=INT4, scale=_FLOOR, block=ROW, rounding=ours),
            differs="half-way goes up",
        )
        for rule, rounding, ours in (
            ("BFP4 by row", "nearest", Rounding.RTNE),
            ("BFP4 by row, SR", "stochastic", Rounding.SR),
        )
    ),
)
"""MXFP8 is E4M3. A row of BFP4 shares its exponent."""
