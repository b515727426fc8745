"""Diagnoses along a training: where they come, and that they change nothing."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from kernels.quality import LayerQuality
from sweeps.metrics import Diagnosis, Diverged, TrainEvent
from sweeps.runspec import Diagnostics, RunSpec
from tests.workers.tiny import BATCH, curve, endpoints, run, start, tiny_spec, write_corpus

SHORT, LONG = 10 * BATCH, 20 * BATCH
LAYERS = ("*.query", "*.down")
NAMES = ["blocks.0.attention.query", "blocks.0.mlp.down"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def watching(spec: RunSpec, every: int) -> RunSpec:
    return replace(spec, diagnostics=Diagnostics(every=every, layers=LAYERS))


def diagnoses(events: Sequence[TrainEvent]) -> dict[tuple[int | None, int], Diagnosis]:
    return {(one.horizon, one.step): one for one in events if isinstance(one, Diagnosis)}


def unfollowed(diagnosis: Diagnosis) -> tuple[LayerQuality, ...]:
    return tuple(replace(layer, motion=None) for layer in diagnosis.layers)


def is_followed(diagnosis: Diagnosis) -> bool:
    return all(layer.motion is not None for layer in diagnosis.layers)


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory):
    """A ufp4 run to two horizons in one go, diagnosed at every third step."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("whole") / "run"
    return run(watching(tiny_spec(corpus, "ufp4"), 3), [10, 20], folder)


@pytest.mark.parametrize("recipe", ["ufp4", "nvfp4", "quartet2"])
def test_a_run_is_the_same_to_the_bit_with_diagnoses_and_without(corpus, tmp_path, recipe):
    spec = tiny_spec(corpus, recipe)
    plain = run(spec, [6], tmp_path / "plain")
    watched = run(watching(spec, 1), [6], tmp_path / "watched")
    assert (len(diagnoses(plain)), len(diagnoses(watched))) == (0, 6)
    assert [one for one in watched if not isinstance(one, Diagnosis)][-1] == plain[-1]
    assert endpoints(watched) == endpoints(plain)
    assert curve(watched) == curve(plain)
    weights = [f"{name}/endpoint-{6 * BATCH}.safetensors" for name in ("plain", "watched")]
    assert (tmp_path / weights[0]).read_bytes() == (tmp_path / weights[1]).read_bytes()


def test_diagnostics_are_no_part_of_the_identity(corpus):
    spec = tiny_spec(corpus, "ufp4")
    assert watching(spec, 3).run_id == spec.run_id


def test_diagnoses_come_at_multiples_of_every_on_each_path(whole):
    found = diagnoses(whole)
    assert list(found) == [
        (None, 3), (None, 6), (SHORT, 9), (None, 9), (None, 12), (None, 15), (LONG, 18)
    ]  # fmt: skip
    for (_, step), one in found.items():
        assert one.tokens == step * BATCH
        assert [layer.layer for layer in one.layers] == NAMES
        assert all(len(layer.operands) == 6 for layer in one.layers)
        assert all(len(layer.products) == 3 for layer in one.layers)


def test_a_diagnosis_follows_the_report_of_its_step(whole):
    places = [whole.index(one) for one in diagnoses(whole).values()]
    for place in places:
        report = whole[place - 1]
        assert (report.horizon, report.step) == (whole[place].horizon, whole[place].step)


def test_weights_are_followed_over_three_steps_of_one_path(whole):
    """Branches begin after steps 8 and 16; the trunk is taken up again at 8."""
    followed = {place for place, one in diagnoses(whole).items() if is_followed(one)}
    assert followed == {(None, 3), (None, 6), (None, 12), (None, 15)}


def test_a_trained_ufp4_layer_looks_like_one(whole):
    for diagnosis in diagnoses(whole).values():
        for layer in diagnosis.layers:
            assert all(operand.rotates for operand in layer.operands)
            assert all(15 < (one.used.sqnr or 0) < 26 for one in layer.operands)
            assert all(0.95 < (one.gain or 0) < 1.05 for one in layer.products)
            if layer.motion is not None:
                assert 0 <= layer.motion.oscillations <= layer.motion.flips < 0.5
                assert 0.09 < layer.motion.mismatch < 0.15


def stopped_when(
    spec: RunSpec, folder: Path, at: Callable[[TrainEvent], bool]
) -> tuple[list[TrainEvent], list[TrainEvent]]:
    """The events up to the one at which a run is stopped, and those of the next attempt."""
    first = start(spec, [10], folder)
    before = []
    for event in first:
        before.append(event)
        if at(event):
            first.close()
    return before, run(spec, [10], folder, attempt=2)


@pytest.mark.parametrize("step", [4, 5])
def test_a_window_cut_by_a_stop_is_dropped_and_all_else_repeats(whole, corpus, tmp_path, step):
    spec = watching(tiny_spec(corpus, "ufp4"), 3)

    def at(event: TrainEvent) -> bool:
        return not isinstance(event, Diagnosis) and getattr(event, "step", 0) == step

    before, after = stopped_when(spec, tmp_path / "run", at)
    found, expected = diagnoses([*before, *after]), diagnoses(whole)
    assert list(found) == [(None, 3), (None, 6), (SHORT, 9)]
    assert found[None, 3] == expected[None, 3]
    assert not is_followed(found[None, 6])
    assert unfollowed(found[None, 6]) == unfollowed(expected[None, 6])
    assert found[SHORT, 9] == expected[SHORT, 9]
    assert endpoints(after) == endpoints(whole)[:1]


def test_a_run_stopped_at_a_diagnosis_goes_on_after_it(whole, corpus, tmp_path):
    spec = watching(tiny_spec(corpus, "ufp4"), 3)
    before, after = stopped_when(spec, tmp_path / "run", lambda one: isinstance(one, Diagnosis))
    assert list(diagnoses(before)) == [(None, 3)]
    assert list(diagnoses(after)) == [(None, 6), (SHORT, 9)]
    assert diagnoses(after)[None, 6] == diagnoses(whole)[None, 6]
    assert {**curve(before), **curve(after)} == {
        place: one for place, one in curve(whole).items() if place[1] <= 8 or place[0] == SHORT
    }


def test_a_bf16_run_has_nothing_to_diagnose(corpus, tmp_path):
    events = run(watching(tiny_spec(corpus), 1), [4], tmp_path / "run")
    assert not diagnoses(events)
    assert endpoints(events)


def test_a_step_that_diverges_is_not_diagnosed(corpus, tmp_path):
    spec = watching(tiny_spec(corpus, "ufp4", learning_rate=1e9, warmup_tokens=0), 1)
    *before, last = run(spec, [100], tmp_path / "run")
    assert isinstance(last, Diverged)
    assert all(one.step < last.step for one in diagnoses(before).values())
