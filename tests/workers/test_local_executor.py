from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

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

    def test_shutdown_checkpoints_what_runs(self, bench):
        task = bench.task(horizons=(LONG,))
        key = bench.launch(task)
        bench.until(lambda: bench.stored[key])
        bench.executor.shutdown(30)
        assert bench.executor.free_slots() == 2
        assert list(task.folder.glob("trunk-*.json"))
