"""The noise that a sweep measured, from the gaps between its seeds."""

import numpy as np
import pytest

from sweeps.design.noise_level import LEAST_DF, measured, stated
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


def test_without_repeats_it_is_what_was_seen_at_such_sizes() -> None:
    assert [stated([N]).sd for N in (5e4, 2e5, 29e6, 30e6, 1e11)] == [
        *(0.011, 0.005, 0.005, 0.00125, 0.00125)
    ]
    assert stated([2e5, 4e5]) == stated([2e5])
    assert stated([1e8]).source == "the median of public repeats of 124M models"


def test_of_several_sizes_it_is_the_root_mean_square_and_names_its_parts() -> None:
    found = stated([5e4, 1e5, 2e5])
    assert found.sd == pytest.approx(((2 * 0.011**2 + 0.005**2) / 3) ** 0.5)
    assert found.source == (
        "root mean square over models of 0.005, the middle of 0.002 to 0.008 seen at 0.2M "
        "parameters; 0.011, as seen at 0.05M and 0.1M parameters"
    )
