"""How Ray places runs on GPUs, on a cluster that declares two and has none.

Nothing trains here: every worker finds that it does not see the GPU which it was given, and says so
at once. Its actor holds its place until the ending is settled, as one that trains does.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import ray
import torch
from ray.cluster_utils import Cluster

from orchestrator.executor import AttemptKey, Report, Task, Watch
from orchestrator.states import Reason
from sweeps.errors import InputError
from sweeps.runspec import Resources
from tests.workers.executor_contract import Bench
from workers.packing import CONTEXT_BYTES
from workers.ray_executor import RayExecutor

pytestmark = [
    pytest.mark.ray,
    pytest.mark.skipif(torch.cuda.is_available(), reason="the GPUs that are declared exist"),
]

GPU_BYTES = 8 * CONTEXT_BYTES
"""Of which an eighth would leave nothing for tensors: a GPU holds four runs at most."""
SLOTS = 12


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayExecutor]:
    node = {"num_cpus": 2, "num_gpus": 2, "include_dashboard": False}
    there = Cluster(initialize_head=True, head_node_args=node)
    executor = RayExecutor(
        there.address, SLOTS, tmp_path_factory.mktemp("cache"), gpu_bytes=GPU_BYTES
    )
    yield executor
    executor.shutdown()
    there.shutdown()  # type: ignore[no-untyped-call]


@pytest.fixture
def bench(cluster: RayExecutor, tmp_path: Path) -> Iterator[Bench]:
    yield Bench.over_text(cluster, tmp_path)
    while cluster.free_slots() < 2:
        cluster.poll([])


def task(bench: Bench, seed: int, resources: Resources, width: int = 16) -> Task:
    made = bench.task(seed)
    model = replace(made.spec.model, width=width, mlp_width=width)
    spec = replace(made.spec, resources=resources, model=model)
    return replace(made, spec=spec)


def inside(key: AttemptKey, question: Callable[[object], object]) -> Any:
    """What a function gives in the process of an attempt's actor."""
    return ray.get(ray.get_actor(f"{key.run_id}-{key.attempt}").__ray_call__.remote(question))


def place(key: AttemptKey) -> tuple[str, str | None, float]:
    """The GPU that Ray gave to an attempt, the one that its process may see, and the part of it."""

    def asked(_worker: object) -> tuple[str, str | None, float]:
        context = ray.get_runtime_context()
        (given,) = context.get_accelerator_ids()["GPU"]
        share = context.get_assigned_resources()["GPU"]  # type: ignore[no-untyped-call]
        return given, os.environ.get("CUDA_VISIBLE_DEVICES"), share

    given, visible, share = inside(key, asked)
    return given, visible, share


@pytest.mark.slow
def test_four_small_runs_share_a_gpu_and_the_fifth_goes_to_the_other(bench):
    assert bench.executor.free_slots() == 2
    keys = [bench.launch(task(bench, seed, Resources(pack=True))) for seed in range(5)]
    places = [place(key) for key in keys]
    assert all(given == visible and share == 0.25 for given, visible, share in places)
    assert sorted(given for given, _, _ in places) in (["0"] * 4 + ["1"], ["0"] + ["1"] * 4)
    assert bench.executor.free_slots() == 1
    endings = [bench.ending(key) for key in keys]
    assert all(ending.reason is Reason.TRAINING_ERROR for ending in endings)
    assert all(ending.detail.endswith("sees no GPU; it does not start") for ending in endings)


@pytest.mark.slow
def test_a_larger_run_is_given_a_larger_part(bench):
    key = bench.launch(task(bench, 0, Resources(pack=True), width=4096))
    assert place(key)[2] == 0.5


@pytest.mark.slow
def test_a_run_that_finds_no_place_waits_alive_and_no_other_overtakes_it(bench):
    keys = [
        bench.launch(task(bench, seed, Resources(pack=pack)))
        for seed, pack in enumerate([True, False, False])
    ]
    part, whole, late = keys
    assert place(part)[0] != place(whole)[0]
    watches = [Watch(key=key, offset=0) for key in keys]  # none is settled: every place is held
    told: dict[AttemptKey, Report] = {}
    while not all(key in told and told[key].ended for key in (part, whole)):
        told |= {report.key: report for report in bench.executor.poll(watches)}
        assert told[late] == Report(key=late, offset=0), "alive, and nothing else"
        assert bench.executor.free_slots() == 0
    assert bench.ending(late).detail.endswith("sees no GPU; it does not start")


@pytest.mark.parametrize("gpus", [3, 8])
def test_a_run_that_the_whole_cluster_could_not_hold_is_refused_at_once(gpus, bench):
    with pytest.raises(InputError, match=f"resources.gpus = {gpus}: the cluster has 2 GPUs"):
        bench.executor.launch(task(bench, 0, Resources(gpus=gpus)))
    assert bench.executor.free_slots() == 2
