"""What every executor must do, trained for real on a corpus of a few sentences."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kernels.presets import PRESETS
from kernels.verdict import Preflight
from orchestrator.executor import AttemptKey, Ended, Executor, Report, Task, Watch
from orchestrator.states import Reason
from sweeps.metrics import Diverged, Endpoint, StepMetrics, TrainEvent
from sweeps.runspec import Evaluation, RunSpec, Seeds
from sweeps.shapes import ModelShape
from sweeps.sources import TokenizerRef
from sweeps.training import Training
from tests.corpora import pinned_text

BATCH = 32
SHORT = 8 * BATCH
LONG = 2_000_000 * BATCH
TICK = 0.01
"""Seconds between two turns, which leave the interpreter to threads that train in it."""
PATIENCE = 60.0
"""Seconds until a test gives up; nothing waits this long when all is well."""


class Bench:
    """Makes tasks in a folder and polls as the scheduler does: events are stored as they come."""

    def __init__(self, executor: Executor, folder: Path, text: Path) -> None:
        self.executor = executor
        self.folder = folder
        self.text = text
        self.corpus = pinned_text(text)
        self.stored: dict[AttemptKey, list[TrainEvent]] = {}
        self.endings: dict[AttemptKey, Ended] = {}
        self._tick = threading.Event()

    @classmethod
    def over_text(cls, executor: Executor, folder: Path) -> "Bench":
        """With a corpus that no other test has, some of it in the held-out set."""
        text = folder / "text"
        text.mkdir()
        for number in range(12):
            words = (f"{folder.name} {number} times {k} is {number * k}." for k in range(40))
            (text / f"{number:02d}.txt").write_text(" ".join(words))
        return cls(executor, folder, text)

    def task(
        self,
        seed: int = 0,
        *,
        horizons: tuple[int, ...] = (SHORT,),
        attempt: int = 1,
        learning_rate: float = 0.01,
        recipe: str = "bf16",
    ) -> Task:
        """A run of a few thousand parameters."""
        spec = RunSpec(
            model=ModelShape(name="tiny", num_layers=1, width=16, num_heads=1, mlp_width=16),
            recipe=PRESETS[recipe],
            corpus=self.corpus,
            tokenizer=TokenizerRef(),
            training=Training(
                context=16,
                batch_tokens=BATCH,
                learning_rate=learning_rate,
                warmup_tokens=2 * BATCH,
                gradient_clip=1.0 if learning_rate < 1 else 1e30,
                max_epochs=LONG,
            ),
            evaluation=Evaluation(held_out=0.3, tokens=64),
            seeds=Seeds(init=seed, data=seed, sr=seed, rht=seed),
        )
        folder = self.folder / "runs" / spec.run_id
        return Task(spec=spec, horizons=horizons, attempt=attempt, folder=folder)

    def launch(self, task: Task) -> AttemptKey:
        """Start an attempt and watch it."""
        self.executor.launch(task)
        self.stored[task.key] = []
        return task.key

    def watches(self) -> list[Watch]:
        """The attempts whose ending is not stored."""
        return [
            Watch(key=key, offset=len(events))
            for key, events in self.stored.items()
            if key not in self.endings
        ]

    def poll(self) -> Sequence[Report]:
        """One turn: store what is new."""
        reports = self.executor.poll(self.watches())
        for report in reports:
            assert report.offset == len(self.stored[report.key]), "a gap or a repetition"
            self.stored[report.key].extend(report.events)
            if report.ended is not None:
                self.endings[report.key] = report.ended
        return reports

    def until(self, condition: Callable[[], object]) -> None:
        """Take turns until something is so."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"stored so far: {self.stored}, {self.endings}"
            self.poll()
            self._tick.wait(TICK)

    def answered(self, *watches: Watch) -> Sequence[Report]:
        """Ask about these attempts until all have answered, which the first time need not bring."""
        deadline = time.monotonic() + PATIENCE
        while len(reports := self.executor.poll(watches)) < len(watches):
            assert time.monotonic() < deadline
            self._tick.wait(TICK)
        self._tick.wait(TICK)
        return reports

    def ending(self, key: AttemptKey) -> Ended:
        """Take turns until the attempt has ended."""
        self.until(lambda: key in self.endings)
        return self.endings[key]

    def points(self, key: AttemptKey) -> list[tuple[int | None, int, float]]:
        """Path, tokens and loss of every stored step."""
        return [
            (event.horizon, event.tokens, event.loss)
            for event in self.stored[key]
            if isinstance(event, StepMetrics)
        ]


