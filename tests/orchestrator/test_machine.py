"""The store under any sequence of what people, workers and the scheduler do to it."""

import tempfile
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
)

from orchestrator.executor import AttemptKey, Ended, Report
from orchestrator.scheduler import Abandon, Launch, Move, Stop, decide
from orchestrator.states import MOVES, RETRY_BUDGET, Reason, State
from orchestrator.store import Store
from orchestrator.summaries import Event
from sweeps.metrics import TrainEvent
from tests.orchestrator.values import LEASE, START, diagnosis, endpoint, plan_of, step

PLANS = {
    "small": plan_of(recipes=("bf16",)),
    "wider": plan_of(name="wider", recipes=("bf16", "ufp4")),
    "longer": plan_of(name="longer", recipes=("bf16",), budgets=("40960tok", "163840tok")),
}
ENDINGS = [
    Reason.INTERRUPTED,
    Reason.WORKER_LOST,
    Reason.NON_FINITE,
    Reason.LOSS_OUT_OF_BOUNDS,
    Reason.OUT_OF_MEMORY,
    Reason.COMPLETED,
]
ASKS = (Reason.PLANNED, Reason.HORIZON_ADDED, Reason.RETRY_ASKED)
NAMES = st.sampled_from(sorted(PLANS))


class StoreMachine(RuleBasedStateMachine):
    """Two slots, three sweeps that share runs, and a clock that only the rules move."""

    tasks = Bundle("tasks")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        home = Path(self.folder.name)
        self.store = Store(f"sqlite:///{home / 'a.db'}", runs=home / "runs", lease=LEASE)
        self.now = START
        self.submitted: set[str] = set()
        self.events: dict[str, tuple[Event, ...]] = {}
        self.offsets: dict[AttemptKey, int] = {}

    def teardown(self):
        self.store.close()
        self.folder.cleanup()

    @initialize(name=NAMES)
    def begin(self, name):
        self.submit(name)

    @rule(name=NAMES)
    def submit(self, name: str) -> None:
        self.store.submit(PLANS[name], self.now)
        self.submitted.add(name)

    @rule(name=NAMES)
    def cancel(self, name):
        if name in self.submitted:
            self.store.wish_cancel(name, self.now)

    @rule(name=NAMES)
    def retry(self, name):
        if name in self.submitted:
            self.store.retry(name, self.now)

    @rule(seconds=st.integers(1, 90))
    def wait(self, seconds):
        self.now += timedelta(seconds=seconds)

    @rule(target=tasks, slots=st.integers(0, 2), is_draining=st.booleans())
    def turn(self, slots, is_draining):
        launched = None
        snapshot = self.store.snapshot(room=slots)
        decisions = decide(snapshot, self.now, free_slots=slots, is_draining=is_draining)
        for decision in decisions:
            match decision:
                case Launch(run_id=run_id, version=version):
                    launched = self.store.claim(run_id, self.now, version=version) or launched
                case Stop(key=key):
                    self.store.note_stop(key, self.now + timedelta(seconds=20))
                case Move() as move:
                    self.move(move)
                case Abandon(move=move):
                    self.move(move)
        return launched

    def move(self, move: Move) -> None:
        assert self.store.move(
            move.run_id,
            move.source,
            move.target,
            move.reason,
            now=self.now,
            detail=move.detail,
            version=move.version,
        )

    @rule(task=tasks, count=st.integers(0, 3), measures=st.booleans(), repeat=st.booleans())
    def train(self, task, count, measures, repeat):
        if task is None:
            return
        offset = self.offsets.get(task.key, 0)
        tokens = [1024 * (offset + n + 1) for n in range(count)]
        events: list[TrainEvent] = [*map(step, tokens), *map(diagnosis, tokens)]
        if measures:
            events.append(endpoint(task.horizons[0]))
        report = Report(key=task.key, offset=offset, events=tuple(events))
        taken = {self.store.apply(report, self.now) for _ in range(1 + repeat)}
        if "taken" in taken:
            self.offsets[task.key] = offset + len(events)

    @rule(task=consumes(tasks), reason=st.sampled_from(ENDINGS))
    def end(self, task, reason):
        if task is None:
            return
        offset = self.offsets.get(task.key, 0)
        measured = reason is Reason.COMPLETED
        events = tuple(endpoint(horizon) for horizon in task.horizons) if measured else ()
        report = Report(key=task.key, offset=offset, events=events, ended=Ended(reason=reason))
        self.store.apply(report, self.now)

    @invariant()
    def the_store_keeps_its_promises(self):
        self.read_events()
        for events in self.events.values():
            check_moves(events)
            check_budgets(events)
        for name in self.submitted:
            for record in self.store.records(name):
                tokens = [point.tokens for point in record.curve]
                assert tokens == sorted(set(tokens))
                diagnosed = [seen.tokens for seen in self.store.diagnoses(record.run_id)]
                assert diagnosed == sorted(set(diagnosed))
                assert max(diagnosed, default=0) <= max(tokens, default=0)

    def read_events(self) -> None:
        """Events are only ever added, and their fold is the run's row."""
        for name in self.submitted:
            for run in self.store.runs(name):
                events = self.store.events(run.run_id)
                before = self.events.get(run.run_id, ())
                assert events[: len(before)] == before
                self.events[run.run_id] = events
                assert [event.version for event in events] == list(range(1, len(events) + 1))
                last = events[-1]
                assert (last.version, last.attempt) == (run.version, run.attempt)
                assert (last.reason, last.detail, last.at) == (
                    run.reason,
                    run.detail,
                    run.changed_at,
                )
                assert run.state in (last.target, State.SUCCEEDED)


def check_moves(events: tuple[Event, ...]) -> None:
    """Each move is in the table, and only a person's ask leaves a terminal state."""
    assert events[0].source is None
    for before, event in pairwise(events):
        assert event.source is before.target
        assert (event.source, event.target) in MOVES
        if event.source.is_terminal:
            assert event.reason in (Reason.HORIZON_ADDED, Reason.RETRY_ASKED)


def check_budgets(events: tuple[Event, ...]) -> None:
    """Between two asks or measurements, of which a run has at most three, budgets bound losses."""
    budget = sum(allowed for allowed in RETRY_BUDGET.values() if allowed is not None)
    lost = [event for event in events if RETRY_BUDGET.get(event.reason) is not None]
    asks = [event for event in events if event.reason in ASKS]
    assert len(lost) <= (budget + 1) * (len(asks) + 3)


StoreMachine.TestCase.settings = settings(
    max_examples=12,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
test_any_sequence_keeps_the_promises = pytest.mark.slow(StoreMachine.TestCase)
