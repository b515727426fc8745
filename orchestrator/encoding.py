"""How values lie in the store: specs as JSON text, curves as packed columns. All are exact.

A packed batch of StepMetrics on one path is zlib over the columns one after the other, each
little-endian:

    step, tokens                                                      int64
    loss, learning_rate, gradient_norm, tokens_per_second, seconds    float64
    update_ratio, mfu, memory_bytes, imbalance                        float64, NaN for None

so that NaN and infinities survive, which JSON does not promise. Stores of older versions end their
columns earlier, so the number of them is kept beside; what is not there is None. A preflight is
JSON text; the layers of a Diagnosis are JSON under zlib, since most of their bucket shares are
zero. Decoding a spec gives the run the same `run_id` it was stored under.
"""

import json
import math
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
INTEGERS = ("step", "tokens")
REALS = ("loss", "learning_rate", "gradient_norm", "tokens_per_second", "seconds")
OPTIONAL = ("update_ratio", "mfu", "memory_bytes", "imbalance")
NUM_COLUMNS = len(INTEGERS) + len(REALS) + len(OPTIONAL)


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
    """All columns of points that share a path; the path itself is stored beside them."""
    integers = [getattr(point, name) for name in INTEGERS for point in points]
    reals = [getattr(point, name) for name in REALS for point in points]
    optional = [
        math.nan if (value := getattr(point, name)) is None else float(value)
        for name in OPTIONAL
        for point in points
    ]
    layout = f"<{len(integers)}q{len(reals) + len(optional)}d"
    return zlib.compress(struct.pack(layout, *integers, *reals, *optional))


def unpack(packed: bytes, horizon: int | None, num_columns: int) -> tuple[StepMetrics, ...]:
    """The points that `pack` took, on the path of this horizon (None: the trunk)."""
    data = zlib.decompress(packed)
    n = len(data) // (num_columns * WORD)
    names = (*INTEGERS, *REALS, *OPTIONAL)[:num_columns]
    columns = {
        name: struct.unpack_from(f"<{n}{'q' if name in INTEGERS else 'd'}", data, WORD * n * place)
        for place, name in enumerate(names)
    }
    for name in set(names).intersection(OPTIONAL):
        whole = int if name == "memory_bytes" else float
        columns[name] = tuple(None if math.isnan(x) else whole(x) for x in columns[name])
    return tuple(
        StepMetrics(horizon=horizon, **dict(zip(columns, values, strict=True)))
        for values in zip(*columns.values(), strict=True)
    )
