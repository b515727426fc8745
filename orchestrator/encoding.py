"""How values lie in the store: specs as JSON text, curves as packed columns. All are exact.

A packed batch of StepMetrics on one path is zlib over the columns one after the other, each
little-endian:

    step, tokens                                            int64
    loss, learning_rate, gradient_norm, tokens_per_second, seconds    float64

so that NaN and infinities survive, which JSON does not promise. A preflight is JSON text; the
layers of a Diagnosis are JSON under zlib, since most of their bucket shares are zero. Decoding a
spec gives the run the same `run_id` it was stored under.
"""

import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache, lru_cache

from pydantic import TypeAdapter

from kernels.quality import LayerQuality
from kernels.verdict import Preflight
from sweeps.metrics import StepMetrics
from sweeps.runspec import RunSpec

WORD = 8
COLUMNS = 7


@cache
def _runs() -> TypeAdapter[RunSpec]:
    return TypeAdapter(RunSpec)


@cache
def _preflights() -> TypeAdapter[Preflight]:
    return TypeAdapter(Preflight)


@cache
def _layers() -> TypeAdapter[tuple[LayerQuality, ...]]:
    return TypeAdapter(tuple[LayerQuality, ...])


def run_to_text(spec: RunSpec) -> str:
    """JSON of a run's spec."""
    return _runs().dump_json(spec).decode()


@lru_cache(maxsize=16384)  # a progress display reads the same specs every second
def run_from_text(text: str) -> RunSpec:
    """The spec that `run_to_text` wrote."""
    return _runs().validate_json(text)


def preflight_to_text(preflight: Preflight) -> str:
    """JSON of what a preflight found."""
    return _preflights().dump_json(preflight).decode()


@lru_cache(maxsize=16384)  # as above
def preflight_from_text(text: str) -> Preflight:
    """What `preflight_to_text` wrote."""
    return _preflights().validate_json(text)


def pack_layers(layers: Sequence[LayerQuality]) -> bytes:
    """Compressed JSON, in which NaN and infinities stand as JavaScript writes them."""
    return zlib.compress(json.dumps([asdict(layer) for layer in layers]).encode())


def unpack_layers(packed: bytes) -> tuple[LayerQuality, ...]:
    """What `pack_layers` took."""
    return _layers().validate_json(zlib.decompress(packed))


def pack(points: Sequence[StepMetrics]) -> bytes:
    """Columns of points that share a path; the path itself is stored beside them."""
    n = len(points)
    integers = [point.step for point in points] + [point.tokens for point in points]
    reals = [
        *(point.loss for point in points),
        *(point.learning_rate for point in points),
        *(point.gradient_norm for point in points),
        *(point.tokens_per_second for point in points),
        *(point.seconds for point in points),
    ]
    return zlib.compress(struct.pack(f"<{2 * n}q{5 * n}d", *integers, *reals))


def unpack(columns: bytes, horizon: int | None) -> tuple[StepMetrics, ...]:
    """The points that `pack` took, on the path of this horizon (None: the trunk)."""
    data = zlib.decompress(columns)
    n = len(data) // (COLUMNS * WORD)
    step, tokens = (struct.unpack_from(f"<{n}q", data, WORD * n * c) for c in (0, 1))
    loss, rate, norm, speed, seconds = (
        struct.unpack_from(f"<{n}d", data, WORD * n * c) for c in range(2, COLUMNS)
    )
    return tuple(
        StepMetrics(
            horizon=horizon,
            step=step[i],
            tokens=tokens[i],
            loss=loss[i],
            learning_rate=rate[i],
            gradient_norm=norm[i],
            tokens_per_second=speed[i],
            seconds=seconds[i],
        )
        for i in range(n)
    )
