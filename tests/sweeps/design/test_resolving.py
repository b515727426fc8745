"""What seeds resolve, against t tests of simulated losses and against the published table."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from sweeps.claims.section import Models
from sweeps.claims.statement import parse_statement
from sweeps.design.noise_level import NoiseLevel, given, stated
from sweeps.design.resolving import contrast_sd, resolve
from sweeps.errors import InputError
from tests.sweeps.design.made_sweeps import planned

RECIPES = ["bf16", "ufp4", "e2m1-ref", "mxfp8"]
RUNS = 20_000


def noise(sd: float, rho: float = 0.5) -> NoiseLevel:
    return NoiseLevel(sd=sd, source="made", rho=rho)


def claim(statement: str, **changes: Any) -> dict[str, Any]:
    return {"name": "made", "statement": statement} | changes


@pytest.mark.parametrize(
    ("sd", "gap", "seeds"),
    [
        (0.00125, 0.01, 3),
        (0.0025, 0.01, 3),
        (0.005, 0.01, 5),
        (0.005, 0.005, 10),
        (0.00125, 0.002, 6),
        (0.0025, 0.002, 15),
        (0.0007, 0.001, 7),
    ],
)
def test_seeds_for_a_gap_are_those_of_the_published_table(
    sd: float, gap: float, seeds: int
) -> None:
    assert resolve(planned().spec, noise(sd), gap=gap).seeds_at_one == seeds


@pytest.mark.parametrize(
    ("statement", "weights"),
    [
        ("gap(ufp4) < 0.01", {"ufp4": 1}),
        ("gap(ufp4) < gap(e2m1-ref)", {"ufp4": 1, "e2m1-ref": -1}),
        ("gap(ufp4) <= 0.8 * gap(e2m1-ref)", {"ufp4": 1, "e2m1-ref": -0.8}),
        ("gap(ufp4) - gap(e2m1-ref) < gap(mxfp8)", {"ufp4": 1, "e2m1-ref": -1, "mxfp8": -1}),
    ],
)
@pytest.mark.parametrize("rho", [0.0, 0.8])
def test_the_noise_of_a_contrast_is_that_of_its_losses(
    statement: str, weights: dict[str, float], rho: float
) -> None:
    sd = 0.01
    generator = np.random.default_rng(0)
    single = sd / np.sqrt(2 * (1 - rho))
    shared = generator.normal(0, np.sqrt(rho), RUNS)
    losses = {
        name: single * (shared + generator.normal(0, np.sqrt(1 - rho), RUNS))
        for name in ("bf16", *weights)
    }
    contrast = sum(weight * (losses[name] - losses["bf16"]) for name, weight in weights.items())
    found = contrast_sd(parse_statement(statement), sd)
    assert found == pytest.approx(float(np.std(contrast)), rel=0.02)


@pytest.mark.parametrize(("models", "groups"), [(Models.LARGEST, 1), (Models.MEAN, 3)])
def test_a_claim_at_its_distance_is_decided_in_four_cases_of_five(
    models: Models, groups: int
) -> None:
    spec = planned(
        recipes=RECIPES,
        seeds=[0, 1, 2, 3],
        claims=[claim("gap(ufp4) < gap(e2m1-ref)", models=models.value)],
    ).spec
    (found,) = resolve(spec, noise(0.01)).claims
    assert found.distance is not None
    drawn = np.random.default_rng(1).normal(-found.distance, found.sd, (RUNS, groups, 4))
    spread = np.sqrt(drawn.var(axis=2, ddof=1).mean(axis=1) / (4 * groups))
    edge = stats.t.ppf(0.975, 3 * groups)
    decided = drawn.mean(axis=(1, 2)) + edge * spread < 0
    assert np.mean(decided) == pytest.approx(0.8, abs=0.015)


def test_a_claim_at_each_model_passes_at_all_of_them_in_four_cases_of_five() -> None:
    spec = planned(
        recipes=RECIPES,
        seeds=[0, 1, 2, 3],
        claims=[claim("gap(ufp4) < gap(e2m1-ref)", models="each")],
    ).spec
    (found,) = resolve(spec, noise(0.01)).claims
    assert found.distance is not None
    drawn = np.random.default_rng(2).normal(-found.distance, found.sd, (RUNS, 3, 4))
    spread = np.sqrt(drawn.var(axis=2, ddof=1) / 4)
    passes = drawn.mean(axis=2) + stats.t.ppf(0.975, 3) * spread < 0
    assert np.mean(passes.all(axis=1)) == pytest.approx(0.8, abs=0.015)


def test_a_margin_with_two_ends_is_cleared_at_both_in_four_cases_of_five() -> None:
    spec = planned(
        recipes=RECIPES,
        seeds=[0, 1, 2, 3, 4],
        claims=[claim("abs(gap(mxfp8)) < 0.01", models="largest")],
    ).spec
    (found,) = resolve(spec, noise(0.01)).claims
    assert found.distance is not None
    drawn = np.random.default_rng(3).normal(0, found.sd, (RUNS, 5))
    half = stats.t.ppf(0.975, 4) * drawn.std(axis=1, ddof=1) / np.sqrt(5)
    inside = np.abs(drawn.mean(axis=1)) + half < found.distance
    assert np.mean(inside) >= 0.79


def test_one_seed_resolves_no_gap_and_no_claim() -> None:
    spec = planned(recipes=RECIPES, claims=[claim("gap(ufp4) < 0.01")]).spec
    found = resolve(spec, noise(0.01), gap=0.01)
    assert found.at_one is found.at_mean is found.claims[0].distance is None
    assert found.seeds_at_one is not None


def test_a_mean_over_models_resolves_less_than_one_of_them() -> None:
    found = resolve(planned(seeds=[0, 1, 2]).spec, noise(0.01), gap=0.01)
    assert found.at_one is not None
    assert found.at_mean is not None
    assert found.at_mean < found.at_one / 3**0.5
    assert found.models == ("50k", "100k", "200k")
    assert (found.seeds_at_mean or 0) < (found.seeds_at_one or 0)


def test_stated_noise_is_larger_for_small_models() -> None:
    assert stated([2e5]).sd > stated([1e8]).sd
    assert given(0.003).sd == 0.003
    assert given(0.003).run_sd == pytest.approx(0.003)


def test_levels_and_gaps_that_make_no_sense_are_refused_with_one_seed_as_well() -> None:
    for changes in ({"level": 0.0}, {"level": 1.0}, {"gap": 0.0}, {"gap": float("nan")}):
        (name,) = changes
        with pytest.raises(InputError, match=f"{name} = "):
            resolve(planned().spec, noise(0.01), **changes)


@pytest.mark.parametrize("sd", [0.0, -1.0, 1e-300, 11.0, float("nan"), float("inf")])
def test_a_noise_that_is_none_is_refused(sd: float) -> None:
    with pytest.raises(InputError, match=r"sd = .*: must lie between"):
        given(sd)
