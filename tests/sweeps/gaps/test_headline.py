from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from kernels.presets import PRESETS
from kernels.recipes import BF16_RECIPE
from sweeps.gaps.certainty import Basis, level_text
from sweeps.gaps.headline import Ranking, headline, rank
from sweeps.gaps.pair import GapTable, pair
from sweeps.gaps.paired import Gap
from sweeps.records import RunRecord
from tests.dashboards.records import diverged, finished, sweep
from tests.sweeps.made_gaps import made_gap

UFP4, E2M1 = PRESETS["ufp4"], PRESETS["e2m1-ref"]


def shifted(record: RunRecord, gap: float) -> RunRecord:
    """The record with endpoints this far above its baseline's."""
    base = finished(model=record.spec.model.name, seed=record.spec.seeds.init)
    ends = tuple(
        replace(end, loss=theirs.loss + gap + 0.001 * k)
        for k, (end, theirs) in enumerate(zip(record.endpoints, base.endpoints, strict=True))
    )
    return replace(record, endpoints=ends)


def ranked(records: Sequence[RunRecord]) -> Ranking:
    ranking = rank(pair(records).gaps)
    assert ranking is not None
    return ranking


def test_the_recipe_of_the_lowest_mean_gap_comes_first_with_its_lead():
    records = (finished(), shifted(finished(UFP4), 0.02), shifted(finished(E2M1), 0.05))
    ranking = ranked(records)
    assert ranking.recipes == ("ufp4", "e2m1-ref")
    assert ranking.means == pytest.approx((0.0205, 0.0505))
    assert ranking.leads == pytest.approx((0.03,))
    assert (ranking.n_cells, ranking.n_pairs) == (2, 2)


def test_only_cells_that_all_recipes_share_decide():
    records = (
        *(finished(BF16_RECIPE, model=model) for model in ("tiny", "small")),
        shifted(finished(UFP4, model="tiny"), 0.04),
        shifted(finished(UFP4, model="small"), 0.90),
        shifted(finished(E2M1, model="tiny"), 0.05),
        diverged(E2M1, model="small"),
    )
    ranking = ranked(records)
    assert ranking.recipes[0] == "ufp4"
    assert ranking.means == pytest.approx((0.0405, 0.0505))
    assert ranking.n_cells == 2


def test_the_mean_over_seeds_is_taken_inside_a_cell_first():
    records = [finished(seed=seed) for seed in (0, 1, 2)]
    records += [shifted(finished(UFP4, seed=seed), gap) for seed, gap in ((0, 0.1), (1, 0.2))]
    ranking = ranked(records)
    assert ranking.means == pytest.approx((0.1505,))
    assert (ranking.n_cells, ranking.n_pairs, ranking.leads) == (2, 4, ())


def test_the_answer_names_recipe_gap_percent_interval_and_n():
    first, second = headline(pair(sweep()))
    assert first.startswith("ufp4 has the lowest loss against BF16: 0.03")
    assert "nats per token above it (+1.20 % of the BF16 loss)" in first
    assert "95 % t interval over 3 models +0.0259 to +0.0383" in first
    assert first.endswith("n = 6 pairs in 6 cells.")
    assert second.startswith("e2m1-ref is 0.02")
    assert "not settled" not in second


def test_an_order_inside_the_noise_is_called_unsettled():
    models = ("tiny", "small", "medium")
    records = (
        *(finished(BF16_RECIPE, model=model) for model in models),
        *(shifted(finished(UFP4, model=model), 0.020) for model in models),
        *(
            shifted(finished(E2M1, model=model), gap)
            for model, gap in zip(models, (0.01, 0.04, 0.03), strict=True)
        ),
    )
    second = headline(pair(records))[1]
    assert "95 % t interval over 3 models -" in second
    assert second.endswith("The order is not settled.")


def test_horizons_of_one_model_are_one_observation_and_settle_nothing():
    records = (finished(), shifted(finished(UFP4), 0.02), shifted(finished(E2M1), 0.04))
    first, second = headline(pair(records))
    assert "no interval from so few models and seeds, n = 2 pairs in 2 cells" in first
    assert second.endswith("(no interval from so few models and seeds). The order is not settled.")


def test_a_recipe_below_bf16_is_said_to_be_below():
    records = (finished(), shifted(finished(UFP4), -0.03))
    assert "0.0295 nats per token below it (-" in headline(pair(records))[0]


def test_recipes_that_share_no_cell_have_no_order():
    records = (
        *(finished(BF16_RECIPE, model=model) for model in ("tiny", "small")),
        finished(UFP4, model="tiny"),
        finished(E2M1, model="small"),
    )
    assert headline(pair(records)) == (
        "The recipes share no cell in which all have a gap, so they have no order.",
    )


def test_divergence_is_part_of_the_answer():
    said = headline(pair((finished(), diverged(UFP4))))
    assert said == (
        "No gap could be measured for ufp4.",
        "ufp4 diverged before 2 endpoints, which have no gap.",
    )


