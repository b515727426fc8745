"""The plan of a sweep: which runs it takes, and what they cost. Pure and deterministic.

    cell   model x recipe x seed x budget: one point that the sweep asks for
    run    all cells that differ in the budget alone: one trunk with a cooldown branch a horizon

A BF16 baseline stands beside every cell: same model, seeds and horizon, the recipe alone differs.
Where the spec asks for none, one is added; every recipe shares it.

    tokens trained by a run = longest trunk + every cooldown branch
    sweep id                = name - 8 hex digits of SHA-256 over the runs and their horizons
"""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import product
from typing import Any

from kernels.recipes import BF16_RECIPE, Recipe
from sweeps.budget import Budget, resolve
from sweeps.counts import (
    count_parameters,
    flops_per_token,
    non_embedding_parameters,
    quantizable_share,
    six_n_flops_per_token,
)
from sweeps.rates import EVAL_COST, RUN_SECONDS, Rates, makespan, modelled_seconds_per_token
from sweeps.runspec import RunSpec, Seeds
from sweeps.shapes import ModelShape
from sweeps.sources import CorpusRef
from sweeps.spec import SweepSpec


class Role(StrEnum):
    """What a cell is in the comparison."""

    BASELINE = "baseline"
    QUANTIZED = "quantized"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One point of the sweep.

    Attributes:
        model: Name of the model.
        recipe: Name of the recipe.
        seeds: The four streams.
        budget: As written.
        horizon: Training tokens planned, whole steps.
        run_id: The run that gives this cell its endpoint.
        role: Baseline or quantized.
        is_baseline_added: Whether the plan added it rather than the spec asked for it.
    """

    model: str
    recipe: str
    seeds: Seeds
    budget: str
    horizon: int
    run_id: str
    role: Role
    is_baseline_added: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """One training and the horizons asked of it.

    Attributes:
        run_id: The spec's identity.
        spec: The run.
        horizons: Training tokens, ascending.
        N: Non-embedding parameters.
        flops_per_token: Forward and backward.
    """

    run_id: str
    spec: RunSpec
    horizons: tuple[int, ...]
    N: int
    flops_per_token: int

    @property
    def tokens(self) -> int:
        """Tokens actually trained: the longest trunk and all branches."""
        return self.tokens_left(())

    @property
    def flops(self) -> int:
        """FLOPs of those tokens."""
        return self.tokens * self.flops_per_token

    def pending(self, done: Collection[int]) -> tuple[int, ...]:
        """Horizons not measured yet."""
        return tuple(horizon for horizon in self.horizons if horizon not in done)

    def tokens_left(self, done: Collection[int]) -> int:
        """Tokens still to train when these horizons are measured.

        The trunk goes on from the last branch point that lies before every pending one.
        """
        pending = self.pending(done)
        if not pending:
            return 0
        branch = self.spec.branch_tokens
        first, last = branch(pending[0]), branch(pending[-1])
        start = max((branch(horizon) for horizon in done if branch(horizon) <= first), default=0)
        return last - start + sum(horizon - branch(horizon) for horizon in pending)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A sweep laid out.

    Attributes:
        sweep_id: Name and content hash.
        spec: The question.
        corpus: The text, pinned.
        cells: In the order of the spec, added baselines at their model.
        runs: In launch order: baselines first, then the rest; within each the longest first, so
            that slots run dry together.
    """

    sweep_id: str
    spec: SweepSpec
    corpus: CorpusRef
    cells: tuple[Cell, ...]
    runs: tuple[PlannedRun, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a plan costs from here on.

    Attributes:
        cells: Points asked for, added baselines included.
        runs: Runs in the plan.
        reused: Runs of which every horizon is measured already.
        tokens: Training tokens left.
        flops: Training FLOPs left.
        eta_seconds: Until the last run ends, all slots at work.
    """

    cells: int
    runs: int
    reused: int
    tokens: int
    flops: int
    eta_seconds: float


def expand(spec: SweepSpec, corpus: CorpusRef) -> Plan:
    """Lay a sweep out on a pinned corpus."""
    recipes = spec.all_recipes()
    added = () if any(recipe.is_bf16 for recipe in recipes) else (BF16_RECIPE,)
    cells: list[Cell] = []
    runs: dict[str, RunSpec] = {}
    horizons: defaultdict[str, set[int]] = defaultdict(set)
    budgets = {shape.name: _horizons(spec, shape) for shape in spec.shapes()}
    for shape, seeds, recipe in product(spec.shapes(), spec.all_seeds(), (*added, *recipes)):
        run = _run_spec(spec, corpus, shape, recipe, seeds)
        run_id = run.run_id
        runs.setdefault(run_id, run)
        for horizon, budget in budgets[shape.name].items():
            horizons[run_id].add(horizon)
            cells.append(
                Cell(
                    model=shape.name,
                    recipe=recipe.name,
                    seeds=seeds,
                    budget=budget.text,
                    horizon=horizon,
                    run_id=run_id,
                    role=Role.BASELINE if recipe.is_bf16 else Role.QUANTIZED,
                    is_baseline_added=recipe in added,
                )
            )
    planned = [_planned(run_id, run, horizons[run_id]) for run_id, run in runs.items()]
    return Plan(
        sweep_id=f"{spec.name}-{_content(planned)}",
        spec=spec,
        corpus=corpus,
        cells=tuple(cells),
        runs=tuple(sorted(planned, key=_launch_rank)),
    )


def price(plan: Plan, done: Mapping[str, Collection[int]], rates: Rates) -> Price:
    """Cost of what a plan still needs.

    Args:
        plan: The sweep.
        done: Measured horizons by run id, of this sweep or any other.
        rates: Speed on this machine.
    """
    left = [(run, done.get(run.run_id, ())) for run in plan.runs]
    seconds = [_seconds_left(run, measured, rates) for run, measured in left]
    return Price(
        cells=len(plan.cells),
        runs=len(plan.runs),
        reused=sum(not run.pending(measured) for run, measured in left),
        tokens=sum(run.tokens_left(measured) for run, measured in left),
        flops=sum(run.tokens_left(measured) * run.flops_per_token for run, measured in left),
        eta_seconds=makespan(seconds, rates.slots),
    )


def plan_json(plan: Plan, cost: Price) -> dict[str, Any]:
    """Plan and price as plain values: the totals at the top, then models, cells and runs."""
    vocab_size = plan.spec.tokenizer_ref().vocab_size
    context = plan.spec.train.context
    return {
        "sweep_id": plan.sweep_id,
        **asdict(cost),
        "warnings": list(plan.spec.warnings()),
        "corpus": asdict(plan.corpus),
        "models": [
            {
                **asdict(shape),
                "N": non_embedding_parameters(shape),
                "parameters": asdict(count_parameters(shape, vocab_size)),
                "flops_per_token": flops_per_token(shape, vocab_size=vocab_size, context=context),
                "six_n_flops_per_token": six_n_flops_per_token(shape),
                "quantizable_share": quantizable_share(
                    shape, vocab_size=vocab_size, context=context
                ),
            }
            for shape in plan.spec.shapes()
        ],
        "planned_cells": [asdict(cell) for cell in plan.cells],
        "planned_runs": [
            {
                "run_id": run.run_id,
                "label": run.spec.label,
                "horizons": list(run.horizons),
                "N": run.N,
                "flops_per_token": run.flops_per_token,
                "tokens": run.tokens,
                "flops": run.flops,
            }
            for run in plan.runs
        ],
    }


def _horizons(spec: SweepSpec, shape: ModelShape) -> dict[int, Budget]:
    """Budgets by their tokens for one model; of two that meet, the first written counts."""
    vocab_size = spec.tokenizer_ref().vocab_size
    flops = flops_per_token(shape, vocab_size=vocab_size, context=spec.train.context)
    N = non_embedding_parameters(shape)
    found: dict[int, Budget] = {}
    for budget in spec.budgets:
        tokens = resolve(budget, N=N, flops_per_token=flops, batch_tokens=spec.train.batch)
        found.setdefault(tokens, budget)
    return found


def _run_spec(
    spec: SweepSpec, corpus: CorpusRef, shape: ModelShape, recipe: Recipe, seeds: Seeds
) -> RunSpec:
    return RunSpec(
        model=shape,
        recipe=recipe,
        corpus=corpus,
        tokenizer=spec.tokenizer_ref(),
        training=spec.train.training(shape),
        evaluation=spec.eval.evaluation(),
        seeds=seeds,
        diagnostics=spec.run_diagnostics(),
    )


def _planned(run_id: str, run: RunSpec, horizons: Collection[int]) -> PlannedRun:
    return PlannedRun(
        run_id=run_id,
        spec=run,
        horizons=tuple(sorted(horizons)),
        N=non_embedding_parameters(run.model),
        flops_per_token=flops_per_token(
            run.model, vocab_size=run.tokenizer.vocab_size, context=run.training.context
        ),
    )


def _content(runs: Collection[PlannedRun]) -> str:
    lines = sorted(f"{run.run_id} {run.horizons}" for run in runs)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:8]


def _launch_rank(run: PlannedRun) -> tuple[bool, float, str]:
    seconds = run.tokens * modelled_seconds_per_token(run.spec)
    return not run.spec.recipe.is_bf16, -seconds, run.run_id


def _seconds_left(run: PlannedRun, done: Collection[int], rates: Rates) -> float:
    pending = len(run.pending(done))
    if not pending:
        return 0.0
    evaluated = pending * run.spec.evaluation.tokens * EVAL_COST
    return RUN_SECONDS + (run.tokens_left(done) + evaluated) / rates.tokens_per_second(run.spec)
