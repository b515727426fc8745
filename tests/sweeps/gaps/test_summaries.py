"""What the gaps of a recipe say together: cells, means over models, intervals, seeds needed."""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from scipy import stats

from sweeps.gaps.certainty import Basis
from sweeps.gaps.clusters import clusters, gap_values
from sweeps.gaps.equivalence import Verdict
from sweeps.gaps.paired import Gap
from sweeps.gaps.power import detectable, pairs_needed
from sweeps.gaps.summaries import GapSummary, summarise
from tests.sweeps.made_gaps import drawn_pairs, made_gap


def summary_of(gaps: list[Gap], **options: float) -> GapSummary:
    return summarise("ufp4", gaps, (), **options)


def drawn(
    random: int, gaps: list[float] | None = None, *, horizons: int = 2, seeds: int = 3
) -> list[Gap]:
    return drawn_pairs(
        np.random.default_rng(random),
        gaps or [0.01, 0.02, 0.03],
        horizons=horizons,
        seeds=seeds,
        rho=0.5,
    )


def by_seed(pairs: list[Gap]) -> list[np.ndarray]:
    """Mean over horizons of each (model, seed), by model; of complete designs only."""
    models = sorted({gap.model for gap in pairs})
    seeds = sorted({gap.seed for gap in pairs})
    return [
        np.array(
            [np.mean([g.gap for g in pairs if (g.model, g.seed) == (model, s)]) for s in seeds]
        )
        for model in models
    ]


def test_with_repeated_seeds_the_interval_is_over_seeds_at_these_models() -> None:
    pairs = drawn(0)
    found, groups = summary_of(pairs), by_seed(pairs)
    sd = sqrt(np.mean([group.var(ddof=1) for group in groups]))
    mean = np.mean([group.mean() for group in groups])
    low, high = stats.t.interval(0.95, 6, mean, sd / sqrt(9))
    assert found.certainty is not None
    assert (found.certainty.basis, found.certainty.df) == (Basis.SEEDS, 6)
    assert (found.mean, found.low, found.high) == pytest.approx((mean, low, high))
    assert found.reason == ""


def test_the_percentage_has_an_interval_over_the_same_seeds() -> None:
    pairs = drawn(0)
    in_percent = [replace(gap, loss=2 + gap.relative, baseline_loss=2.0) for gap in pairs]
    found, scaled = summary_of(pairs), summary_of(in_percent)
    assert found.mean_relative == pytest.approx(scaled.mean)
    assert found.relative_interval == pytest.approx((scaled.low, scaled.high))


def test_the_interval_over_models_stands_beside_it_and_holds_how_models_differ() -> None:
    pairs = drawn(1, [0.0, 0.05, 0.1])
    found = summary_of(pairs)
    ends = stats.ttest_1samp([group.mean() for group in by_seed(pairs)], 0).confidence_interval()
    assert found.over_models == pytest.approx((ends.low, ends.high))
    assert found.low is not None
    assert found.over_models is not None
    assert found.over_models[0] < found.low


def test_the_bootstrap_over_seeds_lies_close_to_the_t_interval_under_normal_noise() -> None:
    found = summary_of(drawn(2, seeds=8))
    assert found.bootstrap is not None
    assert found.low is not None
    assert found.high is not None
    assert found.bootstrap == pytest.approx(
        (found.low, found.high), abs=0.15 * (found.high - found.low)
    )


def test_with_one_seed_the_interval_is_over_models_and_says_so() -> None:
    found = summary_of(drawn(3, seeds=1))
    assert found.certainty is not None
    assert found.certainty.basis is Basis.MODELS
    assert (found.low, found.high) == found.over_models
    assert (found.noise, found.seeds_needed, found.bootstrap) == (None, None, None)
    assert found.reason == "one seed: the interval is over models"


def test_one_model_with_one_seed_has_a_mean_and_no_interval() -> None:
    found = summary_of([made_gap(0.02, tokens=tokens) for tokens in (1000, 2000)])
    assert found.mean == pytest.approx(0.02)
    assert (found.certainty, found.low, found.over_models) == (None, None, None)
    assert found.reason == "one seed: no interval from one model"


@pytest.mark.parametrize(("models", "basis"), [(1, None), (3, Basis.MODELS)])
def test_two_values_alone_make_no_interval_over_seeds(models: int, basis: Basis | None) -> None:
    """They lie as near to each other by chance as far apart."""
    pairs = [made_gap(0.01 * (model + 1), model=model) for model in range(models)]
    found = summary_of([*pairs, made_gap(0.01 + 1e-6, seed=1)])
    assert (found.certainty and found.certainty.basis) == basis
    assert found.reason.startswith("a single repeated seed: ")
    assert (found.seeds_needed, found.bootstrap) == (None, None)
    assert {cell.low for cell in found.cells} == {None}
    assert found.noise is not None
    assert found.noise.rho is None


def test_more_horizons_do_not_make_an_interval_narrower_by_their_number() -> None:
    """Where horizons repeat the same noise, ten of them say no more than one."""
    one = drawn(4, horizons=1)
    many = [replace(gap, tokens=gap.tokens * k) for gap in one for k in range(1, 11)]
    few, more = summary_of(one), summary_of(many)
    assert (more.low, more.high) == pytest.approx((few.low, few.high))
    assert more.certainty is not None
    assert few.certainty is not None
    assert more.certainty.df == few.certainty.df


def holds(ends: tuple[float | None, float | None] | None, truth: float) -> bool:
    low, high = ends or (None, None)
    return low is not None and high is not None and low <= truth <= high


