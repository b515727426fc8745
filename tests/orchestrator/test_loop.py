"""The loop over a real store, with an executor that works when it is polled."""

from datetime import timedelta
from threading import Event

import pytest

from orchestrator.executor import Ended
from orchestrator.loop import Loop
from orchestrator.scheduler_lock import only_scheduler
from orchestrator.states import Reason, State
from sweeps.errors import ConflictError, InputError, NotFoundError
from tests.orchestrator.bench import ticking_clock
from tests.orchestrator.stepping_executor import hangs, trains
from tests.orchestrator.values import LEASE, START, step


def test_a_sweep_runs_to_its_end(bench):
    plan = bench.submit(seeds=(0, 1, 2))
    bench.run()
    assert bench.counts() == {State.SUCCEEDED: 6}
    assert [key.run_id for key in bench.executor.launched] == [run.run_id for run in plan.runs]
    for record in bench.store.records("small"):
        assert [point.tokens for point in record.endpoints] == list(record.horizons)
        assert len(record.curve) == 2


def test_a_finished_sweep_is_not_run_again(bench):
    bench.submit()
    bench.run()
    launched = list(bench.executor.launched)
    bench.run()
    assert bench.executor.launched == launched


def test_no_more_runs_are_launched_than_there_are_slots(bench):
    bench.submit(seeds=(0, 1, 2))
    bench.executor.slots = 3
    bench.loop.tick()
    assert bench.counts() == {State.RUNNING: 3, State.QUEUED: 3}


def test_only_the_named_sweep_is_launched(bench):
    bench.submit()
    bench.submit(name="other", seeds=(7,))
    bench.run("other")
    assert bench.counts("other") == {State.SUCCEEDED: 2}
    assert bench.counts("small") == {State.QUEUED: 2}


def test_a_sweep_that_does_not_exist_is_refused(bench):
    with pytest.raises(NotFoundError):
        bench.run("nothing")


def test_stopping_drains_and_the_same_command_goes_on(bench):
    bench.submit()
    stop = Event()
    bench.run(stop=stop, on_tick=stop.set)
    assert bench.counts() == {State.QUEUED: 2}
    assert {run.reason for run in bench.store.runs("small")} == {Reason.INTERRUPTED}
    assert set(bench.executor.cancelled) == set(bench.executor.launched)
    bench.run()
    assert bench.counts() == {State.SUCCEEDED: 2}


def test_draining_waits_no_longer_than_the_grace_time(bench):
    plan = bench.submit()
    bench.executor.scripts[plan.runs[0].run_id] = hangs
    stop = Event()
    loop = Loop(bench.store, bench.executor, ticking_clock(bench), bench.settings)
    loop.run_until("small", stop, stop.set)
    assert bench.counts() == {State.QUEUED: 2}
    assert bench.now - START < timedelta(seconds=60)


def test_a_silent_worker_loses_its_run_and_cannot_write_to_it_later(bench):
    plan = bench.submit(recipes=("bf16",))
    run_id = plan.runs[0].run_id
    bench.executor.scripts[run_id] = hangs
    bench.ticks(2)
    bench.now += LEASE + timedelta(seconds=1)
    bench.executor.scripts[run_id] = trains
    first = bench.executor.launched[0]
    bench.loop.tick()
    assert first in bench.executor.cancelled
    assert bench.store.runs("small")[0].reason is Reason.LEASE_EXPIRED
    bench.executor.slots = 3
    bench.ticks(8)
    assert bench.counts() == {State.SUCCEEDED: 1}
    assert bench.store.runs("small")[0].attempt == 2


def test_a_worker_that_keeps_dying_is_given_up_with_its_last_words(bench):
    def dies(task):
        yield step(1024)
        yield Ended(reason=Reason.WORKER_LOST, detail="killed by signal 9")

    plan = bench.submit()
    bench.executor.scripts[plan.runs[0].run_id] = dies
    bench.run()
    assert bench.counts() == {State.SUCCEEDED: 1, State.FAILED: 1}
    (failed,) = [run for run in bench.store.runs("small") if run.state is State.FAILED]
    assert failed.attempt == 4
    assert failed.detail == "given up after 4 attempts: killed by signal 9"


def test_a_diverged_run_ends_nothing_but_itself(bench):
    def diverges(task):
        yield step(1024)
        yield Ended(reason=Reason.NON_FINITE, detail="loss is nan at step 2")

    plan = bench.submit()
    bench.executor.scripts[plan.runs[0].run_id] = diverges
    bench.run()
    assert bench.counts() == {State.SUCCEEDED: 1, State.DIVERGED: 1}


def test_a_scheduler_killed_between_hearing_and_storing_hears_it_again(bench):
    bench.submit(recipes=("bf16",))
    bench.ticks(2)
    bench.executor.poll(bench.store.watches())  # heard by a scheduler that died right after
    bench.loop = bench.new_loop()
    bench.run()
    (record,) = bench.store.records("small")
    assert [point.tokens for point in record.curve] == [1024, 2048]


