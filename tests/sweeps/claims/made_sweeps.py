"""Records of a sweep whose losses are a table, for tests of claims."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from sweeps.claims.contrasts import Stratum
from sweeps.claims.deciding import Wanted
from sweeps.claims.judge import Judgement, judge
from sweeps.claims.parts import Estimate
from sweeps.claims.section import ClaimSection
from sweeps.records import Outcome, RunRecord
from sweeps.runspec import Seeds
from tests.sweeps.made_runs import made_run, made_spec

Losses = Callable[[str, int, int, int], float]
"""Loss by recipe, width, seed and tokens."""


def claim(statement: str, **more: object) -> ClaimSection:
    """A claim called `c`."""
    return ClaimSection.model_validate({"name": "c", "statement": statement} | more)


def records(
    losses: Losses,
    *,
    recipes: Sequence[str] = ("bf16", "ufp4", "e2m1-ref"),
    widths: Sequence[int] = (64,),
    seeds: Sequence[int] = (0, 1, 2, 3),
    budgets: Sequence[int] = (1000,),
) -> list[RunRecord]:
    """One succeeded run for each recipe, width and seed."""
    return [
        made_run(
            made_spec(recipe, width=width, seed=seed),
            {tokens: losses(recipe, width, seed, tokens) for tokens in budgets},
        )
        for width in widths
        for recipe in recipes
        for seed in seeds
    ]


def noisy(
    gaps: Mapping[str, float],
    sd: float | Mapping[int, float],
    *,
    seed: int = 0,
    shared: float = 0.1,
) -> Losses:
    """Losses 2 + gap + noise shared by the runs of a width and seed + noise of each run.

    Args:
        gaps: By recipe; BF16 has 0.
        sd: Of the noise of a run, or by width.
        seed: Of the draws.
        shared: Of the noise that pairs share.
    """

    def loss(recipe: str, width: int, run_seed: int, tokens: int) -> float:
        together = np.random.default_rng([seed, width, run_seed, 0])
        own = np.random.default_rng([seed, width, run_seed, tokens, *recipe.encode()])
        scale = sd if isinstance(sd, float) else sd[width]
        return float(2 + gaps.get(recipe, 0.0) + together.normal(0, shared) + own.normal(0, scale))

    return loss


def ended(
    runs: Sequence[RunRecord],
    outcome: Outcome,
    *,
    recipe: str,
    seed: int,
    width: int = 64,
    detail: str = "",
) -> list[RunRecord]:
    """The records with one run that has no endpoint."""
    wanted = (recipe, seed, f"w{width}")
    return [
        replace(run, outcome=outcome, endpoints=(), detail=detail)
        if (run.spec.recipe.name, run.spec.seeds.init, run.spec.model.name) == wanted
        else run
        for run in runs
    ]


def judged(statement: str, runs: Sequence[RunRecord], **more: object) -> Judgement:
    """The judgement of a single claim."""
    (found,) = judge([claim(statement, **more)], runs)
    return found


def contrast(
    runs: Sequence[RunRecord], weights: Mapping[str, float], *, width: int = 64, tokens: int = 1000
) -> np.ndarray:
    """Weighted losses by seed, put together from the records alone."""
    table: dict[tuple[str, Seeds], float] = {}
    for run in runs:
        point = run.endpoint(tokens)
        if run.spec.model.width == width and point is not None:
            table[run.spec.recipe.name, run.spec.seeds] = point.loss
    seeds = sorted({one for _, one in table}, key=lambda one: one.init)
    return np.array([sum(w * table[name, one] for name, w in weights.items()) for one in seeds])


def strata_of(draws: Sequence[np.ndarray]) -> tuple[Stratum, ...]:
    """Models with these contrasts by seed."""
    return tuple(
        Stratum(
            model=f"m{index}",
            N=index,
            tokens=(1,),
            flops=1.0,
            seeds=tuple(Seeds(init=seed) for seed in range(len(own))),
            values=tuple(own),
            absent=(),
        )
        for index, own in enumerate(draws)
    )


def estimate_of(found: Judgement) -> Estimate:
    """The estimate of the part that the verdict hangs on."""
    assert found.decisive is not None
    assert found.decisive.estimate is not None
    return found.decisive.estimate


def wanted_of(found: Judgement) -> Wanted:
    """What would decide a claim."""
    assert found.wanted is not None
    return found.wanted
