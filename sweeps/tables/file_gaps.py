"""Gaps of the arms of a file: mean and interval, equivalence, law of the gap, effective numbers.

    gap   = L(arm) - L(baseline) at equal N, D and, where named, equal seed      nats per token
    mean  = mean over the pairs, one for each (N, D) and cluster
    over seeds   noise of repeats inside the cells: of these very cells
    over cells   t interval over cells, or over groups where they are named: of cells like these

Cells of a file are taken for runs of their own unless a column of groups says what they share. With
2 degrees of repeats or more the interval is over seeds; with one seed there is none over seeds.
"""

from dataclasses import dataclass, replace

import numpy as np

from sweeps.effective.effective import effective
from sweeps.effective.result import Effective
from sweeps.fits.differences import Differences, differences
from sweeps.fits.fit import fit
from sweeps.fits.gap_laws import fit_gap
from sweeps.fits.gap_result import GapFit, GapForm
from sweeps.fits.points import Points, make_points
from sweeps.fits.result import Fit
from sweeps.fits.settings import MIN_RESAMPLES, Settings
from sweeps.gaps.certainty import LEAST_DF, Basis, Certainty, certainty
from sweeps.gaps.equivalence import MARGIN, check_margin
from sweeps.intervals import LEVEL, Ends, check_level, mean_of_groups
from sweeps.laws.law import Array
from sweeps.tables.paired_rows import CELL, Alone, PairedRows, alone_of, lacking, points_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmGap:
    """What the pairs of one arm say.

    Attributes:
        label: The arm.
        n_pairs: Pairs, one for each (N, D), group and seed.
        n_cells: Distinct (N, D) of them.
        n_wins: Pairs in which the baseline has the strictly lower loss.
        mean: Mean gap, nats per token; None without a pair.
        relative: Mean gap in percent of the baseline's loss.
        relative_interval: Ends of its t interval over cells or groups; None without one.
        certainty: Interval and tests of the mean: over seeds where there are repeats enough, else
            over cells or groups; None where neither can be.
        over_cells: Certainty over cells or groups, whatever the repeats; None from one of them.
        reason: Why there is no interval over seeds, or none at all; else empty.
        alone: Rows of the arm without a gap.
        lacking: The (N, D) of the baseline at which the arm has no row.
        effective: What it is worth in the baseline's N, D and C, and the law of its gap; None
            without a pair.
    """

    label: str
    n_pairs: int
    n_cells: int
    n_wins: int
    mean: float | None
    relative: float | None
    relative_interval: Ends | None
    certainty: Certainty | None
    over_cells: Certainty | None
    reason: str
    alone: tuple[Alone, ...]
    lacking: tuple[tuple[float, float], ...]
    effective: Effective | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGaps:
    """The gaps of a file.

    Attributes:
        label: What the file is called.
        baseline: The arm that the others are compared with.
        law: What was fitted to the baseline.
        arms: The others, in the order of their first rows.
        level: Of intervals and tests of gaps; effective numbers have 95 %.
        margin: Nats per token within which the equivalence test counts a gap as none.
    """

    label: str
    baseline: str
    law: Fit
    arms: tuple[ArmGap, ...]
    level: float
    margin: float


def file_gaps(
    paired: PairedRows,
    settings: Settings,
    *,
    level: float = LEVEL,
    margin: float = MARGIN,
    floors: bool = False,
) -> FileGaps:
    """The gaps of every arm of a file to its baseline.

    Args:
        paired: Its rows.
        settings: Of the fit to the baseline and of the draws.
        level: Of intervals and tests of gaps.
        margin: Nats per token within which a gap counts as none.
        floors: Whether each arm is also tried with an E of its own.

    Raises:
        InputError: If level or margin makes no sense, or there is no law of the name asked for.
    """
    check_level(level)
    check_margin(margin)
    rows = paired.of(paired.baseline)
    losses = make_points(
        *(rows[name].to_numpy() for name in ("N", "D", "loss")),
        groups=tuple(rows["group"]) if paired.by_group else None,
    )
    base = fit(losses, label=paired.baseline, settings=settings)
    return FileGaps(
        label=paired.label,
        baseline=paired.baseline,
        law=base,
        arms=tuple(
            replace(
                _arm(paired, arm, level, margin),
                effective=_effective(paired, arm, base, settings, floors),
            )
            for arm in paired.arms
        ),
        level=level,
        margin=margin,
    )


