"""States of a run, the moves between them, and the reasons for a move: one table each.

    QUEUED → RUNNING → SUCCEEDED | DIVERGED | FAILED | CANCELLED
    RUNNING → QUEUED                another attempt (worker lost, lease expired, interrupted)
    QUEUED → CANCELLED              a person asked
    SUCCEEDED → QUEUED              only when a horizon is added
    FAILED, CANCELLED → QUEUED      only by a retry that a person asked for

DIVERGED is a result and never retried; FAILED is an accident. The reason stands beside the state:
REASON_STATE says where each reason leads, RETRY_BUDGET how often it may lead back to QUEUED.
"""

from enum import StrEnum


class State(StrEnum):
    """Where a run stands."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    DIVERGED = "diverged"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """Whether the run is over unless a person asks for more."""
        return self not in (State.QUEUED, State.RUNNING)


class Reason(StrEnum):
    """Why a run is in its state. Closed: every move names one."""

    PLANNED = "planned"
    HORIZON_ADDED = "horizon_added"
    RETRY_ASKED = "retry_asked"
    LAUNCHED = "launched"
    COMPLETED = "completed"
    NON_FINITE = "non_finite"  # loss or gradients
    LOSS_OUT_OF_BOUNDS = "loss_out_of_bounds"  # finite, and beyond what the run's health allows
    CANCELLED_BY_USER = "cancelled_by_user"
    INTERRUPTED = "interrupted"  # the scheduler was told to stop; the run was checkpointed
    WORKER_LOST = "worker_lost"  # the process is gone
    LEASE_EXPIRED = "lease_expired"  # no word for too long
    OUT_OF_MEMORY = "out_of_memory"
    DISK_FULL = "disk_full"
    INVALID_RUN = "invalid_run"  # the spec or its data cannot be trained here
    PREFLIGHT_FAILED = "preflight_failed"  # the device does not compute as the numerics say
    TRAINING_ERROR = "training_error"  # an exception nobody foresaw


MOVES: frozenset[tuple[State, State]] = frozenset(
    {
        (State.QUEUED, State.RUNNING),
        (State.QUEUED, State.CANCELLED),
        (State.RUNNING, State.QUEUED),
        (State.RUNNING, State.SUCCEEDED),
        (State.RUNNING, State.DIVERGED),
        (State.RUNNING, State.FAILED),
        (State.RUNNING, State.CANCELLED),
        (State.SUCCEEDED, State.QUEUED),
        (State.FAILED, State.QUEUED),
        (State.CANCELLED, State.QUEUED),
    }
)

REASON_STATE: dict[Reason, State] = {
    Reason.PLANNED: State.QUEUED,
    Reason.HORIZON_ADDED: State.QUEUED,
    Reason.RETRY_ASKED: State.QUEUED,
    Reason.LAUNCHED: State.RUNNING,
    Reason.COMPLETED: State.SUCCEEDED,
    Reason.NON_FINITE: State.DIVERGED,
    Reason.LOSS_OUT_OF_BOUNDS: State.DIVERGED,
    Reason.CANCELLED_BY_USER: State.CANCELLED,
    Reason.INTERRUPTED: State.QUEUED,
    Reason.WORKER_LOST: State.QUEUED,
    Reason.LEASE_EXPIRED: State.QUEUED,
    Reason.OUT_OF_MEMORY: State.FAILED,
    Reason.DISK_FULL: State.FAILED,
    Reason.INVALID_RUN: State.FAILED,
    Reason.PREFLIGHT_FAILED: State.FAILED,
    Reason.TRAINING_ERROR: State.FAILED,
}

RETRY_BUDGET: dict[Reason, int | None] = {
    Reason.INTERRUPTED: None,  # as often as it happens: nothing went wrong
    Reason.WORKER_LOST: 3,
    Reason.LEASE_EXPIRED: 3,
}
"""How often in a row a reason may send a run back to QUEUED before it is FAILED instead."""
