"""The price of a plan: what it still costs beside what is measured already.

    seconds of a run = starting it + (tokens left + evaluations) / tokens a second

summed over slots that each take the next run when they are free.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sweeps.plan import Plan, PlannedRun
from sweeps.rates import EVAL_COST, RUN_SECONDS, Rates, makespan


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


def _seconds_left(run: PlannedRun, done: Collection[int], rates: Rates) -> float:
    pending = len(run.pending(done))
    if not pending:
        return 0.0
    evaluated = pending * run.spec.evaluation.tokens * EVAL_COST
    return RUN_SECONDS + (run.tokens_left(done) + evaluated) / rates.tokens_per_second(run.spec)
