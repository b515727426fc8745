"""A whole training whose passes are recorded, by the stand-in of `test_acceleration`."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from torch import Tensor

from tests.workers.test_acceleration import called_again
from tests.workers.tiny import BATCH, curve, endpoints, run, tiny_spec, write_corpus
from workers import losses, trainee
from workers.acceleration import Passes, Way


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    return write_corpus(folder)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["ufp4", "fp16"])
def test_recorded_passes_train_to_the_same_losses_and_endpoints(
    recipe, corpus, tmp_path, monkeypatch
):
    recordings: list[str] = []

    def record(function: Callable[[], Tensor]) -> Callable[[], Tensor]:
        recordings.append("once")
        return called_again(function)

    spec = tiny_spec(corpus, recipe, microbatch_tokens=BATCH // 2)
    written = run(spec, [3, 5], tmp_path / "written")
    monkeypatch.setattr(trainee, "way_of", lambda *_, **__: Way.GRAPH)
    monkeypatch.setattr(losses, "Passes", partial(Passes, record=record))
    recorded = run(spec, [3, 5], tmp_path / "recorded")
    assert recordings == ["once"]
    assert endpoints(recorded) == endpoints(written)
    assert curve(recorded) == curve(written)
