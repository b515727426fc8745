"""Sweeps planned for real, whose runs measured losses of a known law."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sweeps.plan import Plan, PlannedRun, expand
from sweeps.records import Outcome, RunRecord
from sweeps.sources import CorpusRef
from sweeps.spec import parse_spec
from tests.sweeps.made_runs import made_endpoint, smooth_loss
from tests.sweeps.specs import CORPUS

TRAIN: dict[str, Any] = {
    "context": 128,
    "batch": "2048tok",
    "warmup": "40ktok",
    "learning_rate": 0.01,
}
GAP = 0.02
LARGE = replace(CORPUS, num_bytes=10**12)


def planned(**changes: Any) -> Plan:
    """The plan of a sweep of three small models at two budgets, with some keys changed."""
    return planned_on(LARGE, **changes)


def planned_on(corpus: CorpusRef, **changes: Any) -> Plan:
    """The same on a corpus."""
    given = {
        "name": "made",
        "models": ["50k", "100k", "200k"],
        "recipes": ["bf16", "ufp4"],
        "budgets": ["10tpp", "40tpp"],
        "train": TRAIN,
    }
    return expand(parse_spec(given | changes), corpus)


def truth(run: PlannedRun, tokens: int) -> float:
    """A Chinchilla surface, and a constant gap of every quantized recipe."""
    return smooth_loss(run.N, tokens) + GAP * run.spec.recipe.is_quantized


def records_of(
    plan: Plan,
    *,
    outcome: Callable[[PlannedRun], Outcome] = lambda _: Outcome.SUCCEEDED,
    loss: Callable[[PlannedRun, int], float] = truth,
) -> list[RunRecord]:
    """The runs of a plan; those that succeeded measured all their horizons."""
    return [
        RunRecord(
            spec=run.spec,
            N=run.N,
            flops_per_token=run.flops_per_token,
            horizons=run.horizons,
            outcome=outcome(run),
            endpoints=tuple(
                made_endpoint(tokens, loss(run, tokens))
                for tokens in run.horizons
                if outcome(run) is Outcome.SUCCEEDED
            ),
        )
        for run in plan.runs
    ]
