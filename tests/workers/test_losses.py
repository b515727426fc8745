"""Which windows of a step a rank reads."""

import numpy as np

from tests.workers.tiny import BATCH, open_tiny, tiny_spec, write_corpus
from workers.data.dataset import Dataset
from workers.data.order import Windows
from workers.trainee import Trainee
from workers.world import Alone


class Last(Alone):
    """The last of four ranks, without the others."""

    def mine(self, microbatches: int) -> range:
        return range(3 * microbatches // 4, microbatches)


def test_a_rank_reads_the_windows_of_its_own_microbatches_alone(tmp_path, monkeypatch):
    (tmp_path / "text").mkdir()
    spec = tiny_spec(write_corpus(tmp_path / "text"), microbatch_tokens=BATCH // 8)
    dataset = open_tiny(spec, tmp_path / "cache")
    whole = [dataset.batch(spec.seeds.data, step) for step in range(2)]
    found: list[Windows] = []
    read = Dataset.batch

    def batch(self: Dataset, seed: int, step: int, part: slice = slice(None)) -> Windows:
        found.append(read(self, seed, step, part))
        return found[-1]

    monkeypatch.setattr(Dataset, "batch", batch)
    trainee = Trainee(spec, dataset, seconds=0.0, world=Last())
    trainee.step()
    trainee.step()
    assert len(found) == 2
    for windows, every in zip(found, whole, strict=True):
        assert len(windows) == len(every) // 4
        assert np.array_equal(windows, every[-len(windows) :])
