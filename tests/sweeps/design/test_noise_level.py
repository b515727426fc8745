"""The noise that a sweep measured, from the gaps between its seeds."""

import numpy as np
import pytest

from sweeps.design.noise_level import LEAST_DF, measured
from sweeps.gaps.pair import pair
from tests.sweeps.design.made_sweeps import planned, records_of, truth


def gaps_of(seeds: int, sd: float):
    plan = planned(seeds=list(range(seeds)), models=["50k", "100k"], budgets=["40tpp"])
    generator = np.random.default_rng(0)
    shared = {seed: generator.normal(0, sd) for seed in range(seeds)}
    return pair(
        records_of(
            plan,
            loss=lambda run, tokens: (
                truth(run, tokens) + shared[run.spec.seeds.init] + generator.normal(0, sd)
            ),
        )
    )


def test_it_is_pooled_over_models_and_says_from_how_many_pairs() -> None:
    found = measured(gaps_of(60, 0.003), ["ufp4"], "made")
    assert found is not None
    assert found.sd == pytest.approx(0.003 * 2**0.5, rel=0.15)
    assert found.rho == pytest.approx(0.5, abs=0.15)
    assert found.run_sd == pytest.approx(0.003 * 2**0.5, rel=0.2)
    assert found.source == "measured on 120 pairs of made, 118 degrees of freedom"


def test_too_few_repeats_and_repeats_without_noise_measure_none() -> None:
    assert measured(gaps_of(1, 0.003), ["ufp4"], "made") is None
    few = gaps_of(LEAST_DF // 2, 0.003)
    assert measured(few, ["ufp4"], "made") is None
    assert measured(gaps_of(9, 0.0), ["ufp4"], "made") is None
    assert measured(gaps_of(9, 1e-15), ["ufp4"], "made") is None
    assert measured(gaps_of(9, 0.003), ["e2m1-ref"], "made") is None
