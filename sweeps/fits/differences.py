"""Paired differences: the gap of one arm to the reference arm, where both were measured.

    gap = mean L(arm) - mean L(reference)        over the rows of one (N, D) in one cluster

A cluster is what shares the noise of a seed and a data order, so a pair is never made across two.
What the arms have in common cancels: these differences are several times as sharp as the losses.
N parameters, D tokens, gaps in nats per token, positive where the reference is better.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweeps.fits.points import Points
from sweeps.laws.law import Array, At


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Differences:
    """Paired differences of one arm; all arrays of shape (n,), sorted by N, D and cluster.

    Attributes:
        label: Name of the arm.
        N: Parameters.
        D: Tokens.
        gap: Nats per token.
        cluster: Index of what a bootstrap draws whole, from 0.
        origin: Index of the same cluster in the points, shared by all arms.
        n_alone: Rows of the arm for which its cluster holds no reference.
    """

    label: str
    N: Array
    D: Array
    gap: Array
    cluster: NDArray[np.intp]
    origin: NDArray[np.intp]
    n_alone: int

    def __len__(self) -> int:
        """Pairs."""
        return len(self.gap)

    @property
    def where(self) -> At:
        """The places of the pairs."""
        return At(N=self.N, D=self.D, arm=np.zeros(len(self), dtype=np.intp))

    @property
    def n_cells(self) -> int:
        """Distinct (N, D)."""
        return len(set(zip(self.N.tolist(), self.D.tolist(), strict=True)))

    @property
    def n_clusters(self) -> int:
        """What a bootstrap draws from."""
        return len(np.unique(self.cluster))

    def chosen(self, rows: NDArray[np.bool_]) -> "Differences":
        """Some of the pairs."""
        return Differences(
            label=self.label,
            N=self.N[rows],
            D=self.D[rows],
            gap=self.gap[rows],
            cluster=np.unique(self.cluster[rows], return_inverse=True)[1],
            origin=self.origin[rows],
            n_alone=self.n_alone,
        )


def differences(points: Points, arm: str) -> Differences:
    """The differences of one arm to the first arm of the points.

    Args:
        points: Losses of several arms.
        arm: Name of one that is not the reference.
    """
    index = points.arms.index(arm)
    mine, reference = points.arm == index, points.arm == 0
    n_cells, n_clusters = points.cell.max(initial=0) + 1, points.cluster.max(initial=0) + 1
    group = points.cell * n_clusters + points.cluster
    means = [_means(group, points.loss, rows, n_cells * n_clusters) for rows in (mine, reference)]
    pairs = np.flatnonzero(np.isfinite(means[0]) & np.isfinite(means[1]))
    _, first = np.unique(group, return_index=True)
    places = first[np.isin(group[first], pairs)]
    return Differences(
        label=arm,
        N=points.N[places],
        D=points.D[places],
        gap=(means[0] - means[1])[group[places]],
        cluster=np.unique(points.cluster[places], return_inverse=True)[1],
        origin=points.cluster[places],
        n_alone=int((mine & ~np.isfinite(means[1])[group]).sum()),
    )


def _means(group: NDArray[np.intp], loss: Array, rows: NDArray[np.bool_], size: int) -> Array:
    """Mean loss of the rows in each group, NaN where there is none; shape (size,)."""
    count = np.bincount(group[rows], minlength=size)
    total = np.bincount(group[rows], weights=loss[rows], minlength=size)
    means: Array = np.divide(total, count, out=np.full(size, np.nan), where=count > 0)
    return means