class ExecutorContract:
    """Subclasses give an `executor` with two slots and nothing in it."""

    @pytest.fixture
    def bench(self, executor: Executor, tmp_path: Path) -> Bench:
        return Bench.over_text(executor, tmp_path)

    def test_a_run_reports_its_preflight_its_steps_then_its_endpoint_and_is_completed(self, bench):
        key = bench.launch(bench.task())
        assert bench.ending(key).reason is Reason.COMPLETED
        first, *steps, last = bench.stored[key]
        assert isinstance(first, Preflight)
        assert first.passed, first.failure
        assert isinstance(last, Endpoint)
        assert last.tokens == SHORT
        assert all(isinstance(event, StepMetrics) for event in steps)
        tokens = [event.tokens for event in steps]
        assert tokens == sorted(tokens)
        assert tokens[0] == BATCH
        assert tokens[-1] == SHORT

    def test_events_are_heard_again_by_a_reader_that_did_not_store_them(self, bench):
        key = bench.launch(bench.task())
        heard: list[Report] = []
        while not heard or heard[-1].ended is None:
            heard += bench.answered(Watch(key=key, offset=0))
        (again,) = bench.answered(Watch(key=key, offset=0))
        assert again == heard[-1]
        (tail,) = bench.answered(Watch(key=key, offset=3))
        assert tail.events == again.events[3:]
        assert tail.offset == 3
        assert tail.ended == again.ended

    def test_two_runs_train_at_the_same_time(self, bench):
        first = bench.launch(bench.task(seed=1, horizons=(LONG,)))
        second = bench.launch(bench.task(seed=2, horizons=(LONG,)))
        bench.until(lambda: bench.points(first) and bench.points(second))
        assert not bench.endings
        assert bench.points(first)[0] != bench.points(second)[0]
        bench.executor.cancel(first)
        assert bench.ending(first).reason is Reason.INTERRUPTED
        assert second not in bench.endings

    def test_slots_are_taken_and_given_back(self, bench):
        free = bench.executor.free_slots()
        assert free == 2
        key = bench.launch(bench.task(horizons=(LONG,)))
        bench.until(lambda: bench.points(key))
        assert bench.executor.free_slots() == 1
        bench.executor.cancel(key)
        bench.ending(key)
        bench.until(lambda: bench.executor.free_slots() == 2)

    def test_a_cancelled_run_goes_on_from_its_checkpoint_in_the_next_attempt(self, bench):
        whole = bench.launch(bench.task(seed=3, horizons=(SHORT, 200 * BATCH)))
        assert bench.ending(whole).reason is Reason.COMPLETED
        expected = {point[:2]: point[2] for point in bench.points(whole)}
        endpoints = [event for event in bench.stored[whole] if isinstance(event, Endpoint)]

        bench.folder = bench.folder / "again"
        bench.endings.clear()
        bench.stored.clear()
        task = replace(bench.task(seed=3, horizons=(SHORT, 200 * BATCH)), attempt=2)
        first = bench.launch(task)
        bench.until(lambda: len(bench.points(first)) > 2)
        bench.executor.cancel(first)
        bench.executor.cancel(first)
        if bench.ending(first).reason is Reason.COMPLETED:
            pytest.fail("the run was over before it could be cancelled; make it longer")
        assert bench.endings[first].reason is Reason.INTERRUPTED

        second = bench.launch(replace(task, attempt=3))
        assert bench.ending(second).reason is Reason.COMPLETED
        resumed_at = bench.points(second)[0][1]
        assert resumed_at > BATCH, "the second attempt began at the beginning"
        scheduled = [point for point in bench.points(second) if point[:2] in expected]
        assert scheduled
        assert all(expected[point[:2]] == point[2] for point in scheduled)
        told = [event for event in bench.stored[second] if isinstance(event, Endpoint)]
        assert told == endpoints, "what the first attempt measured is told again, the rest measured"

    def test_an_unknown_attempt_is_lost_and_cancelling_it_is_harmless(self, bench):
        nobody = AttemptKey(run_id="0123456789abcdef", attempt=7)
        bench.executor.cancel(nobody)
        (report,) = bench.executor.poll([Watch(key=nobody, offset=5)])
        assert (report.key, report.offset, report.events) == (nobody, 5, ())
        assert report.ended is not None
        assert report.ended.reason is Reason.WORKER_LOST

    def test_a_run_that_leaves_the_finite_numbers_has_that_as_its_result(self, bench):
        key = bench.launch(bench.task(learning_rate=1e30, horizons=(100 * BATCH,)))
        ending = bench.ending(key)
        assert ending.reason is Reason.NON_FINITE
        last = bench.stored[key][-1]
        assert isinstance(last, Diverged)
        assert ending.detail == last.detail

    def test_a_run_whose_corpus_has_changed_is_invalid_and_its_log_says_why(self, bench):
        task = bench.task()
        (bench.text / "00.txt").write_text("other words than those that were planned")
        ending = bench.ending(bench.launch(task))
        assert ending.reason is Reason.INVALID_RUN
        assert "has changed" in ending.detail
        assert "\n" not in ending.detail
        log = (task.folder / "attempt-1.log").read_text()
        assert "Traceback" in log
        assert "has changed" in log

    def test_one_failing_run_leaves_the_other_alone(self, bench):
        good = bench.launch(bench.task(seed=1, horizons=(LONG,)))
        bench.until(lambda: bench.points(good))
        bad = bench.launch(bench.task(seed=2, horizons=(BATCH + 1,)))
        assert bench.ending(bad).reason is Reason.INVALID_RUN
        seen = len(bench.stored[good])
        bench.until(lambda: len(bench.stored[good]) > seen)
        bench.executor.cancel(good)
        assert bench.ending(good).reason is Reason.INTERRUPTED
