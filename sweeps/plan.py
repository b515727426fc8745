"""The plan of a sweep: which runs it takes. Pure and deterministic.

    cell   model x recipe x seed x budget: one point that the sweep asks for
    run    all cells of one training that differ in the budget alone: one trunk with a cooldown
           branch a horizon; a cosine, or a rule that looks at the budget, has one for each budget

A BF16 baseline stands beside every cell: same model, seeds and horizon, the recipe alone differs.
Where the spec asks for none, one is added; every recipe shares it.

    tokens trained by a run = longest trunk + every cooldown branch
    sweep id                = name - 8 hex digits of SHA-256 over the runs and their horizons
"""

import hashlib
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

from kernels.recipes import BF16_RECIPE, Recipe
from sweeps.checks import check_ranks
from sweeps.counts import flops_per_token, non_embedding_parameters
from sweeps.errors import SpecError
from sweeps.horizons import distinct
from sweeps.rates import modelled_seconds_per_token
from sweeps.runspec import RunSpec, Seeds
from sweeps.shapes import ModelShape
from sweeps.sources import CorpusRef
from sweeps.spec import SweepSpec
from sweeps.training import Training


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


def expand(spec: SweepSpec, corpus: CorpusRef) -> Plan:
    """Lay a sweep out on a pinned corpus.

    Raises:
        SpecError: If a run cannot be shared out among its GPUs.
    """
    recipes = spec.all_recipes()
    added = () if any(recipe.is_bf16 for recipe in recipes) else (BF16_RECIPE,)
    cells: list[Cell] = []
    runs: dict[str, RunSpec] = {}
    horizons: defaultdict[str, set[int]] = defaultdict(set)
    asked = {shape.name: distinct(spec.horizons(shape)) for shape in spec.shapes()}
    for shape, seeds, recipe in product(spec.shapes(), spec.all_seeds(), (*added, *recipes)):
        ids: dict[Training, str] = {}
        for horizon in asked[shape.name]:
            if horizon.training not in ids:
                run = _run_spec(spec, corpus, shape, recipe, seeds, horizon.training)
                ids[horizon.training] = run.run_id
                runs.setdefault(run.run_id, run)
            run_id = ids[horizon.training]
            horizons[run_id].add(horizon.tokens)
            cells.append(
                Cell(
                    model=shape.name,
                    recipe=recipe.name,
                    seeds=seeds,
                    budget=horizon.budget.text,
                    horizon=horizon.tokens,
                    run_id=run_id,
                    role=Role.BASELINE if recipe.is_bf16 else Role.QUANTIZED,
                    is_baseline_added=recipe in added,
                )
            )
    problems = tuple(check_ranks(runs.values()))
    if problems:
        raise SpecError(*problems)
    planned = [_planned(run_id, run, horizons[run_id]) for run_id, run in runs.items()]
    return Plan(
        sweep_id=f"{spec.name}-{_content(planned)}",
        spec=spec,
        corpus=corpus,
        cells=tuple(cells),
        runs=tuple(sorted(planned, key=_launch_rank)),
    )


def _run_spec(
    spec: SweepSpec,
    corpus: CorpusRef,
    shape: ModelShape,
    recipe: Recipe,
    seeds: Seeds,
    training: Training,
) -> RunSpec:
    return RunSpec(
        model=shape,
        recipe=recipe,
        corpus=corpus,
        tokenizer=spec.tokenizer_ref(),
        training=training,
        evaluation=spec.eval.evaluation(),
        seeds=seeds,
        health=spec.health.health(),
        diagnostics=spec.run_diagnostics(),
        resources=spec.resources.resources(),
        apart=spec.train.apart(training),
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
