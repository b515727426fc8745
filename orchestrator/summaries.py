"""What people see of sweeps, runs and kept fits: frozen values for tables, JSON and progress.

A run counts as succeeded for a sweep as soon as every horizon that this sweep asks of it is
measured, whatever another sweep still asks of the same run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from kernels.verdict import Preflight
from orchestrator.states import Reason, State
from sweeps.runspec import RunSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSummary:
    """One sweep in a list.

    Attributes:
        sweep_id: Identity.
        name: What the person called it.
        created_at: First submitted, UTC.
        cancelled_at: When its cancellation was asked, None if it was not.
        runs: How many runs are in each state as this sweep sees them; states without runs are 0.
    """

    sweep_id: str
    name: str
    created_at: datetime
    cancelled_at: datetime | None
    runs: Mapping[State, int]

    @property
    def num_runs(self) -> int:
        """All runs of the sweep."""
        return sum(self.runs.values())

    @property
    def is_over(self) -> bool:
        """Whether nothing of it waits or runs."""
        return all(state.is_terminal for state, count in self.runs.items() if count)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One run of a sweep in a list.

    Attributes:
        run_id: Identity.
        spec: What is trained, under this sweep's names.
        N: Non-embedding parameters.
        flops_per_token: Forward and backward.
        horizons: Token budgets that the sweep asks for, ascending.
        measured: Those of them that have an endpoint.
        state: As this sweep sees it.
        reason: Why the run is in its own state.
        detail: One sentence about it, or empty.
        version: Moves made so far.
        attempt: Attempts made so far.
        preflight: The newest one of its attempts, None if there was none yet.
        created_at: First planned, UTC.
        changed_at: Last moved, UTC.
    """

    run_id: str
    spec: RunSpec
    N: int
    flops_per_token: float
    horizons: tuple[int, ...]
    measured: tuple[int, ...]
    state: State
    reason: Reason
    detail: str
    version: int
    attempt: int
    preflight: Preflight | None
    created_at: datetime
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One move of a run; `source` is None for its first, `attempt` the latest at that time."""

    run_id: str
    version: int
    source: State | None
    target: State
    reason: Reason
    detail: str
    attempt: int
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningNow:
    """A run under way: its newest training metrics, None before the first."""

    run_id: str
    label: str
    horizon: int | None
    tokens: int
    total_tokens: int
    loss: float | None
    tokens_per_second: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a sweep stands.

    Attributes:
        cells_done: Endpoints measured, and endpoints that will not come because their run ended.
        cells_total: Endpoints asked for.
        runs: How many runs are in each state.
        running: The runs under way, in plan order.
        tokens_done: Training tokens behind us, on trunks and branches.
        tokens_total: Training tokens of all runs that have not ended without success.
        eta_seconds: Estimate from the measured FLOP/s; None before there is one.
    """

    cells_done: int
    cells_total: int
    runs: Mapping[State, int]
    running: tuple[RunningNow, ...]
    tokens_done: int
    tokens_total: int
    eta_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FitSummary:
    """One kept fit in a list.

    Attributes:
        fit_id: Identity of what was asked: points, label, settings, method.
        label: What was fitted.
        source: Id of the sweep, or name of the file, that it was first fitted from.
        law: Name of the fitted law, or `none`.
        status: What may be read off.
        input_hash: Of the rows used.
        method_version: Of the code that fitted it.
        created_at: First kept, UTC.
    """

    fit_id: str
    label: str
    source: str
    law: str
    status: str
    input_hash: str
    method_version: int
    created_at: datetime


def as_seen(state: State, *, horizons: int, measured: int) -> State:
    """State of a run for a sweep that asks for so many horizons, so many of them measured."""
    return State.SUCCEEDED if measured == horizons else state
