"""Layout: which endpoints exist or are planned, and what one more would cost.

    asked   horizons of each run (model, arm, seed, training), measured or not
    cost    FLOPs of the tokens that the run still trains for a further horizon: of a WSD run the
            trunk goes on and one cooldown is added, a cosine starts anew

A candidate is carried out by the first seed of its cell that lacks an arm, else by the first seed
of the sweep that the cell lacks, else by the next number.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count

from sweeps.design.candidates import Candidate
from sweeps.design.information import Point
from sweeps.measured import measured
from sweeps.plan import PlannedRun
from sweeps.records import Outcome, RunRecord
from sweeps.runspec import RunSpec
from sweeps.shapes import ModelShape
from sweeps.training import Training

RunKey = tuple[ModelShape, int, int, Training]
"""Model without its name, arm, seed and training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A candidate with the runs that it takes.

    Attributes:
        candidate: The cell.
        seed: Of its runs.
        arms: Those that are missing.
        flops: Of all of them.
    """

    candidate: Candidate
    seed: int
    arms: tuple[int, ...]
    flops: float

    @property
    def points(self) -> tuple[Point, ...]:
        """The endpoints that it adds."""
        return tuple(Point(arm, self.seed, float(self.candidate.D)) for arm in self.arms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Endpoints by N, and the horizons asked of each run.

    Attributes:
        arms: How many each cell needs.
        seeds: Of the sweep, in order.
        template: Any run of the sweep; what is asked of a new model follows it.
        points: Endpoints by N.
        asked: Horizons by run.
    """

    arms: int
    seeds: tuple[int, ...]
    template: RunSpec
    points: Mapping[float, frozenset[Point]] = field(default_factory=dict)
    asked: Mapping[RunKey, tuple[int, ...]] = field(default_factory=dict)

    @property
    def cells(self) -> frozenset[tuple[float, float]]:
        """(N, D) at which every arm has an endpoint."""
        return frozenset(
            (N, D)
            for N, points in self.points.items()
            for D in {point.D for point in points}
            if {point.arm for point in points if point.D == D} == set(range(self.arms))
        )

    def step(self, candidate: Candidate, *, is_alone: bool = False) -> Step:
        """What carrying a candidate out takes.

        Args:
            candidate: The cell.
            is_alone: Whether its runs have a seed that no other budget of the model has.
        """
        of_model = self.points.get(float(candidate.N), frozenset())
        has: dict[int, set[int]] = {}
        for point in of_model:
            if is_alone or point.D == candidate.D:
                has.setdefault(point.seed, set()).add(point.arm)
        short = [] if is_alone else sorted(seed for seed in has if len(has[seed]) < self.arms)
        unused = (seed for seed in chain(self.seeds, count(max(self.seeds) + 1)) if seed not in has)
        seed = short[0] if short else next(unused)
        arms = tuple(arm for arm in range(self.arms) if arm not in has.get(seed, set()))
        flops = sum(self._tokens(candidate, arm, seed) for arm in arms) * candidate.flops_per_token
        return Step(candidate=candidate, seed=seed, arms=arms, flops=float(flops))

    def after(self, step: Step) -> "Layout":
        """With its endpoints added."""
        one, points = step.candidate, dict(self.points)
        points[float(one.N)] = points.get(float(one.N), frozenset()) | frozenset(step.points)
        asked = dict(self.asked)
        for arm in step.arms:
            key = _key(one.shape, arm, step.seed, one.training)
            asked[key] = (*asked.get(key, ()), one.D)
        return replace(self, points=points, asked=asked)

    def _tokens(self, one: Candidate, arm: int, seed: int) -> int:
        done = self.asked.get(_key(one.shape, arm, seed, one.training), ())
        run = PlannedRun(
            run_id="",
            spec=replace(self.template, model=one.shape, training=one.training),
            horizons=(*done, one.D),
            N=one.N,
            flops_per_token=one.flops_per_token,
        )
        return run.tokens_left(done)


def layouts(
    records: Sequence[RunRecord], arms: Sequence[Iterable[str]], seeds: Sequence[int]
) -> tuple[Layout, Layout]:
    """What is measured, and what is measured or still to come.

    Args:
        records: Runs of a sweep; at least one.
        arms: Names of the recipes of each arm, BF16 first.
        seeds: Of the sweep, in order.
    """
    number = {name: index for index, names in enumerate(arms) for name in names}
    done = planned = Layout(arms=len(arms), seeds=tuple(seeds), template=records[0].spec)
    for run in records:
        arm = number.get(run.spec.recipe.name)
        if arm is None:
            continue
        for tokens in sorted(set(run.horizons)):
            is_there = measured(run, tokens) is not None
            if is_there:
                done = _with(done, run, arm, tokens)
            if is_there or run.outcome is Outcome.WAITING:
                planned = _with(planned, run, arm, tokens)
    return done, planned


def _with(layout: Layout, run: RunRecord, arm: int, tokens: int) -> Layout:
    seed, N = run.spec.seeds.init, float(run.N)
    points = {**layout.points, N: layout.points.get(N, frozenset()) | {Point(arm, seed, tokens)}}
    key = _key(run.spec.model, arm, seed, run.spec.training)
    asked = {**layout.asked, key: (*layout.asked.get(key, ()), tokens)}
    return replace(layout, points=points, asked=asked)


def _key(shape: ModelShape, arm: int, seed: int, training: Training) -> RunKey:
    return replace(shape, name=""), arm, seed, training