def _effective(
    paired: PairedRows, arm: str, base: Fit, settings: Settings, floors: bool
) -> Effective | None:
    if paired.losses((paired.baseline, arm)).empty:
        return None
    return effective(points_of(paired, arm), base, settings, floors=floors)[0]


def _arm(paired: PairedRows, arm: str, level: float, margin: float) -> ArmGap:
    """What the pairs of an arm say, before any law."""
    losses = paired.losses((paired.baseline, arm))
    alone, without = alone_of(paired, arm), lacking(paired, arm)
    if losses.empty:
        return ArmGap(
            label=arm,
            n_pairs=0,
            n_cells=0,
            n_wins=0,
            mean=None,
            relative=None,
            relative_interval=None,
            certainty=None,
            over_cells=None,
            reason="no pair",
            alone=alone,
            lacking=without,
        )
    points = points_of(paired, arm)
    pairs = differences(points, arm)
    shares = replace(pairs, gap=100 * pairs.gap / _baseline_losses(points, pairs))
    basis = Basis.GROUPS if paired.by_group else Basis.CELLS
    spread = _over_clusters(pairs, basis, level, margin)
    percent = _over_clusters(shares, basis, level, margin)
    gaps = losses[arm] - losses[paired.baseline]
    repeats = [own.to_numpy() for _, own in gaps.groupby(level=CELL)]
    seeds = _over_seeds(repeats, level, margin) if paired.by_seed and not paired.by_group else None
    return ArmGap(
        label=arm,
        n_pairs=len(losses),
        n_cells=pairs.n_cells,
        n_wins=int((gaps > 0).sum()),
        mean=float(pairs.gap.mean()),
        relative=float(shares.gap.mean()),
        relative_interval=None if percent is None else (percent.low, percent.high),
        certainty=seeds or spread,
        over_cells=spread,
        reason=_reason(paired, seeds, spread),
        alone=alone,
        lacking=without,
    )


def _over_seeds(repeats: list[Array], level: float, margin: float) -> Certainty | None:
    """Over the repeats inside cells; None with fewer than `LEAST_DF` degrees."""
    mean = mean_of_groups(repeats)
    if mean.se is None or mean.df < LEAST_DF:
        return None
    return certainty(mean.value, mean.se, mean.df, basis=Basis.SEEDS, level=level, margin=margin)


def _over_clusters(
    pairs: Differences, basis: Basis, level: float, margin: float
) -> Certainty | None:
    """Of the mean over pairs; None from one cluster."""
    found = fit_gap(pairs, GapForm.CONSTANT, base=None, resamples=MIN_RESAMPLES, seed=0)
    if not isinstance(found, GapFit) or not found.errors:
        return None
    return certainty(
        float(pairs.gap.mean()),
        found.errors[0],
        pairs.n_clusters - 1,
        basis=basis,
        level=level,
        margin=margin,
    )


def _baseline_losses(points: Points, pairs: Differences) -> Array:
    """Mean loss of the baseline in each pair, shape (n,)."""
    base = points.arm == 0
    places = zip(pairs.N, pairs.D, pairs.origin, strict=True)
    return np.array(
        [
            points.loss[
                base & (points.N == N) & (points.D == D) & (points.cluster == origin)
            ].mean()
            for N, D, origin in places
        ]
    )


def _reason(paired: PairedRows, seeds: Certainty | None, spread: Certainty | None) -> str:
    if spread is None and seeds is None:
        return f"no interval from one {'group' if paired.by_group else 'cell'}"
    if seeds is not None or paired.by_group:
        return ""
    if not paired.by_seed:
        return "no column of seeds is named: the interval is over cells"
    return "too few repeated seeds for an interval over them: it is over cells"
