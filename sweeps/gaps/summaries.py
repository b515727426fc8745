"""Summary of one recipe's gaps: the mean over models, and what it can be told from.

    mean gap  = mean over models of V_m (`sweeps.gaps.clusters`)
    over seeds at these models   s.e.^2 = s^2 sum_m (1 / k_m) / M^2,  df = sum_m (k_m - 1)
    over models                  s.e.^2 = Var_m(V_m) / M,             df = M - 1

for M models of k_m seeds each, s pooled over models. With repeated seeds (2 degrees or more) the
interval is over seeds: it is of the models that were trained. That over models, for models like
these, holds how the gap differs from model to model as well, and is all there is with one seed.
Horizons of one run share its trunk, so that a (model, seed) is one observation. Only pairs enter:
a run that diverged has no gap, and the mean is of the pairs that did not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np

from sweeps.gaps.cell_gaps import CellGap, cell_gaps
from sweeps.gaps.certainty import LEAST_DF, Basis, Certainty, certainty
from sweeps.gaps.clusters import clusters, gap_values, percent_values
from sweeps.gaps.equivalence import MARGIN
from sweeps.gaps.noise import Noise, noise
from sweeps.gaps.paired import Gap, Missing, Unpaired
from sweeps.gaps.power import pairs_for_half_width, pairs_needed
from sweeps.intervals import LEVEL, Ends, Mean, bootstrap_interval, mean_of_groups, t_interval
from sweeps.laws.law import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedsNeeded:
    """Seeds that each model would need in all, at the noise as measured.

    Attributes:
        present: Fewest seeds that a model has.
        to_resolve: To tell a mean gap of this size from zero with 80 % power; None for a gap of
            zero, or when `sweeps.gaps.power.MOST_PAIRS` are too few.
        to_halve: For an interval half as wide; None for one that has no width.
    """

    present: int
    to_resolve: int | None
    to_halve: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GapSummary:
    """What the gaps of one recipe say together.

    Attributes:
        recipe: Its name.
        n_models: Models, with all their other settings, that have at least one pair.
        n_cells: Cells with at least one pair.
        n_pairs: Pairs in them.
        n_unpaired: Endpoints of the recipe without a pair.
        n_diverged: Of them, how many because its own run diverged.
        n_bf16_wins: Pairs in which BF16 has the strictly lower loss.
        mean: Mean gap over models, nats per token; None without a pair.
        mean_relative: Mean over models of the gap in percent of the baseline's loss.
        relative_interval: Ends of its t interval, over what `certainty` is over.
        certainty: Of the mean, over seeds where there are repeats enough, else over models; None
            where neither can be.
        bootstrap: Ends of the studentised bootstrap interval over (model, seed) at these models;
            None with too few repeats.
        over_models: Ends of the t interval over models; None below 2 models.
        reason: Why there is no interval over seeds, or none at all; else empty.
        noise: Noise floor between seeds; None without repeats.
        seeds_needed: How many more seeds would show; None without an interval over seeds.
        cells: The cells, by N and tokens.
    """

    recipe: str
    n_models: int
    n_cells: int
    n_pairs: int
    n_unpaired: int
    n_diverged: int
    n_bf16_wins: int
    mean: float | None
    mean_relative: float | None
    relative_interval: Ends | None
    certainty: Certainty | None
    bootstrap: Ends | None
    over_models: Ends | None
    reason: str
    noise: Noise | None
    seeds_needed: SeedsNeeded | None
    cells: tuple[CellGap, ...]

    @property
    def low(self) -> float | None:
        """Lower end of the interval of the mean."""
        return self.certainty.low if self.certainty is not None else None

    @property
    def high(self) -> float | None:
        """Upper end of the interval of the mean."""
        return self.certainty.high if self.certainty is not None else None


def summarise(
    recipe: str,
    gaps: Sequence[Gap],
    unpaired: Sequence[Unpaired],
    *,
    level: float = LEVEL,
    margin: float = MARGIN,
) -> GapSummary:
    """Summary of the gaps of one recipe among all.

    Args:
        recipe: Its name.
        gaps: Of any recipes.
        unpaired: Of any recipes.
        level: Of intervals and tests.
        margin: Nats per token within which a gap counts as none.
    """
    mine = sorted((gap for gap in gaps if gap.recipe == recipe), key=_place)
    lone = [one for one in unpaired if one.recipe == recipe]
    cells = cell_gaps(mine, level=level, margin=margin)
    groups = list(clusters(gap_values(mine)).values())
    mean = mean_of_groups(groups) if groups else None
    sure = None if mean is None else certainty_of(mean, groups, level=level, margin=margin)
    shares = list(clusters(percent_values(mine)).values())
    percent = mean_of_groups(shares) if shares else None
    share = None if percent is None else certainty_of(percent, shares, level=level)
    return GapSummary(
        recipe=recipe,
        n_models=len(groups),
        n_cells=len(cells),
        n_pairs=len(mine),
        n_unpaired=len(lone),
        n_diverged=sum(one.reason is Missing.DIVERGED for one in lone),
        n_bf16_wins=sum(gap.bf16_wins for gap in mine),
        mean=None if mean is None else mean.value,
        mean_relative=percent.value if percent is not None else None,
        relative_interval=None if share is None else (share.low, share.high),
        certainty=sure,
        bootstrap=bootstrap_interval(groups, level) if groups else None,
        over_models=t_interval(_means(groups), level),
        reason=_reason(mean, sure),
        noise=noise(mine, level),
        seeds_needed=None if mean is None else _seeds_needed(mean, sure, groups),
        cells=cells,
    )


def by_gap(summaries: Sequence[GapSummary]) -> list[GapSummary]:
    """Lowest mean gap first; recipes without one last."""
    return sorted(summaries, key=lambda one: inf if one.mean is None else one.mean)


def certainty_of(
    mean: Mean, groups: Sequence[Array], *, level: float, margin: float = MARGIN
) -> Certainty | None:
    """Over seeds where there are repeats enough, else over models; None where neither can be.

    Args:
        mean: Of the groups.
        groups: By model, one value for each seed.
        level: Of intervals and tests.
        margin: Nats per token within which a gap counts as none.
    """
    if mean.se is not None and mean.df >= LEAST_DF:
        se, df, basis = mean.se, mean.df, Basis.SEEDS
    elif len(groups) > 1:
        means = _means(groups)
        se, df = float(means.std(ddof=1)) / sqrt(len(means)), len(means) - 1
        basis = Basis.MODELS
    else:
        return None
    return certainty(mean.value, se, df, basis=basis, level=level, margin=margin)


def _place(gap: Gap) -> tuple[int, str, int, int, str]:
    return gap.N, gap.cell, gap.tokens, gap.seed, gap.run_id


def _means(groups: Sequence[Array]) -> Array:
    return np.array([group.mean() for group in groups])


def _reason(mean: Mean | None, sure: Certainty | None) -> str:
    if mean is None:
        return "no pair"
    if sure is not None and sure.basis is Basis.SEEDS:
        return ""
    few = "one seed" if mean.df == 0 else "a single repeated seed"
    return f"{few}: " + ("the interval is over models" if sure else "no interval from one model")


def _seeds_needed(
    mean: Mean, sure: Certainty | None, groups: Sequence[Array]
) -> SeedsNeeded | None:
    if mean.sd is None or sure is None or sure.basis is not Basis.SEEDS:
        return None
    models, quarter = len(groups), (sure.high - sure.low) / 4
    return SeedsNeeded(
        present=min(map(len, groups)),
        to_resolve=pairs_needed(mean.sd, mean.value, sure.level, groups=models),
        to_halve=pairs_for_half_width(mean.sd, quarter, sure.level, groups=models),
    )
