"""Noise floor between seeds: single runs, pairs, and what pairing is worth."""

from itertools import pairwise
from math import sqrt

import numpy as np
import pytest
from scipy import stats

from sweeps.gaps.noise import Noise, noise, sd_interval
from tests.sweeps.fits.public_data import column, public_rows
from tests.sweeps.made_gaps import drawn_pairs, made_gap, pairs_of


def floor(gaps) -> Noise:
    found = noise(gaps)
    assert found is not None
    return found


def test_in_one_cell_it_is_the_covariance_of_the_two_losses() -> None:
    random = np.random.default_rng(0)
    baselines = random.normal(2, 0.01, (1, 1, 9))
    losses = baselines + random.normal(0.03, 0.005, (1, 1, 9))
    found = floor(pairs_of(losses, baselines))
    assert found.bf16_sd == pytest.approx(baselines.std(ddof=1))
    assert found.recipe_sd == pytest.approx(losses.std(ddof=1))
    assert found.pair_sd == pytest.approx((losses - baselines).std(ddof=1))
    assert found.rho == pytest.approx(np.corrcoef(losses.ravel(), baselines.ravel())[0, 1])
    assert (found.n_models, found.n_clusters, found.df) == (1, 9, 8)
    theirs = stats.pearsonr(losses.ravel(), baselines.ravel()).confidence_interval(0.95)
    assert found.rho_interval == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_horizons_of_one_run_add_no_degrees() -> None:
    pairs = drawn_pairs(np.random.default_rng(1), [0.0, 0.0], horizons=5, seeds=3, rho=0.5)
    assert floor(pairs).df == 4
    assert floor([gap for gap in pairs if gap.tokens == 1000]).df == 4


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.8])
def test_the_noise_that_was_put_in_comes_out(rho: float) -> None:
    random = np.random.default_rng(2)
    found = floor(drawn_pairs(random, [0.01] * 40, horizons=3, seeds=10, rho=rho))
    assert found.bf16_sd == pytest.approx(0.004, rel=0.08)
    assert found.recipe_sd == pytest.approx(0.004, rel=0.08)
    assert found.pair_sd == pytest.approx(0.004 * sqrt(2 * (1 - rho)), rel=0.08)
    assert found.rho == pytest.approx(rho, abs=0.08)


def test_the_intervals_of_sd_and_rho_hold_the_truth_in_about_95_of_100_data_sets() -> None:
    random = np.random.default_rng(3)
    held = np.zeros(2)
    for _ in range(400):
        found = floor(drawn_pairs(random, [0.0] * 3, horizons=1, seeds=4, rho=0.6, trunk=0.0))
        low, high = found.pair_interval
        held[0] += low <= 0.004 * sqrt(0.8) <= high
        assert found.rho_interval is not None
        held[1] += found.rho_interval[0] <= 0.6 <= found.rho_interval[1]
    assert ((held / 400 >= 0.92) & (held / 400 <= 0.98)).all()


def test_how_models_differ_is_no_noise() -> None:
    pairs = [made_gap(0.1 * model, model=model, seed=seed) for model in (0, 1) for seed in (0, 1)]
    found = floor(pairs)
    assert found.pair_sd == pytest.approx(0, abs=1e-12)


def test_a_single_seed_has_no_noise_floor() -> None:
    assert noise([made_gap(0.1, model=model) for model in range(3)]) is None
    assert noise([]) is None


def test_a_model_without_repeats_takes_no_part() -> None:
    pairs = [made_gap(0.1, model=0, seed=0), made_gap(0.3, model=0, seed=1)]
    found, more = floor(pairs), floor([*pairs, made_gap(0.9, model=1)])
    assert found == more


def test_identical_runs_have_no_correlation_to_speak_of() -> None:
    found = floor([made_gap(0.1, seed=seed) for seed in range(3)])
    assert (found.pair_sd, found.rho, found.rho_interval) == (0, None, None)


def test_the_interval_of_an_sd_narrows_with_its_degrees() -> None:
    widths = [high - low for low, high in (sd_interval(1.0, df) for df in (2, 5, 20, 100))]
    assert all(first > second for first, second in pairwise(widths))


def test_repeated_public_runs_differ_by_the_noise_that_was_published() -> None:
    """OLMo ladder, each size once more: 0.0011, 0.0006, 0.0009, 0.0005 and 0.0006 nats apart."""
    rows = public_rows("olmo_ladder_losses.csv")
    sizes = sorted({row["size"] for row in rows if row["role"] == "rerun"})
    runs = [[row for row in rows if row["run"].startswith(f"{size}-1xC")] for size in sizes]
    losses = [column(pair, "c4_en") for pair in runs]
    found = floor(
        [
            made_gap(0.0, model=model, seed=seed, baseline=float(loss))
            for model, pair in enumerate(losses)
            for seed, loss in enumerate(pair)
        ]
    )
    assert (found.n_models, found.n_clusters, found.df) == (5, 10, 5)
    assert found.bf16_sd == pytest.approx(5.4e-4, abs=0.2e-4)