def test_a_scheduler_killed_between_claim_and_launch_costs_one_attempt(bench):
    plan = bench.submit(recipes=("bf16",))
    bench.store.claim(plan.runs[0].run_id, bench.now)
    bench.run()
    assert bench.counts() == {State.SUCCEEDED: 1}
    assert bench.store.runs("small")[0].attempt == 2


def test_the_next_scheduler_takes_over_live_workers_however_long_it_took(bench):
    bench.submit()
    bench.ticks(2)
    bench.now += timedelta(days=1)
    bench.loop = bench.new_loop()
    bench.run()
    assert {run.attempt for run in bench.store.runs("small")} == {1}


def test_the_next_scheduler_gives_silent_workers_a_whole_lease(bench):
    plan = bench.submit(recipes=("bf16",))
    bench.executor.scripts[plan.runs[0].run_id] = hangs
    bench.ticks(3)
    bench.now += timedelta(days=1)
    stop = Event()
    seen = []

    def look() -> None:
        seen.append(bench.store.runs("small")[0].state)
        if len(seen) == 3:
            stop.set()

    loop = Loop(bench.store, bench.executor, ticking_clock(bench), bench.settings)
    loop.run_until("small", stop, look)
    assert seen == [State.RUNNING] * 3


def test_losing_contact_with_the_executor_is_no_failure(bench, caplog):
    bench.submit()
    bench.ticks(2)
    for _ in range(5):
        bench.now += LEASE * 0.9
        bench.executor.poll_errors.append(ConnectionError("the head is away"))
        bench.loop.tick()
    assert "no contact" in caplog.text
    bench.run()
    assert {run.attempt for run in bench.store.runs("small")} == {1}


def test_a_launch_that_fails_is_tried_again(bench):
    bench.submit()
    bench.executor.launch_errors.append(RuntimeError("no such device"))
    bench.run()
    assert bench.counts() == {State.SUCCEEDED: 2}
    assert sorted(run.attempt for run in bench.store.runs("small")) == [1, 2]


def test_a_launch_that_cannot_work_fails_its_run_alone(bench):
    bench.submit()
    bench.executor.launch_errors.append(InputError("corpus 'x' has changed"))
    bench.run()
    (failed,) = [run for run in bench.store.runs("small") if run.state is State.FAILED]
    assert (failed.reason, failed.detail) == (Reason.INVALID_RUN, "corpus 'x' has changed")


def talks_nonsense(task):
    yield step(1024)
    yield Ended(reason=Reason.LAUNCHED)


def test_a_report_that_cannot_be_stored_fails_its_run_alone(bench):
    plan = bench.submit()
    bench.executor.scripts[plan.runs[0].run_id] = talks_nonsense
    bench.run()
    (failed,) = [run for run in bench.store.runs("small") if run.state is State.FAILED]
    assert failed.reason is Reason.TRAINING_ERROR
    assert "launched does not end an attempt" in failed.detail


def test_a_cancelled_sweep_stops_its_running_runs(bench):
    bench.submit()
    bench.ticks(2)
    bench.store.wish_cancel("small", bench.now)
    bench.ticks(2)
    assert bench.counts() == {State.CANCELLED: 2}


def test_a_cancelled_run_that_hangs_is_let_go_after_the_grace_time(bench):
    plan = bench.submit(recipes=("bf16",))
    bench.executor.scripts[plan.runs[0].run_id] = hangs
    bench.ticks(2)
    bench.store.wish_cancel("small", bench.now)
    bench.ticks(2)
    assert bench.counts() == {State.RUNNING: 1}
    bench.now += timedelta(seconds=21)
    bench.loop.tick()
    assert bench.counts() == {State.CANCELLED: 1}


def test_cancelling_one_of_two_sweeps_lets_shared_runs_train_on(bench):
    bench.submit()
    bench.submit(name="wider", seeds=(0, 1))
    bench.ticks(2)
    bench.store.wish_cancel("wider", bench.now)
    bench.run("small")
    assert bench.executor.cancelled == []
    assert bench.counts("wider") == {State.SUCCEEDED: 2, State.CANCELLED: 2}


def test_a_second_scheduler_on_the_same_home_is_refused(bench):
    bench.submit()
    with (
        only_scheduler(bench.settings.layout),
        pytest.raises(ConflictError, match=str(bench.settings.home)),
    ):
        bench.run()
    bench.run()
    assert bench.counts() == {State.SUCCEEDED: 2}


def test_a_display_hears_of_every_turn(bench):
    bench.submit()
    seen = []
    bench.run(on_tick=lambda: seen.append(bench.store.progress("small", slots=2).cells_done))
    assert seen == sorted(seen)
    assert seen[-1] == 4
