import errno
import logging
import threading
from collections.abc import Generator
from pathlib import Path

import pytest
import torch

from kernels.recipes import BF16_RECIPE
from orchestrator.executor import Task
from orchestrator.states import Reason
from sweeps.errors import CheckpointError, InputError, PreflightError, SpecError, StorageError
from sweeps.metrics import Diverged, StepMetrics, TrainEvent
from sweeps.runspec import Evaluation, RunSpec
from sweeps.shapes import ModelShape
from sweeps.sources import CorpusKind, CorpusRef, TokenizerRef
from sweeps.training import Training
from workers.attempt import Attempt, log_path

SPEC = RunSpec(
    model=ModelShape(name="tiny", num_layers=1, width=16, num_heads=1, mlp_width=16),
    recipe=BF16_RECIPE,
    corpus=CorpusRef(
        name="none", kind=CorpusKind.STDLIB, path="", fingerprint="", num_bytes=0, num_documents=0
    ),
    tokenizer=TokenizerRef(),
    training=Training(context=8, batch_tokens=8, learning_rate=0.01, warmup_tokens=0),
    evaluation=Evaluation(held_out=0.1, tokens=8),
)

Events = Generator[TrainEvent, None, None]


def task_in(folder: Path, attempt: int = 1) -> Task:
    return Task(spec=SPEC, horizons=(64,), attempt=attempt, folder=folder)


def step(number: int) -> StepMetrics:
    return StepMetrics(
        horizon=None,
        step=number,
        tokens=8 * number,
        loss=1.0,
        learning_rate=0.01,
        gradient_norm=1.0,
        tokens_per_second=1.0,
        seconds=1.0,
    )


def three_steps(task: Task) -> Events:
    for number in (1, 2, 3):
        yield step(number)


def test_a_training_that_returns_is_completed_and_its_events_are_in_order(tmp_path):
    attempt = Attempt(task_in(tmp_path), three_steps)
    attempt.run()
    report = attempt.report(0)
    assert report.key == task_in(tmp_path).key
    assert report.events == (step(1), step(2), step(3))
    assert report.ended is not None
    assert report.ended.reason is Reason.COMPLETED


def test_a_report_starts_at_the_offset_and_may_be_asked_again(tmp_path):
    attempt = Attempt(task_in(tmp_path), three_steps)
    attempt.run()
    assert attempt.report(0) == attempt.report(0)
    assert attempt.report(2).events == (step(3),)
    assert attempt.report(2).offset == 2
    assert attempt.report(2) == attempt.report(2)
    assert attempt.report(3).events == ()


def test_events_that_the_reader_holds_are_dropped(tmp_path):
    attempt = Attempt(task_in(tmp_path), three_steps)
    attempt.run()
    attempt.report(2)
    report = attempt.report(0)
    assert (report.offset, report.events) == (2, (step(3),))


def test_a_running_attempt_reports_without_an_ending(tmp_path):
    reports = []

    def start(task: Task) -> Events:
        yield step(1)
        reports.append(attempt.report(0))

    attempt = Attempt(task_in(tmp_path), start)
    attempt.run()
    assert [(report.events, report.ended) for report in reports] == [((step(1),), None)]


def test_stop_closes_the_generator_at_the_next_event(tmp_path):
    closed = threading.Event()

    def endless(task: Task) -> Events:
        try:
            while True:
                yield step(1)
        finally:
            closed.set()

    attempt = Attempt(task_in(tmp_path), endless)
    attempt.stop()
    attempt.run()
    report = attempt.report(0)
    assert closed.is_set()
    assert report.events == (step(1),)
    assert report.ended is not None
    assert report.ended.reason is Reason.INTERRUPTED


def test_an_error_while_leaving_is_the_ending(tmp_path):
    def full_disk(task: Task) -> Events:
        try:
            while True:
                yield step(1)
        finally:
            raise StorageError("no space for the checkpoint")

    attempt = Attempt(task_in(tmp_path), full_disk)
    attempt.stop()
    attempt.run()
    ended = attempt.report(0).ended
    assert ended is not None
    assert (ended.reason, ended.detail) == (Reason.DISK_FULL, "no space for the checkpoint")


