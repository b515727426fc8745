"""Shrinkage bias: how far the elements of a bin are moved on average when they are rounded.

    level q_i owns the bin from (q_{i-1} + q_i)/2 to (q_i + q_{i+1})/2
    l = (q_i - q_{i-1})/2    r = (q_{i+1} - q_i)/2

    E[Q(t) - t | bin] = (l - r)/2 = (2 q_i - q_{i-1} - q_{i+1})/4        t = |x| / block scale

for a density that is constant within the bin. Negative is shrinkage. The bins at the two ends have
no such form: all of the zero bin is lost, and the top bin is open, its elements are raised.

Values without torch; `kernels.surveys.grid_bias` measures the same on blocks.

Source: UFP4 (arXiv 2606.20381), section on shrinkage bias.
"""

from dataclasses import dataclass

from kernels.formats import Grid


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One bin, in units of the grid.

    Attributes:
        magnitude: q_i.
        bias: In closed form; None for the zero bin and the top bin.
        occupancy: Share of the measured elements that fall into it.
        error: Measured mean of Q(t) - t; None where the bin is empty.
    """

    magnitude: float
    bias: float | None
    occupancy: float
    error: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GridBias:
    """All bins of a grid, from zero up, measured on Gaussian blocks of 16 under an FP32 scale."""

    format: str
    samples: int
    levels: tuple[Level, ...]


def bin_bias(grid: Grid) -> tuple[float | None, ...]:
    """The closed form for each magnitude of a grid, in its units; None at both ends."""
    q = grid.magnitudes
    inner = (
        (2 * level - below - above) / 4
        for below, level, above in zip(q, q[1:], q[2:], strict=False)
    )
    return (None, *inner, None)
