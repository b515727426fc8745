"""Two ranks over gloo against a single process.

With as many microbatches as ranks each rank's gradient is one term, and a sum of two terms does not
depend on their order: then every bit must agree. With more, terms are added in another order.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from kernels.presets import PRESETS
from kernels.streams import Streams
from sweeps.errors import InputError
from sweeps.metrics import Diagnosis, Diverged, StepMetrics, TrainEvent
from sweeps.microbatches import check_ranks
from sweeps.runspec import Diagnostics, Resources, RunSpec, Sharding
from sweeps.shapes import Experts, ModelShape
from sweeps.training import OptimizerKind
from tests.workers.ranks import on_ranks
from tests.workers.tiny import (
    BATCH,
    NEVER,
    SHAPE,
    after_preflight,
    endpoints,
    tiny_spec,
    write_corpus,
)
from workers.acceleration import Passes, Way
from workers.layers.loss import mean_loss
from workers.models.registry import make
from workers.shards import whole
from workers.train import train
from workers.world import ALONE, World

pytestmark = pytest.mark.slow

STEPS = 8
HORIZON = STEPS * BATCH
DENSE = replace(SHAPE, num_layers=2, width=32, num_heads=2, num_kv_heads=1, mlp_width=48)
MIXTURE = replace(
    DENSE, experts=Experts(count=4, active=2, width=16, shared_width=16, dense_layers=1)
)
ADAMW, MUON = OptimizerKind.ADAMW, OptimizerKind.MUON
SHARD, REPLICATE = Sharding.SHARD, Sharding.REPLICATE
WAYS = [
    ("dense, bf16, adamw, sharded", DENSE, "bf16", ADAMW, SHARD),
    ("mixture, ufp4, adamw, sharded", MIXTURE, "ufp4", ADAMW, SHARD),
    ("mixture, bf16, muon, replicated", MIXTURE, "bf16", MUON, REPLICATE),
    ("dense, ufp4, muon, replicated", DENSE, "ufp4", MUON, REPLICATE),
    ("mixture, fp16, muon, sharded", MIXTURE, "fp16", MUON, SHARD),
]
EVEN = [name for name, *_ in WAYS]
UNEVEN = [f"{name}, more" for name in EVEN[:3]]
RESUMED = EVEN[3:]

Leave = Callable[[TrainEvent], bool]
Case = tuple[Path, RunSpec, Leave]


def never(event: TrainEvent) -> bool:
    return False


def half_way(event: TrainEvent) -> bool:
    return isinstance(event, StepMetrics) and event.step == STEPS // 2


def run_all(cases: Sequence[Case], world_of: Callable[[RunSpec], World]) -> list[list[TrainEvent]]:
    """What each run tells until its case says to leave."""
    torch.set_num_threads(1)
    return [stepped(folder, spec, leave, world_of(spec)) for folder, spec, leave in cases]


def stepped(folder: Path, spec: RunSpec, leave: Leave, world: World) -> list[TrainEvent]:
    told: list[TrainEvent] = []
    events = train(
        spec,
        [HORIZON],
        folder,
        cache=folder.parent.parent / "cache",
        report_every_seconds=NEVER,
        checkpoint_every_seconds=NEVER,
        world=world,
    )
    for event in events:
        told.append(event)
        if world.agreed(leave(event)):
            events.close()
    return after_preflight(told)


def of_rank(cases: Sequence[Case]) -> tuple[list[list[TrainEvent]], bool]:
    """What a rank does: all runs, and one step of compiled blocks against the blocks as written."""
    told = run_all(cases, as_peers)
    shape, peers = replace(MIXTURE, num_layers=3), as_peers(cases[0][1])
    written, compiled = (gradients(peers, shape, way) for way in (Way.WRITTEN, Way.BLOCKS))
    same = all(torch.equal(written[name], compiled[name]) for name in written)
    return told, same and len(written) > 30


def gradients(peers: World, shape: ModelShape, way: Way) -> dict[str, Tensor]:
    streams = Streams(sr=0, rht=0)
    model = make(
        shape, vocab_size=256, context=32, recipe=PRESETS["ufp4"], streams=streams, checkpoints=True
    )

    def run(windows: Tensor) -> Tensor:
        loss = mean_loss(model(windows[:, :-1]), windows[:, 1:])
        torch.autograd.backward(loss)
        return loss.detach()

    # Dynamo alone: no kernels are generated.
    passes = Passes(model, run, way, ranks=peers.size, compiler={"backend": "eager"})
    peers.place(model, torch.device("cpu"))
    model.initialise(0)
    windows = torch.arange(4 * 33).view(4, 33)
    for index, last in enumerate((False, True)):
        streams.move(step=1, microbatch=2 * peers.rank + index)
        with peers.backward(model, last=last):
            passes(windows + index)
    return {
        name: whole(weight.grad)
        for name, weight in model.named_parameters()
        if weight.grad is not None
    }


def as_peers(spec: RunSpec) -> World:
    from workers.parallel import Peers

    return Peers(spec.resources.sharding)


def by_itself(spec: RunSpec) -> World:
    return ALONE


class Runs:
    """All runs: by a single process, by two ranks, and begun by either and ended by the other.

    Attributes:
        alone: What a single process told of each run.
        ranks: What each of two ranks told of it.
        changed: What was told of the second half by two ranks that went on from a single process.
        joined: What was told of the second half by one process that went on from two.
        compiled_alike: Whether compiled blocks gave each rank the gradients of written ones.
    """

    def __init__(self, root: Path) -> None:
        (root / "text").mkdir()
        corpus = write_corpus(root / "text")
        self.root = root
        self.specs = dict(specs(corpus))

        def cases(place: str, names: Iterable[str], leave: Leave = never) -> list[Case]:
            return [(root / place / name, self.specs[name], leave) for name in names]

        torch.set_num_threads(1)
        first = [*cases("alone", self.specs), *cases("1 to 2", RESUMED, half_way)]
        told = run_all(first, by_itself)
        self.alone = dict(zip(self.specs, told, strict=False))
        second = [
            *cases("ranks", self.specs),
            *cases("1 to 2", RESUMED),
            *cases("2 to 1", RESUMED, half_way),
        ]
        by_rank, self.compiled_alike = zip(
            *on_ranks(2, of_rank, root / "ranked", second), strict=True
        )
        self.ranks = [dict(zip(self.specs, one, strict=False)) for one in by_rank]
        size = len(self.specs)
        self.changed = dict(zip(RESUMED, by_rank[0][size:], strict=False))
        self.joined = dict(zip(RESUMED, run_all(cases("2 to 1", RESUMED), by_itself), strict=True))

    def tensors(self, place: str, name: str) -> dict[str, Tensor]:
        """Of the last checkpoint of a run and of its endpoint."""
        return {
            f"{path.stem} {key}": tensor
            for path in sorted((self.root / place / name).glob("*.safetensors"))
            for key, tensor in load_file(path).items()
        }


def specs(corpus: Path) -> Iterator[tuple[str, RunSpec]]:
    def spec(shape: ModelShape, recipe: str, sharding: Sharding, **training: Any) -> RunSpec:
        made = tiny_spec(corpus, recipe, **training)
        return replace(made, model=shape, resources=Resources(gpus=2, sharding=sharding))

    # A norm over shards is added up in another order: clipping would pass that on.
    even = {"microbatch_tokens": BATCH // 2, "gradient_clip": 1e9}
    for name, shape, recipe, optimizer, sharding in WAYS:
        yield name, spec(shape, recipe, sharding, optimizer=optimizer, **even)
    for name, shape, recipe, optimizer, sharding in WAYS[: len(UNEVEN)]:
        more = spec(shape, recipe, sharding, optimizer=optimizer, microbatch_tokens=BATCH // 4)
        yield f"{name}, more", more
    yield "wild", spec(DENSE, "ufp4", SHARD, learning_rate=1e12, **even)
    seen = spec(DENSE, "ufp4", SHARD, **even)
    yield "seen", replace(seen, diagnostics=Diagnostics(every=3))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("parallel"))


def blurred(events: list[TrainEvent]) -> list[TrainEvent]:
    """Events without clocks, memory and norms, of which shards add up the parts."""
    return [
        replace(
            event,
            seconds=0.0,
            tokens_per_second=0.0,
            mfu=None,
            memory_bytes=None,
            gradient_norm=0.0,
            update_ratio=None,
        )
        if isinstance(event, StepMetrics)
        else event
        for event in events
    ]


def norms(events: list[TrainEvent]) -> list[float]:
    return [event.gradient_norm for event in events if isinstance(event, StepMetrics)]


@pytest.mark.parametrize("name", EVEN)
def test_one_microbatch_a_rank_gives_the_very_run_of_a_single_process(runs, name):
    assert blurred(runs.ranks[0][name]) == blurred(runs.alone[name])
    assert norms(runs.ranks[0][name]) == pytest.approx(norms(runs.alone[name]), rel=1e-6)
    expected, found = runs.tensors("alone", name), runs.tensors("ranks", name)
    assert found.keys() == expected.keys()
    assert len(found) > 30
    for key, tensor in expected.items():
        if not key.endswith("history"):  # holds the norms
            torch.testing.assert_close(found[key], tensor, rtol=0, atol=0)


@pytest.mark.parametrize("name", UNEVEN)
def test_more_microbatches_differ_by_the_order_of_a_sum_alone(runs, name):
    alone, ranks = runs.alone[name], runs.ranks[0][name]
    first, second = alone[0], ranks[0]
    assert isinstance(first, StepMetrics)
    assert isinstance(second, StepMetrics)
    # Four terms, in FP32: each of three additions rounds by 2^-24 at most.
    assert second.loss == pytest.approx(first.loss, rel=3 * 2**-24)
    assert second.gradient_norm == pytest.approx(first.gradient_norm, rel=1e-6)
    # From then on a last bit can move a weight over a rounding threshold.
    assert endpoints(ranks)[0].loss == pytest.approx(endpoints(alone)[0].loss, abs=0.02)


@pytest.mark.parametrize("name", [*EVEN, *UNEVEN, "wild", "seen"])
def test_every_rank_tells_the_same(runs, name):
    assert blurred(runs.ranks[1][name]) == blurred(runs.ranks[0][name])


@pytest.mark.parametrize("name", RESUMED)
def test_a_run_goes_on_with_another_number_of_ranks_as_if_nothing_had_happened(runs, name):
    whole = blurred(runs.alone[name])
    half = [
        event for event in whole if not isinstance(event, StepMetrics) or event.step > STEPS // 2
    ]
    assert blurred(runs.changed[name]) == half
    assert blurred(runs.joined[name]) == half
    assert runs.tensors("1 to 2", name).keys() == runs.tensors("2 to 1", name).keys()


def test_ranks_diverge_at_the_step_and_layer_of_a_single_process(runs):
    last = runs.alone["wild"][-1]
    assert isinstance(last, Diverged)
    assert last.detail.endswith("is not finite")
    assert runs.ranks[0]["wild"][-1] == last


def test_ranks_measure_what_a_single_process_measures(runs):
    measured = [event for event in runs.alone["seen"] if isinstance(event, Diagnosis)]
    assert len(measured) == 2
    assert measured[-1].layers[0].motion is not None
    assert [event for event in runs.ranks[0]["seen"] if isinstance(event, Diagnosis)] == measured


def test_compiled_blocks_give_shards_the_gradients_of_the_blocks_as_written(runs):
    assert runs.compiled_alike == (True, True)


def test_ranks_that_cannot_share_a_step_equally_are_refused(tmp_path):
    spec = tiny_spec(write_corpus(tmp_path), microbatch_tokens=BATCH // 2)
    with pytest.raises(InputError, match=r"resources\.gpus = 3: must divide the 2 equal parts"):
        check_ranks(spec, 3)
