"""Generators of draws that a statistical check must reject, each with a mistake that was made.

A generator is a function of where a draw belongs and of an operand's shape; the draws of an
operand are [rows, columns], of (0, 1).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from kernels.philox import RUN, stream_key, uniforms


@dataclass(frozen=True, slots=True, kw_only=True)
class At:
    """Which operand of which step of a run is rounded."""

    seed: int = 1
    step: int = 10
    microbatch: int = 0
    layer: str = "blocks.0.mlp.up"
    gemm: str = "dgrad"
    operand: str = "dy"

    @property
    def key(self) -> int:
        """The key of its draws."""
        return stream_key(
            seed=self.seed,
            step=self.step,
            microbatch=self.microbatch,
            layer=self.layer,
            gemm=self.gemm,
            operand=self.operand,
        )


Draws = Callable[[At, int, int], NDArray[np.float64]]


def linear_counter(at: At, rows: int, columns: int) -> NDArray[np.float64]:
    """A counter times an odd constant: evenly spread, but each draw follows from the one before."""
    index = np.arange(rows * columns, dtype=np.uint64)
    words = (index * np.uint64(0x9E3779B1) + np.uint64(at.key & 0xFFFFFFFF)) & np.uint64(0xFFFFFFFF)
    return ((words >> np.uint64(24)).astype(np.float64) + 0.5).reshape(rows, columns) / 256


def forgets_the_run(at: At, rows: int, columns: int) -> NDArray[np.float64]:
    """Philox without the index of the tile: every run of a tensor has the draws of the first."""
    first = uniforms(torch.zeros(1, dtype=torch.int64), at.key).numpy().astype(np.float64)
    return np.broadcast_to(np.tile(first.ravel(), columns // RUN), (rows, columns)).copy()


def forgets_the_row(at: At, rows: int, columns: int) -> NDArray[np.float64]:
    """Philox whose counter starts again in every row."""
    runs = torch.arange(columns // RUN)
    row = uniforms(runs, at.key).numpy().T.reshape(-1).astype(np.float64)
    return np.broadcast_to(row, (rows, columns)).copy()


def forgets(field: str, draws: Draws) -> Draws:
    """A generator whose key leaves out a field, such as the step."""

    def forgetful(at: At, rows: int, columns: int) -> NDArray[np.float64]:
        return draws(replace(at, **{field: getattr(At(), field)}), rows, columns)

    return forgetful


def remembers(draws: Draws) -> Draws:
    """A generator with a state: asked again for the same draws, it gives others."""
    calls = 0

    def stateful(at: At, rows: int, columns: int) -> NDArray[np.float64]:
        nonlocal calls
        calls += 1
        return draws(replace(at, seed=at.seed + 1000 * calls), rows, columns)

    return stateful


def always_up(at: At, rows: int, columns: int) -> NDArray[np.float64]:
    """No draw at all: everything is rounded one way."""
    return np.full((rows, columns), 1 / 512)
