from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import kernels.preflight
from kernels.checks import transform
from kernels.verdict import Preflight
from orchestrator.states import Reason
from sweeps.errors import InputError
from sweeps.metrics import Endpoint
from sweeps.runspec import Resources
from tests.workers.executor_contract import LONG, ExecutorContract
from workers.local_executor import LocalExecutor


class TestLocalExecutor(ExecutorContract):
    @pytest.fixture
    def executor(self, tmp_path: Path) -> Iterator[LocalExecutor]:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        executor = LocalExecutor(cache=tmp_path / "cache", slots=2)
        yield executor
        executor.shutdown(30)
        torch.set_num_threads(threads)

    def test_a_run_whose_preflight_fails_does_not_start(self, bench, monkeypatch):
        monkeypatch.setattr(transform, "rotate", lambda x, _rotation: x)
        monkeypatch.setattr(kernels.preflight, "_passed", {})
        task = bench.task()
        key = bench.launch(task)
        ended = bench.ending(key)
        (found,) = bench.stored[key]
        assert isinstance(found, Preflight)
        assert [check.name for check in found.checks if not check.passed] == ["rht"]
        assert ended.reason is Reason.PREFLIGHT_FAILED
        assert ended.detail == found.failure
        assert not list(task.folder.glob("trunk-*"))

    def test_a_run_that_has_nothing_left_to_train_needs_no_preflight(self, bench, monkeypatch):
        task = bench.task()
        assert bench.ending(bench.launch(task)).reason is Reason.COMPLETED
        monkeypatch.setattr(transform, "rotate", lambda x, _rotation: x)
        monkeypatch.setattr(kernels.preflight, "_passed", {})
        again = bench.launch(replace(task, attempt=2))
        assert bench.ending(again).reason is Reason.COMPLETED
        assert [type(event) for event in bench.stored[again]] == [Endpoint]

    def test_shutdown_checkpoints_what_runs(self, bench):
        task = bench.task(horizons=(LONG,))
        key = bench.launch(task)
        bench.until(lambda: bench.points(key))
        bench.executor.shutdown(30)
        assert bench.executor.free_slots() == 2
        assert list(task.folder.glob("trunk-*.json"))

    def test_a_run_on_several_gpus_is_refused_before_it_starts(self, bench):
        task = bench.task()
        spread = replace(task, spec=replace(task.spec, resources=Resources(gpus=2)))
        with pytest.raises(InputError, match=r"gpus = 2: the local executor trains a run"):
            bench.executor.launch(spread)
        assert bench.executor.free_slots() == 2
        assert not task.folder.exists()
