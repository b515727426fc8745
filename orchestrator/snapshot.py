"""What the scheduler sees: the runs that wait for a slot and the attempts under way."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from orchestrator.executor import AttemptKey, Ended
from orchestrator.states import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A queued run at a version; a decision about it holds only while the version stands."""

    run_id: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Underway:
    """A running run and its attempt.

    Attributes:
        key: The attempt.
        version: Of the run.
        lease_expires_at: Without a word until then, the attempt is given up.
        stop_by: When waiting for an attempt that was asked to stop ends; None if it was not asked.
        ended: How the attempt ended, if it did and the run has not been moved yet.
        strikes: How many earlier attempts ended for each reason, since a person asked for the run
            or it last measured an endpoint.
        is_wanted: Whether a sweep that is not cancelled asks for the run.
        is_complete: Whether every horizon that such sweeps ask for is measured.
    """

    key: AttemptKey
    version: int
    lease_expires_at: datetime
    stop_by: datetime | None
    ended: Ended | None
    strikes: Mapping[Reason, int]
    is_wanted: bool
    is_complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One consistent view.

    Attributes:
        waiting: Queued runs that lack a measurement some sweep wants, in plan order; only as many
            as were asked for.
        unwanted: Queued runs that no sweep wants anything of any more.
        underway: All running runs.
    """

    waiting: tuple[Waiting, ...] = ()
    unwanted: tuple[Waiting, ...] = ()
    underway: tuple[Underway, ...] = ()