def test_without_quantized_runs_there_is_nothing_to_say():
    assert headline(pair([finished()])) == ()


def with_seeds(
    gaps: dict[str, float], *, seeds: int, sd: float = 0.003, models: int = 2, random: int = 0
) -> list[Gap]:
    """Pairs of several recipes that share the BF16 runs of each model and seed."""
    noise = np.random.default_rng(random)
    return [
        replace(
            made_gap(mean + float(noise.normal(0, sd)), model=model, seed=seed),
            recipe=recipe,
            run_id=f"{recipe}-{model}-{seed}",
        )
        for recipe, mean in gaps.items()
        for model in range(models)
        for seed in range(seeds)
    ]


def rank_of(gaps: list[Gap]) -> Ranking:
    ranking = rank(gaps)
    assert ranking is not None
    return ranking


def test_with_repeated_seeds_the_lead_is_judged_over_seeds_at_these_models():
    pairs = with_seeds({"a": 0.02, "b": 0.03}, seeds=4)
    ranking = rank_of(pairs)
    leads = [
        [by[("b", model, seed)] - by[("a", model, seed)] for seed in range(4)]
        for by in [{(gap.recipe, int(gap.model[1:]), gap.seed): gap.gap for gap in pairs}]
        for model in range(2)
    ]
    sd = np.sqrt(np.mean([np.var(values, ddof=1) for values in leads]))
    low, high = stats.t.interval(0.95, 6, np.mean(leads), sd / np.sqrt(8))
    (sure,) = ranking.lead_certainties
    assert sure is not None
    assert (sure.basis, sure.df) == (Basis.SEEDS, 6)
    assert (sure.low, sure.high) == pytest.approx((low, high))
    table = GapTable(gaps=tuple(pairs), unpaired=(), summaries=())
    assert "95 % t interval over seeds at these 2 models" in headline(table)[0]


def test_the_best_of_many_is_judged_at_the_level_that_holds_for_all_pairs_of_recipes():
    ranking = rank_of(with_seeds(dict.fromkeys("abcdef", 0.02), seeds=3))
    assert ranking.n_comparisons == 15
    assert {sure.level for sure in ranking.lead_certainties if sure} == {1 - 0.05 / 15}


def test_of_equal_recipes_one_is_seldom_said_to_lead():
    gaps = dict.fromkeys("abcdef", 0.02)
    rankings = [rank_of(with_seeds(gaps, seeds=3, random=k)) for k in range(300)]
    settled = [len(one.not_told_apart) < len(one.recipes) - 1 for one in rankings]
    assert np.mean(settled) < 0.08


def test_recipes_that_are_not_told_apart_from_the_first_are_named():
    pairs = with_seeds({"a": 0.02, "b": 0.021, "c": 0.2}, seeds=4, random=1)
    ranking = rank_of(pairs)
    second = {"a": "b", "b": "a"}[ranking.recipes[0]]
    assert ranking.not_told_apart == (second,)
    said = headline(GapTable(gaps=tuple(pairs), unpaired=(), summaries=()))[1]
    assert "so that all 3 pairs of recipes hold at 95 %" in said
    assert said.endswith(
        f"The order is not settled. Not told apart from {ranking.recipes[0]}: {second}."
    )


def test_where_no_recipe_is_told_apart_from_the_first_none_is_listed():
    pairs = with_seeds({"a": 0.02, "b": 0.02, "c": 0.02}, seeds=3, random=1)
    said = headline(GapTable(gaps=tuple(pairs), unpaired=(), summaries=()))[1]
    first = rank_of(pairs).recipes[0]
    assert said.endswith(
        f"The order is not settled. None of the other recipes is told apart from {first}."
    )


def test_fewer_pairs_than_a_recipe_has_are_said_to_be_the_shared_ones():
    records = sweep(seeds=(0, 1))
    lost = replace(records[-1], endpoints=())
    assert headline(pair(records))[0].endswith(" cells.")
    assert headline(pair((*records[:-1], lost)))[0].endswith(" cells that all recipes share.")


@pytest.mark.parametrize(
    ("level", "text"),
    [(0.95, "95 %"), (1 - 0.05 / 36, "99.86 %"), (1 - 0.05 / 1225, "99.996 %")],
)
def test_no_interval_is_said_to_be_certain(level, text):
    assert level_text(level) == text


def test_a_seed_that_one_recipe_lacks_counts_for_none():
    pairs = with_seeds({"a": 0.02, "b": 0.03}, seeds=3)
    far = [
        replace(gap, loss=gap.loss + 9)
        if (gap.recipe, gap.model, gap.seed) == ("a", "m0", 2)
        else gap
        for gap in pairs
    ]
    holed = [gap for gap in far if (gap.recipe, gap.model, gap.seed) != ("b", "m0", 2)]
    ranking = rank_of(holed)
    assert ranking.n_pairs == 5
    assert ranking.means[0] < 0.03
