"""How often intervals hold the truth: joint fits of a reference and an arm, simulated and seeded.

400 data sets at a true rate of 0.95 have a standard error of 0.011, 150 of 0.018.
"""

import numpy as np
import pytest

from sweeps.fits.bootstrap import CAUTIOUS_CELLS
from sweeps.fits.compare import search
from sweeps.fits.forms import form
from sweeps.fits.parametric import drawn
from sweeps.fits.points import Points, make_points
from sweeps.fits.settings import Settings
from sweeps.laws.chinchilla import Chinchilla
from sweeps.laws.joint import Effect
from sweeps.laws.law import Array, Law, at, loss
from tests.sweeps.fits.made_points import TRUTH, grid, surface

EFF_N = 0.65
NOISE = 0.002
TARGET = at([1e9, 1e9], [1e11, 1e11], [0, 1])
EFFECTS = (Effect.N,)


def paired(sizes: int, budgets: int, rho: float, seed: int) -> Points:
    """A reference and an arm on one grid; their noise is correlated by rho in each cell."""
    N, D = grid(sizes, budgets)
    random = np.random.default_rng(seed)
    shared, own = random.normal(size=len(N)), random.normal(size=(2, len(N)))
    noise = NOISE * (np.sqrt(rho) * shared + np.sqrt(1 - rho) * own)
    losses = np.stack([surface(N, D), surface(EFF_N * N, D)]) * np.exp(noise)
    arms = np.repeat(["bf16", "fp4"], len(N)).tolist()
    return make_points(np.tile(N, 2), np.tile(D, 2), losses.ravel(), arms=arms, reference="bf16")


def quantities(law: Law, theta: Array) -> Array:
    """E, alpha, beta, eff_N, and at the target the loss of the reference and the gap."""
    values = loss(law, theta, TARGET)
    gap = values[..., 1] - values[..., 0]
    names = ["E", "alpha", "beta", "eff_N[fp4]"]
    own = law.constants(theta)[..., [law.parameters.index(name) for name in names]]
    return np.concatenate([own, values[..., :1], gap[..., None]], axis=-1)


def truth() -> Array:
    reference, arm = surface(np.array([1.0, EFF_N]) * 1e9, np.full(2, 1e11))
    return np.array(
        [*(TRUTH[name] for name in ("E", "alpha", "beta")), EFF_N, reference, arm - reference]
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "budgets", "rho", "sets"),
    [(4, 6, 0.0, 400), (4, 6, 0.8, 400), (3, 4, 0.8, 150)],
)
def test_intervals_of_constants_losses_and_gaps_cover_as_they_say(
    sizes: int, budgets: int, rho: float, sets: int
) -> None:
    settings = Settings(law="chinchilla", effects=EFFECTS, resamples=300)
    covered: dict[float, list[Array]] = {0.90: [], 0.95: []}
    expected = truth()
    for seed in range(sets):
        points = paired(sizes, budgets, rho, seed)
        found = search(form("chinchilla", points, EFFECTS), points, settings)
        values = quantities(found.law, drawn(found, points, settings))
        for level, held in covered.items():
            low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], axis=0)
            held.append((low <= expected) & (expected <= high))
    wide, narrow = np.mean(covered[0.95], axis=0), np.mean(covered[0.90], axis=0)
    # Twelve cells rest on little, which a fit says; their intervals may be too wide, not too short.
    most = 0.98 if sizes * budgets >= CAUTIOUS_CELLS else 1.0
    assert ((wide >= 0.92) & (wide <= most)).all(), wide
    assert (narrow >= 0.86).all(), narrow
    assert (narrow < wide).all(), narrow


@pytest.mark.slow
def test_budgets_that_share_a_run_cover_when_runs_are_the_clusters() -> None:
    sizes, budgets, share = 8, 4, 0.8
    N, D = grid(sizes, budgets)
    run = np.repeat(np.arange(sizes), budgets)
    place = at([1.7e8], [5e9])
    expected = np.array(
        [*(TRUTH[name] for name in ("E", "alpha", "beta")), *surface(place.N, place.D)]
    )
    settings = Settings(law="chinchilla", resamples=300)
    by_run: list[Array] = []
    by_cell: list[Array] = []
    for seed in range(150):
        random = np.random.default_rng(seed)
        noise = np.sqrt(share) * random.normal(size=sizes)[run]
        noise += np.sqrt(1 - share) * random.normal(size=len(N))
        losses = surface(N, D) * np.exp(NOISE * noise)
        for groups, covered in ((run.astype(str).tolist(), by_run), (None, by_cell)):
            points = make_points(N, D, losses, groups=groups)
            found = search(Chinchilla.about(points.where), points, settings)
            draws = drawn(found, points, settings)
            own = found.law.constants(draws)[:, [0, 3, 4]]
            values = np.concatenate([own, loss(found.law, draws, place)], axis=1)
            low, high = np.quantile(values, [0.025, 0.975], axis=0)
            covered.append((low <= expected) & (expected <= high))
    assert (np.mean(by_run, axis=0) >= 0.9).all(), np.mean(by_run, axis=0)
    # What is decided between the sizes is known far worse than 32 separate cells would have it.
    assert (np.mean(by_cell, axis=0)[[0, 1, 3]] < 0.88).all(), np.mean(by_cell, axis=0)