@pytest.mark.parametrize(
    ("is_finite", "reason"), [(False, Reason.NON_FINITE), (True, Reason.LOSS_OUT_OF_BOUNDS)]
)
def test_divergence_is_the_ending_even_when_a_stop_was_asked(tmp_path, is_finite, reason):
    event = Diverged(horizon=None, step=2, tokens=16, detail="it spiked", is_finite=is_finite)

    def diverging(task: Task) -> Events:
        yield event

    attempt = Attempt(task_in(tmp_path), diverging)
    attempt.stop()
    attempt.run()
    report = attempt.report(0)
    assert report.events == (event,)
    assert report.ended is not None
    assert report.ended.reason is reason
    assert report.ended.detail == "it spiked"


@pytest.mark.parametrize(
    ("error", "reason", "detail"),
    [
        (MemoryError(), Reason.OUT_OF_MEMORY, "MemoryError"),
        (torch.OutOfMemoryError("CUDA out of memory"), Reason.OUT_OF_MEMORY, None),
        (StorageError("no room"), Reason.DISK_FULL, "no room"),
        (OSError(errno.ENOSPC, "No space left on device"), Reason.DISK_FULL, None),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), Reason.DISK_FULL, None),
        (OSError(errno.EIO, "Input/output error"), Reason.TRAINING_ERROR, None),
        (InputError("corpus 'x' is empty"), Reason.INVALID_RUN, "corpus 'x' is empty"),
        (SpecError(), Reason.INVALID_RUN, None),
        (CheckpointError("foreign"), Reason.INVALID_RUN, "foreign"),
        (PreflightError("rht: off by 1"), Reason.PREFLIGHT_FAILED, "rht: off by 1"),
        (ValueError("a\nb"), Reason.TRAINING_ERROR, "ValueError: a"),
        (SystemExit(3), Reason.TRAINING_ERROR, "SystemExit: 3"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_every_exception_has_a_reason_and_one_sentence(tmp_path, error, reason, detail):
    def failing(task: Task) -> Events:
        yield step(1)
        raise error

    attempt = Attempt(task_in(tmp_path), failing)
    attempt.run()
    report = attempt.report(0)
    assert report.events == (step(1),)
    assert report.ended is not None
    assert report.ended.reason is reason
    assert "\n" not in report.ended.detail
    assert detail is None or report.ended.detail == detail


def test_torch_without_memory_is_out_of_memory(tmp_path):
    def greedy(task: Task) -> Events:
        yield step(1)
        torch.empty(10**15)

    attempt = Attempt(task_in(tmp_path), greedy)
    attempt.run()
    ended = attempt.report(0).ended
    assert ended is not None
    assert ended.reason is Reason.OUT_OF_MEMORY


def test_the_log_of_an_attempt_holds_its_own_lines_and_the_traceback(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    handlers = list(logging.getLogger().handlers)

    def failing(task: Task) -> Events:
        logging.getLogger("workers.train").info("reading the corpus")
        other = threading.Thread(target=logging.getLogger("another").error, args=("not mine",))
        other.start()
        other.join()
        yield step(1)
        raise ValueError("the loss has the wrong shape")

    task = task_in(tmp_path / "run", attempt=3)
    Attempt(task, failing).run()
    log = (tmp_path / "run" / "attempt-3.log").read_text()
    assert log_path(task) == tmp_path / "run" / "attempt-3.log"
    assert "reading the corpus" in log
    assert "Traceback" in log
    assert "the loss has the wrong shape" in log
    assert "not mine" not in log
    assert logging.getLogger().handlers == handlers


def test_a_folder_that_cannot_be_made_ends_the_attempt(tmp_path):
    (tmp_path / "run").write_text("a file where the folder should be")
    attempt = Attempt(task_in(tmp_path / "run"), three_steps)
    attempt.run()
    ended = attempt.report(0).ended
    assert ended is not None
    assert ended.reason is Reason.TRAINING_ERROR
    assert "run" in ended.detail
