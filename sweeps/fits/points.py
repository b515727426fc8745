"""Points: the (N, D, L) that a law is fitted to, in an order of their own.

Rows are sorted by (N, D, L) and grouped into clusters that a bootstrap draws whole. By default a
cluster is a cell, one (N, D) with all its seeds; checkpoints of one trajectory can be grouped by
run instead. N parameters, D tokens, L validation loss in nats per token.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweeps.errors import InputError
from sweeps.laws import Array
from sweeps.measured import measured
from sweeps.records import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Points:
    """What is fitted; all arrays have shape (n,) and one order.

    Attributes:
        N: Parameters.
        D: Tokens.
        loss: Nats per token.
        cell: Index of the (N, D) of each row, from 0.
        cluster: Index of what the bootstrap draws whole, from 0.
    """

    N: Array
    D: Array
    loss: Array
    cell: NDArray[np.intp]
    cluster: NDArray[np.intp]

    def __len__(self) -> int:
        """Rows."""
        return len(self.loss)

    @property
    def n_cells(self) -> int:
        """Distinct (N, D)."""
        return len(np.unique(self.cell))

    @property
    def n_clusters(self) -> int:
        """What the bootstrap draws from."""
        return len(np.unique(self.cluster))

    @property
    def center(self) -> tuple[float, float]:
        """Means of ln N and ln D over the rows."""
        return float(np.log(self.N).mean()), float(np.log(self.D).mean())

    @property
    def digest(self) -> str:
        """First 16 hex digits of SHA-256 over the sorted rows."""
        rows = np.ascontiguousarray(np.stack([self.N, self.D, self.loss], axis=1), dtype="<f8")
        return hashlib.sha256(rows.tobytes()).hexdigest()[:16]


def make_points(
    N: ArrayLike, D: ArrayLike, loss: ArrayLike, *, groups: Sequence[str] | None = None
) -> Points:
    """Points from columns.

    Args:
        N: Parameters, shape (n,).
        D: Tokens, shape (n,).
        loss: Nats per token, shape (n,).
        groups: Name of the bootstrap cluster of each row; by default its (N, D) cell.

    Raises:
        InputError: If the lengths differ or a value is not positive and finite.
    """
    columns = {"N": N, "D": D, "loss": loss}
    arrays = {name: np.asarray(values, dtype=np.float64) for name, values in columns.items()}
    for name, values in arrays.items():
        if values.shape != arrays["loss"].shape or values.ndim != 1:
            raise InputError(f"{name} has shape {values.shape}, loss has {arrays['loss'].shape}")
        bad = values[~(np.isfinite(values) & (values > 0))]
        if len(bad):
            raise InputError(f"{name} = {bad[0]}: every value must be positive and finite")
    order = np.lexsort((arrays["loss"], arrays["D"], arrays["N"]))
    sizes, data, losses = (arrays[name][order] for name in columns)
    cell = _labels(list(zip(sizes.tolist(), data.tolist(), strict=True)))
    cluster = cell if groups is None else _labels([groups[row] for row in order])
    return Points(N=sizes, D=data, loss=losses, cell=cell, cluster=cluster)


def recipe_points(records: Iterable[RunRecord], recipe: str) -> Points:
    """The measured endpoints of one recipe, at the horizons asked of its runs."""
    rows = [
        (float(record.N), float(tokens), point.loss)
        for record in records
        if record.spec.recipe.name == recipe
        for tokens in sorted(set(record.horizons))
        if (point := measured(record, tokens)) is not None
    ]
    table = np.array(rows, dtype=np.float64).reshape(len(rows), 3)
    return make_points(table[:, 0], table[:, 1], table[:, 2])


def _labels(names: Sequence[object]) -> NDArray[np.intp]:
    """Index of each name in the order of first appearance."""
    index = {name: position for position, name in enumerate(dict.fromkeys(names))}
    return np.array([index[name] for name in names], dtype=np.intp)
