"""A peer measured beside ours, as rows of a table.

    ours             `fake_quantize` by the nearest operand, the tensor's factor applied: FP32
    as it is         quantized and dequantized by the package, as it comes
    torch.compile    the same function compiled for the shape and the number of threads

All start from the same matrix and are timed in turn, in the same rounds. There is a row for each
way of calling a peer, and one for a package that is not installed.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.peers_agreement import shares, wide
from benchmarks.peers_quantizer import (
    Missing,
    Peer,
    Quantizer,
    attempted,
    compiled,
    found,
    installed,
    not_installed,
)
from benchmarks.results import SPREAD_LEGEND, Row, spread_fields
from benchmarks.timing import Comparison, compare

CPU = torch.device("cpu")
OURS, AS_IT_IS, COMPILED = "ours", "as it is", "torch.compile"

LEGEND = {
    "peer": "package on PyPI",
    "version": "of the package, null where it is not installed",
    "rule": "what is asked of it, in its words; null where it is not installed",
    "how": "called as it is, or by torch.compile",
    "missing": "why there are no figures, null where there are some",
    "scales": "whether it computes block scales, or rounds elements alone",
    "rht": "whether a random Hadamard transform comes first",
    "sr": "whether it rounds stochastically",
    "operand": "the nearest here: grid, block, scale",
    "shape": "of x",
    "takes": "type of x, for both",
    "returns": "type that the peer returns; ours is FP32",
    "threads": "CPU threads",
    "gelem_per_s": "1e9 elements of x in a second, by the median time",
    "ours_gelem_per_s": "the same of ours, in the same rounds",
    "times": "time of the peer / time of ours, of the same round",
    "equal": "share of equal numbers, ours rounded once to what the peer returns; null for sr",
    "near": "share within 1/64, which have the same code and the same scale; null for sr",
    "wide": "equal and near on rows from 1 down to 2**-30; null for sr, and without scales",
    "differs": "why a share is below 1, null where none is",
    "seconds": "of one call, median over the rounds",
    **SPREAD_LEGEND,
}
_KEYS = [key for key in LEGEND if key not in SPREAD_LEGEND]


def measured(peer: Peer, x: Tensor, threads: int, *, quick: bool) -> Iterator[Row]:
    """Rows of a peer whose package is installed.

    Args:
        peer: What is measured.
        x: A matrix; it is brought to the type that the peer takes.
        threads: How many torch computes in now.
        quick: Whether rough figures will do, and nothing is compiled.
    """
    x = x.to(peer.takes)
    ways = _ways(peer, x, quick=quick)
    called: dict[str, Quantizer] = {OURS: peer.ours}
    called |= {how: way for how, way in ways.items() if not isinstance(way, Missing)}
    comparison = compare(
        {how: partial(way, x) for how, way in called.items()},
        baseline=OURS,
        rounds=3 if quick else 11,
        min_seconds=0.001 if quick else 0.02,
        device=CPU,
    )
    for how, way in ways.items():
        row = _described(peer) | {"how": how, "threads": threads, "shape": list(x.shape)}
        if isinstance(way, Missing):
            yield row | {"missing": way.why}
        else:
            yield row | _figures(comparison, how, x) | _agreement(peer, way, x)


def absent(peer: Peer) -> Row:
    """The row of a package that is not installed."""
    return dict.fromkeys(_KEYS) | {
        "peer": peer.package,
        "scales": _word(peer.computes_scales),
        "missing": not_installed(peer.package),
    }


def _ways(peer: Peer, x: Tensor, *, quick: bool) -> dict[str, Quantizer | Missing]:
    """The quantizer as it is and compiled, or why it is neither."""
    quantizer = found(peer)
    if not isinstance(quantizer, Missing):
        quantizer = attempted(quantizer, x)
    if quick or isinstance(quantizer, Missing) or not peer.is_torch:
        return {AS_IT_IS: quantizer}
    return {AS_IT_IS: quantizer, COMPILED: compiled(quantizer, x)}


def _described(peer: Peer) -> dict[str, Any]:
    operand = peer.operand
    assert operand.grid is not None
    return dict.fromkeys(_KEYS) | {
        "peer": peer.package,
        "version": installed(peer.package),
        "rule": peer.rule,
        "scales": _word(peer.computes_scales),
        "rht": _word(peer.rotation is not None),
        "sr": _word(peer.is_stochastic),
        "operand": f"{operand.grid.name} {operand.block} {operand.scale}",
        "takes": _type(peer.takes),
    }


def _figures(comparison: Comparison, how: str, x: Tensor) -> dict[str, Any]:
    theirs, ours = (comparison.seconds(name).median for name in (how, OURS))
    return {
        "gelem_per_s": float(f"{x.numel() / theirs / 1e9:.4g}"),
        "ours_gelem_per_s": float(f"{x.numel() / ours / 1e9:.4g}"),
        "times": spread_fields(comparison.ratio(how)),
        "seconds": float(f"{theirs:.4g}"),
    }


def _agreement(peer: Peer, quantizer: Quantizer, x: Tensor) -> dict[str, Any]:
    here = shares(peer, quantizer, x)
    there = shares(peer, quantizer, wide(*x.shape).to(x.dtype)) if peer.computes_scales else None
    below_one = any(share < 1 for on in (here, there) for share in (on or {}).values())
    return {
        "returns": _type(quantizer(x).dtype),
        **(here or {}),
        "wide": there,
        "differs": (peer.differs or "not explained") if below_one else None,
    }


def _type(dtype: torch.dtype) -> str:
    return {torch.bfloat16: "bf16", torch.float32: "fp32", torch.float64: "fp64"}[dtype]


def _word(holds: bool) -> str:
    return "yes" if holds else "no"
