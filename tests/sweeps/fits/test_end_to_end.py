"""A sweep whose losses follow a known law, from the spec through the store to the constants.

    L(N, D, recipe) = E + A / (eff_N N)^alpha + B / (eff_D D)^beta      eff 1 for bf16

The planner decides N and the horizons, the store keeps and returns the endpoints, and nothing in
between knows the law.
"""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from orchestrator.store import Store
from sweeps.answer import Answer, answer
from sweeps.effective.arms import arm_points
from sweeps.effective.effective import effective
from sweeps.fits.compare import search
from sweeps.fits.settings import Settings
from sweeps.gaps.pair import pair
from sweeps.laws.chinchilla import Chinchilla
from sweeps.plan import Plan
from sweeps.recipe_fits import recipe_samples
from sweeps.records import RunRecord
from sweeps.runspec import RunSpec
from tests.orchestrator.values import LEASE, START, completed, endpoint, heard, plan_of

TRUTH = {"E": 1.7, "A": 30.0, "B": 600.0, "alpha": 0.28, "beta": 0.42}
EFFECTIVE = {"bf16": (1.0, 1.0), "ufp4": (0.8, 0.9)}
WIDTHS = (32, 64, 96, 160, 256)
BUDGETS = tuple(f"{2**k}Mtok" for k in range(5))

Noise = Callable[[RunSpec, int], float]


def law(N: float, D: float, recipe: str) -> float:
    eff_N, eff_D = EFFECTIVE[recipe]
    size = TRUTH["A"] / (eff_N * N) ** TRUTH["alpha"]
    value: float = TRUTH["E"] + size + TRUTH["B"] / (eff_D * D) ** TRUTH["beta"]
    return value


def exact(spec: RunSpec, tokens: int) -> float:
    return 0.0


def paired(spec: RunSpec, tokens: int) -> float:
    """Noise that the runs of a seed share, and a tenth of it of their own."""
    shared = (spec.model.width, spec.seeds.init, tokens)
    own = (*shared, *spec.recipe.name.encode())
    return sum(
        float(np.random.default_rng(key).normal(0, sigma))
        for key, sigma in ((shared, 1e-3), (own, 1e-4))
    )


def planned() -> Plan:
    return plan_of(
        models=[
            {"name": f"w{w}", "layers": 2, "width": w, "heads": 2, "mlp_width": 2 * w}
            for w in WIDTHS
        ],
        budgets=BUDGETS,
        seeds=(0, 1),
    )


def carried_out(plan: Plan, store: Store, noise: Noise) -> None:
    """Every run of the plan claimed, measured by the law and completed."""
    later = START + timedelta(minutes=1)
    store.submit(plan, START)
    for run in plan.runs:
        task = store.claim(run.run_id, START)
        assert task is not None
        points = [
            endpoint(D, loss=law(run.N, D, run.spec.recipe.name) + noise(run.spec, D))
            for D in task.horizons
        ]
        store.apply(heard(task, *points), later)
        store.apply(completed(task, offset=len(points)), later)


def measured(folder: Path, noise: Noise) -> tuple[RunRecord, ...]:
    store = Store(f"sqlite:///{folder / 'gridlaw.db'}", runs=folder, lease=LEASE)
    try:
        carried_out(planned(), store, noise)
        return tuple(store.records("small"))
    finally:
        store.close()


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunRecord, ...]:
    return measured(tmp_path_factory.mktemp("exact"), exact)


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Answer:
    return answer(measured(tmp_path_factory.mktemp("noisy"), paired), resamples=200)


def test_every_endpoint_is_paired_and_its_gap_is_that_of_the_law(
    clean: tuple[RunRecord, ...],
) -> None:
    table = pair(clean)
    assert len(table.gaps) == len(WIDTHS) * len(BUDGETS) * 2
    assert table.unpaired == ()
    for gap in table.gaps:
        expected = law(gap.N, gap.tokens, "ufp4") - law(gap.N, gap.tokens, "bf16")
        assert gap.gap == pytest.approx(expected, abs=1e-12)


def test_without_noise_the_constants_come_back_to_1e_6(clean: tuple[RunRecord, ...]) -> None:
    for sample in recipe_samples(clean):
        eff_N, eff_D = EFFECTIVE[sample.label]
        law = Chinchilla.about(sample.points.where)
        found = search(law, sample.points, Settings())
        A = TRUTH["A"] / eff_N ** TRUTH["alpha"]
        B = TRUTH["B"] / eff_D ** TRUTH["beta"]
        expected = [TRUTH["E"], A, B, TRUTH["alpha"], TRUTH["beta"]]
        assert law.constants(found.optimum.theta) == pytest.approx(expected, rel=1e-6)


def test_with_noise_the_intervals_hold_the_constants(noisy: Answer) -> None:
    bf16 = noisy.fits[0]
    assert bf16.label == "bf16"
    assert bf16.law_name == "chinchilla"
    for one in bf16.estimates:
        assert one.identified
        assert one.low is not None
        assert one.high is not None
        assert one.low < TRUTH[one.name] < one.high


def test_the_multipliers_of_the_recipe_come_back(noisy: Answer) -> None:
    points = arm_points(noisy.records)
    (found,) = effective(points, noisy.fits[0], Settings(resamples=200))
    eff_N, eff_D = EFFECTIVE["ufp4"]
    for one, truth in (
        (found.eff_N, eff_N),
        (found.eff_D, eff_D),
        (found.C_mult, eff_N * eff_D),
        (found.break_even, 1 / (eff_N * eff_D)),
    ):
        assert one.value == pytest.approx(truth, rel=2e-3)
        assert one.low is not None
        assert one.high is not None
        assert one.high < 1.01 * one.low


def test_pairing_takes_the_shared_noise_out_of_the_gap(noisy: Answer) -> None:
    errors = [
        gap.gap - law(gap.N, gap.tokens, "ufp4") + law(gap.N, gap.tokens, "bf16")
        for gap in noisy.gaps.gaps
    ]
    assert np.std(errors) == pytest.approx(1e-4 * 2**0.5, rel=0.35)
    assert np.std([gap.loss - law(gap.N, gap.tokens, "ufp4") for gap in noisy.gaps.gaps]) > 7e-4