@pytest.mark.slow
@pytest.mark.parametrize(("rho", "level"), [(0.0, 0.95), (0.8, 0.95), (0.8, 0.9)])
def test_intervals_over_seeds_hold_the_true_mean_gap_as_often_as_they_say(
    rho: float, level: float
) -> None:
    random, rounds = np.random.default_rng(5), 400
    held = np.zeros(3)
    for _ in range(rounds):
        pairs = drawn_pairs(random, [0.005, 0.01, 0.03], horizons=2, seeds=3, rho=rho)
        found = summary_of(pairs, level=level)
        cell = found.cells[3]
        held += [
            holds((found.low, found.high), 0.015),
            holds(found.bootstrap, 0.015),
            holds((cell.low, cell.high), 0.01),
        ]
    assert held[:2] / rounds == pytest.approx(level, abs=0.03)
    assert held[2] / rounds > level - 0.03  # degrees of a cell are counted low, so it holds more


def test_a_seed_that_lacks_a_horizon_is_not_taken_for_a_noisy_one() -> None:
    """Gaps differ ten times more between the horizons than between the seeds."""
    pairs = [
        made_gap(gap + 0.001 * seed, tokens=tokens, seed=seed)
        for tokens, gap in ((1000, 0.01), (2000, 0.05))
        for seed in range(4)
    ]
    whole = clusters(gap_values(pairs))["cell-0"]
    holed = clusters(gap_values(pairs[:-1]))["cell-0"]
    assert whole == pytest.approx([0.03, 0.031, 0.032, 0.033])
    assert holed.std() == pytest.approx(whole.std(), rel=0.15)


def test_a_cell_pools_the_noise_of_its_recipe_when_it_is_one_noise() -> None:
    pairs = drawn(6)
    found = summary_of(pairs)
    cells = [
        [gap.gap for gap in pairs if (gap.N, gap.tokens) == (c.N, c.tokens)] for c in found.cells
    ]
    sd = sqrt(np.mean([np.var(values, ddof=1) for values in cells]))
    for cell, values in zip(found.cells, cells, strict=True):
        low, high = stats.t.interval(0.95, 6, np.mean(values), sd / sqrt(3))
        assert cell.is_pooled
        assert cell.n_seeds == 3
        assert cell.sd == pytest.approx(np.std(values, ddof=1))
        assert (cell.low, cell.high) == pytest.approx((low, high))


def test_a_cell_stands_on_its_own_noise_where_noises_are_plainly_unequal() -> None:
    quiet, loud = drawn(7, [0.01], horizons=1, seeds=6), drawn(8, [0.01], horizons=1, seeds=6)
    loud = [replace(g, loss=g.baseline_loss + 30 * (g.gap - 0.01), tokens=9000) for g in loud]
    for cell, pairs in zip(summary_of([*quiet, *loud]).cells, (quiet, loud), strict=True):
        ends = stats.ttest_1samp([gap.gap for gap in pairs], 0).confidence_interval()
        assert not cell.is_pooled
        assert (cell.low, cell.high) == pytest.approx((ends.low, ends.high))


def test_a_cell_with_one_seed_takes_its_noise_from_the_repeated_ones() -> None:
    pairs = [*drawn(9, [0.01, 0.02], horizons=1), made_gap(0.05, model=7)]
    alone = summary_of(pairs).cells[-1]
    assert (alone.n_seeds, alone.sd) == (1, None)
    assert alone.certainty is not None
    assert alone.certainty.df == 4
    assert alone.low is not None
    assert alone.low < 0.05


def test_seeds_needed_and_detectable_gaps_follow_from_the_pooled_noise() -> None:
    pairs = drawn(10)
    found = summary_of(pairs)
    sd = sqrt(np.mean([group.var(ddof=1) for group in by_seed(pairs)]))
    assert found.certainty is not None
    assert found.seeds_needed is not None
    assert found.mean is not None
    assert found.certainty.detectable == pytest.approx(detectable(sd, 3, groups=3))
    assert found.seeds_needed.present == 3
    assert found.seeds_needed.to_resolve == pairs_needed(sd, found.mean, groups=3)
    n = found.seeds_needed.to_halve
    assert n is not None
    widths = [stats.t.ppf(0.975, 3 * (k - 1)) * sd / sqrt(3 * k) for k in (3, n, n - 1)]
    assert widths[1] <= widths[0] / 2 < widths[2]


def test_the_margin_decides_what_counts_as_no_gap() -> None:
    pairs = drawn(11, [0.004, 0.004, 0.004], seeds=6)
    verdicts = {}
    for margin in (0.0005, 0.0045, 0.02):
        found = summary_of(pairs, margin=margin)
        assert found.certainty is not None
        verdicts[margin] = found.certainty.equivalence.verdict
    assert verdicts == {
        0.0005: Verdict.WORSE,
        0.0045: Verdict.UNDECIDED,
        0.02: Verdict.EQUIVALENT,
    }


def test_a_higher_level_widens_every_interval() -> None:
    pairs = drawn(12, seeds=6)
    lower, higher = summary_of(pairs, level=0.9), summary_of(pairs, level=0.99)
    for name in ("bootstrap", "over_models"):
        near, far = getattr(lower, name), getattr(higher, name)
        assert far[0] < near[0] < near[1] < far[1]
    for near, far in zip(lower.cells, higher.cells, strict=True):
        assert far.high is not None
        assert near.high is not None
        assert far.high > near.high


def test_gaps_without_any_noise_have_intervals_of_no_width() -> None:
    pairs = [made_gap(0.02, model=m, seed=s, baseline=1.0) for m in range(2) for s in range(3)]
    found = summary_of(pairs)
    assert (found.low, found.high) == pytest.approx((found.mean, found.mean))
    assert found.seeds_needed is not None
    assert found.seeds_needed.to_resolve == 2


def test_order_of_the_pairs_changes_nothing() -> None:
    pairs = drawn(13)
    assert summary_of(pairs) == summary_of(pairs[::-1])
