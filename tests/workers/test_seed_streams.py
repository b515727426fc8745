"""Each of the four seed streams moves what it should, and nothing else."""

from dataclasses import dataclass, fields, replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from kernels.presets import PRESETS
from sweeps.runspec import RunSpec, Seeds
from sweeps.training import Order
from tests.workers.tiny import BATCH, endpoints, open_tiny, run, start, tiny_spec, write_corpus
from workers.data.dataset import Dataset
from workers.data.order import Windows
from workers.trainee import Trainee

MOVED = {
    "init": Seeds(init=1),
    "data": Seeds(data=1),
    "sr": Seeds(sr=1),
    "rht": Seeds(rht=1),
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def batches(monkeypatch):
    """Every batch that is read, by its step; one that is read again must be the same."""
    found: dict[int, Windows] = {}
    read = Dataset.batch

    def batch(self: Dataset, seed: int, step: int, part: slice = slice(None)) -> Windows:
        windows = read(self, seed, step, part)
        assert np.array_equal(found.setdefault(step, windows), windows)
        return windows

    monkeypatch.setattr(Dataset, "batch", batch)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a run begins with, what its first two steps are made of, and their losses."""

    weights: bytes
    batches: tuple[bytes, ...]
    keys: tuple[int, ...]
    signs: tuple[int, ...]
    first_loss: float
    first_norm: float
    second_loss: float


def seen(spec: RunSpec, cache: Path, batches: dict[int, Windows]) -> Seen:
    batches.clear()
    trainee = Trainee(spec, open_tiny(spec, cache), seconds=0.0)
    tensors = trainee.state().tensors
    weights = (tensors[name].numpy().tobytes() for name in tensors if name.startswith("weight."))
    begun = b"".join(weights)
    trainee.step()
    words = trainee._streams.words(spec.recipe, "blocks.0.mlp.down")
    first = trainee.scheduled_report()
    trainee.step()
    return Seen(
        weights=begun,
        batches=tuple(batches[step].tobytes() for step in range(2)),
        keys=tuple(key for key, *_ in words),
        signs=tuple(sign for _, *signs in words for sign in signs),
        first_loss=first.loss,
        first_norm=first.gradient_norm,
        second_loss=trainee.scheduled_report().loss,
    )


def what_moves(spec: RunSpec, stream: str, cache: Path, batches: dict[int, Windows]) -> set[str]:
    before = seen(spec, cache, batches)
    after = seen(replace(spec, seeds=MOVED[stream]), cache, batches)
    names = (one.name for one in fields(Seen))
    return {name for name in names if getattr(before, name) != getattr(after, name)}


LOSSES = {"first_loss", "first_norm", "second_loss"}

# Both recipes round dy alone stochastically, in backward; ufp4 rotates all GEMMs, nvfp4 wgrad.
EXPECTED = {
    ("bf16", "init"): {"weights", *LOSSES},
    ("bf16", "data"): {"batches", *LOSSES},
    ("bf16", "sr"): set(),
    ("bf16", "rht"): set(),
    ("ufp4", "init"): {"weights", *LOSSES},
    ("ufp4", "data"): {"batches", *LOSSES},
    ("ufp4", "sr"): {"keys", "first_norm", "second_loss"},
    ("ufp4", "rht"): {"signs", *LOSSES},
    ("nvfp4", "sr"): {"keys", "first_norm", "second_loss"},
    ("nvfp4", "rht"): {"signs", "first_norm", "second_loss"},
}


@pytest.mark.parametrize(("case", "expected"), EXPECTED.items(), ids=map(" ".join, EXPECTED))
def test_a_seed_moves_its_own_and_nothing_else(corpus, cache, batches, case, expected):
    recipe, stream = case
    spec = replace(tiny_spec(corpus), recipe=replace(PRESETS[recipe], pad=True))
    assert what_moves(spec, stream, cache, batches) == expected


@pytest.mark.parametrize("stream", ["sr", "rht"])
def test_a_whole_bf16_run_is_the_same_under_other_rounding_seeds(corpus, tmp_path, stream):
    spec = tiny_spec(corpus)
    base = run(spec, [3], tmp_path / "base")
    moved = run(replace(spec, seeds=MOVED[stream]), [3], tmp_path / "moved")
    assert endpoints(base) == endpoints(moved)
    name = f"endpoint-{3 * BATCH}.safetensors"
    assert (tmp_path / "base" / name).read_bytes() == (tmp_path / "moved" / name).read_bytes()


@pytest.mark.parametrize("order", Order)
def test_the_order_of_the_data_does_not_depend_on_restarts(corpus, tmp_path, batches, order):
    """The fixture compares every batch that is read again."""
    spec = tiny_spec(corpus, order=order)
    run(spec, [12], tmp_path / "alone")
    assert sorted(batches) == list(range(12))
    for attempt in range(1, 6):
        events = start(spec, [12], tmp_path / "stopped", attempt=attempt)
        list(islice(events, 3))  # a preflight and two steps
        events.close()
    run(spec, [12], tmp_path / "stopped", attempt=6)
    assert sorted(batches) == list(range(12))
