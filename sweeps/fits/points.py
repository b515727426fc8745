"""Points: the (N, D, arm, L) that a law is fitted to, in an order of their own.

Rows are sorted by (N, D, arm, L) and grouped into clusters that a bootstrap draws whole. By default
a cluster is a cell, one (N, D) with all its seeds and arms, so that arms which share the noise of
a seed or a data order stay together; checkpoints of one trajectory can be grouped by run instead.
N parameters, D tokens, L validation loss in nats per token.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweeps.errors import InputError
from sweeps.laws.law import Array, At

LEAST, MOST = 1e-30, 1e30
"""Beyond these no unit of N, D or L leads, and sums of squares leave the floating-point range."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Points:
    """What is fitted; all arrays have shape (n,) and one order.

    Attributes:
        N: Parameters.
        D: Tokens.
        loss: Nats per token.
        arm: Index into `arms`.
        cell: Index of the (N, D) of each row, from 0.
        cluster: Index of what the bootstrap draws whole, from 0.
        row: Index of each row in the columns that the points were made from.
        arms: Names of the arms; the first is the reference.
    """

    N: Array
    D: Array
    loss: Array
    arm: NDArray[np.intp]
    cell: NDArray[np.intp]
    cluster: NDArray[np.intp]
    row: NDArray[np.intp]
    arms: tuple[str, ...]

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
    def is_grouped(self) -> bool:
        """Whether some cluster holds several cells."""
        places = np.unique(np.stack([self.cluster, self.cell]), axis=1)
        return bool(places.shape[1] > self.n_clusters)

    @property
    def where(self) -> At:
        """The places of the rows."""
        return At(N=self.N, D=self.D, arm=self.arm)

    @property
    def digest(self) -> str:
        """First 16 hex digits of SHA-256 over the names of the arms and the sorted rows.

        Clusters are part of it, since the intervals follow from them.
        """
        columns = [self.N, self.D, self.loss, self.arm, self.cluster]
        rows = np.ascontiguousarray(np.stack(columns, axis=1), dtype="<f8")
        names = "\0".join(self.arms).encode()
        return hashlib.sha256(names + b"\0\0" + rows.tobytes()).hexdigest()[:16]


def make_points(
    N: ArrayLike,
    D: ArrayLike,
    loss: ArrayLike,
    *,
    arms: Sequence[str] | None = None,
    reference: str | None = None,
    groups: Sequence[str] | None = None,
) -> Points:
    """Points from columns.

    Args:
        N: Parameters, shape (n,).
        D: Tokens, shape (n,).
        loss: Nats per token, shape (n,).
        arms: Name of the arm of each row; by default one arm.
        reference: Name of the arm that comes first; the others follow by name. By default arms
            come in the order of their first rows, as they do without a row.
        groups: Name of the bootstrap cluster of each row; by default its (N, D) cell.

    Raises:
        InputError: If the lengths differ, a value is not positive and finite or is beyond `LEAST`
            and `MOST`, or no row is of the reference.
    """
    columns = {"N": N, "D": D, "loss": loss}
    arrays = {name: np.asarray(values, dtype=np.float64) for name, values in columns.items()}
    for name, values in arrays.items():
        if values.shape != arrays["loss"].shape or values.ndim != 1:
            raise InputError(f"{name} has shape {values.shape}, loss has {arrays['loss'].shape}")
        bad = values[~(np.isfinite(values) & (values > 0))]
        if len(bad):
            raise InputError(f"{name} = {bad[0]}: every value must be positive and finite")
        far = values[(values < LEAST) | (values > MOST)]
        if len(far):
            raise InputError(f"{name} = {far[0]:g}: values lie between {LEAST:g} and {MOST:g}")
    for name, labels in (("arms", arms), ("groups", groups)):
        if labels is not None and len(labels) != len(arrays["loss"]):
            raise InputError(f"{name} has {len(labels)} names for {len(arrays['loss'])} losses")
    named = ("",) * len(arrays["loss"]) if arms is None else tuple(arms)
    names = _names(named, reference)
    arm = np.array([names.index(name) for name in named], dtype=np.intp)
    order = np.lexsort((arrays["loss"], arm, arrays["D"], arrays["N"]))
    sizes, data, losses = (arrays[name][order] for name in columns)
    cell = _labels(list(zip(sizes.tolist(), data.tolist(), strict=True)))
    cluster = cell if groups is None else _labels([groups[row] for row in order])
    return Points(
        N=sizes,
        D=data,
        loss=losses,
        arm=arm[order],
        cell=cell,
        cluster=cluster,
        row=order,
        arms=names,
    )


def _names(named: Sequence[str], reference: str | None) -> tuple[str, ...]:
    """Names of the arms, the reference first."""
    if reference is None or not named:
        return tuple(dict.fromkeys(named)) or ("",)
    if reference not in named:
        present = ", ".join(sorted(set(named)))
        raise InputError(f"reference = {reference}: no row is of this arm, only of {present}")
    return (reference, *sorted(set(named) - {reference}))


def _labels(names: Sequence[object]) -> NDArray[np.intp]:
    """Index of each name in the order of first appearance."""
    index = {name: position for position, name in enumerate(dict.fromkeys(names))}
    return np.array([index[name] for name in names], dtype=np.intp)
