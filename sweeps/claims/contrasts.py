"""Contrasts: the linear combination of a claim in each model and seed, from losses of equal seeds.

    x_ms = sum_r w_r L_rms - (sum_r w_r) L_bf16,ms      nats per token, of model m and seed s

at one budget, or its mean over budgets of m. Runs of one seed share initial weights and the order
of the data, so that what they have in common cancels; where the weights sum to zero, BF16 does too.
A seed counts only where every loss of the combination was measured.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kernels.recipes import BF16_RECIPE
from sweeps.claims.statement import Statement
from sweeps.errors import InputError
from sweeps.gaps.pair import absence, baseline_id
from sweeps.gaps.paired import Missing
from sweeps.measured import distinct, measured
from sweeps.records import RunRecord
from sweeps.runspec import Seeds

BF16 = BF16_RECIPE.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """An endpoint that a claim needs and that has no measured loss.

    Attributes:
        model: Its model.
        recipe: Its recipe.
        seeds: Its four streams.
        tokens: D.
        reason: Why; `NO_BASELINE` of a BF16 run, `UNPLANNED` of any other that nobody asked for.
        detail: What the run said of it; else empty.
    """

    model: str
    recipe: str
    seeds: Seeds
    tokens: int
    reason: str
    detail: str


UNPLANNED = "not planned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stratum:
    """One model at one budget or at the mean of several.

    Attributes:
        model: Its name.
        N: Its non-embedding parameters.
        tokens: D of the budgets, ascending.
        flops: Of one run up to the last of them.
        seeds: Those that count.
        values: The contrast of each of them, nats per token.
        absent: What the other seeds lack.
    """

    model: str
    N: int
    tokens: tuple[int, ...]
    flops: float
    seeds: tuple[Seeds, ...]
    values: tuple[float, ...]
    absent: tuple[Absent, ...]

    @property
    def has_diverged(self) -> bool:
        """Whether a run of it diverged, so that the other seeds are survivors."""
        return any(one.reason == Missing.DIVERGED for one in self.absent)


class Board:
    """The losses of one sweep by model, seeds, recipe and tokens."""

    def __init__(self, records: Iterable[RunRecord]) -> None:
        """Lay the records out.

        Raises:
            InputError: If two different trainings share model, seeds, recipe and tokens, or two
                recipes a name.
        """
        self.runs: dict[tuple[str, Seeds, str, int], RunRecord] = {}
        self.sizes: dict[str, int] = {}
        self.rates: dict[str, float] = {}
        self.tokens: defaultdict[str, set[int]] = defaultdict(set)
        self._seeds: defaultdict[str, dict[Seeds, None]] = defaultdict(dict)
        self._trainings: dict[tuple[str, Seeds, str, int], str] = {}
        for run in distinct(records):
            self._take(run)

    def _take(self, run: RunRecord) -> None:
        spec, training = run.spec, baseline_id(run.spec)
        model, recipe = spec.model.name, BF16 if spec.recipe.is_bf16 else spec.recipe.name
        self.sizes.setdefault(model, run.N)
        self.rates.setdefault(model, run.flops_per_token)
        self._seeds[model].setdefault(spec.seeds)
        for tokens in run.horizons:
            key = (model, spec.seeds, recipe, tokens)
            if self._trainings.setdefault(key, training) != training:
                raise InputError(
                    f"claims are judged within one sweep, and {spec.label} at {tokens:,} tokens "
                    "was trained in two different ways"
                )
            self.tokens[model].add(tokens)
            if key not in self.runs or run.run_id == training:  # BF16 before BF16 with exemptions
                self.runs[key] = run

    def models(self) -> tuple[str, ...]:
        """Smallest first."""
        return tuple(sorted(self.sizes, key=lambda model: (self.sizes[model], model)))

    def seeds(self, model: str) -> tuple[Seeds, ...]:
        """Those of any run of a model, in the order of the records."""
        return tuple(self._seeds[model])

    def stratum(self, statement: Statement, model: str, tokens: Sequence[int]) -> Stratum:
        """The contrast of a statement in one model, mean over these budgets."""
        weights = dict(statement.weights)
        if statement.bf16_weight:
            weights[BF16] = statement.bf16_weight
        seeds, values, absent = [], [], []
        for one in self.seeds(model):
            lacks = [
                lacking
                for recipe in weights
                for budget in tokens
                if (lacking := self._lacking(model, one, recipe, budget)) is not None
            ]
            if lacks:
                absent += lacks
            else:
                seeds.append(one)
                values.append(self._contrast(weights, model, one, tokens))
        return Stratum(
            model=model,
            N=self.sizes[model],
            tokens=tuple(tokens),
            flops=max(tokens) * self.rates[model],
            seeds=tuple(seeds),
            values=tuple(values),
            absent=tuple(absent),
        )

    def _contrast(
        self, weights: Mapping[str, float], model: str, seeds: Seeds, tokens: Sequence[int]
    ) -> float:
        losses = {
            recipe: [
                point.loss
                for budget in tokens
                if (point := measured(self.runs[model, seeds, recipe, budget], budget)) is not None
            ]
            for recipe in weights
        }
        return sum(weights[recipe] * sum(own) / len(own) for recipe, own in losses.items())

    def _lacking(self, model: str, seeds: Seeds, recipe: str, tokens: int) -> Absent | None:
        run = self.runs.get((model, seeds, recipe, tokens))
        reason = UNPLANNED if run is None else absence(run, tokens)
        if reason is None:
            return None
        return Absent(
            model=model,
            recipe=recipe,
            seeds=seeds,
            tokens=tokens,
            reason=str(reason),
            detail="" if run is None else run.detail,
        )


def varying_streams(seeds: Iterable[Seeds]) -> tuple[str, ...]:
    """The streams that differ between seeds: what an interval over them is about."""
    every = list(seeds)
    names = ("init", "data", "sr", "rht")
    return tuple(name for name in names if len(Counter(getattr(one, name) for one in every)) > 1)


def next_seeds(board: Board, number: int) -> tuple[Seeds, ...]:
    """So many seeds that no run of the sweep has, counted on from its largest."""
    used = [one for model in board.models() for one in board.seeds(model)]
    first = max((max(one.init, one.data, one.sr, one.rht) for one in used), default=-1) + 1
    return tuple(
        Seeds(init=seed, data=seed, sr=seed, rht=seed) for seed in range(first, first + number)
    )
