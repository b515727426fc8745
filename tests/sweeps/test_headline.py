from collections.abc import Sequence
from dataclasses import replace

import pytest

from kernels.presets import PRESETS
from kernels.recipes import BF16_RECIPE
from sweeps.gaps import pair
from sweeps.headline import Ranking, headline, rank
from sweeps.records import RunRecord
from tests.dashboards.records import diverged, finished, sweep

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
    assert ranking.lead == pytest.approx(0.03)
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
    assert (ranking.n_cells, ranking.n_pairs, ranking.lead) == (2, 4, None)


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
    assert "no interval from a single model, n = 2 pairs in 2 cells" in first
    assert second.endswith("(no interval from a single model). The order is not settled.")


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
