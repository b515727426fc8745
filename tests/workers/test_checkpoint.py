import json
import logging
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from kernels.recipes import BF16_RECIPE
from sweeps.errors import CheckpointError, ConflictError, StorageError
from sweeps.metrics import Endpoint
from sweeps.runspec import Evaluation, RunSpec, Seeds
from sweeps.sources import CorpusKind, CorpusRef, TokenizerRef
from sweeps.training import Training
from tests.workers.test_durable import no_file_above
from tests.workers.tiny import SHAPE
from workers.checkpoint import Checkpoints
from workers.state import Position, State
from workers.tensor_stream import write_tensors

BATCH = 256
SPEC = RunSpec(
    model=SHAPE,
    recipe=BF16_RECIPE,
    corpus=CorpusRef(
        name="c", kind=CorpusKind.TEXT, fingerprint="f", num_bytes=10_000, num_documents=10
    ),
    tokenizer=TokenizerRef(),
    training=Training(context=32, batch_tokens=BATCH, learning_rate=0.01, warmup_tokens=BATCH),
    evaluation=Evaluation(held_out=0.2, tokens=512),
    seeds=Seeds(sr=2),
)
RUN = SPEC.run_id
HORIZON, BRANCH = 20 * BATCH, 16 * BATCH


def open_folder(folder: Path, attempt: int = 1) -> Checkpoints:
    checkpoints = Checkpoints(folder, SPEC, attempt=attempt)
    checkpoints.claim()
    return checkpoints


def state(step: int, horizon: int | None = None, seconds: float = 1.5) -> State:
    tensors = {"weight.a": torch.full((50,), float(step)), "history": torch.ones(step, 2)}
    return State(position=Position(horizon=horizon, step=step), seconds=seconds, tensors=tensors)


def endpoint(tokens: int, loss: float = 2.5) -> Endpoint:
    return Endpoint(
        tokens=tokens,
        loss=loss,
        loss_se=0.1,
        loss_bf16=1 / 3,
        train_loss=2.4,
        eval_tokens=512,
        bytes_per_token=1.0,
        unigram_entropy=3.2,
    )


def names(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("*.safetensors")}


def test_a_saved_state_comes_back_to_the_bit(tmp_path):
    open_folder(tmp_path).save(state(3))
    found = open_folder(tmp_path).latest(HORIZON, BRANCH)
    assert found is not None
    assert found.position == Position(horizon=None, step=3)
    assert found.seconds == 1.5
    assert {name: t.tolist() for name, t in found.tensors.items()} == {
        name: t.tolist() for name, t in state(3).tensors.items()
    }


def test_an_empty_folder_has_no_state(tmp_path):
    folder = open_folder(tmp_path / "new")
    assert folder.latest(HORIZON, BRANCH) is None
    assert folder.endpoints() == ()
    assert folder.seconds() == 0


def test_the_way_to_a_horizon_starts_in_its_branch_or_on_the_trunk_before_it(tmp_path):
    folder = open_folder(tmp_path)
    for step in (4, 16, 30):
        folder.save(state(step), keep=True)
    folder.save(state(18, HORIZON))

    def start(horizon: int, branch: int) -> Position | None:
        found = folder.latest(horizon, branch * BATCH)
        return None if found is None else found.position

    assert start(HORIZON, 16) == Position(horizon=HORIZON, step=18)
    assert start(40 * BATCH, 32) == Position(horizon=None, step=30)
    assert start(12 * BATCH, 10) == Position(horizon=None, step=4)
    assert start(4 * BATCH, 3) is None


def truncate(tensors: Path, _: Path) -> None:
    tensors.write_bytes(tensors.read_bytes()[:-1])


def empty(tensors: Path, _: Path) -> None:
    tensors.write_bytes(b"")


def flip_a_bit(tensors: Path, _: Path) -> None:
    content = bytearray(tensors.read_bytes())
    content[-5] ^= 1
    tensors.write_bytes(content)


def lose_the_tensors(tensors: Path, _: Path) -> None:
    tensors.unlink()


def halve_the_sidecar(_: Path, sidecar: Path) -> None:
    sidecar.write_text(sidecar.read_text()[:40])


def edit(**changes: object) -> Callable[[Path, Path], None]:
    def damage(_: Path, sidecar: Path) -> None:
        sidecar.write_text(json.dumps(json.loads(sidecar.read_text()) | changes))

    return damage


def edit_counters(**changes: int) -> Callable[[Path, Path], None]:
    def damage(_: Path, sidecar: Path) -> None:
        content = json.loads(sidecar.read_text())
        sidecar.write_text(json.dumps(content | {"counters": content["counters"] | changes}))

    return damage


def shorten_the_history(tensors: Path, sidecar: Path) -> None:
    """A file that is whole and sealed, of a run that counted its steps otherwise."""
    seal = write_tensors(tensors, state(5).tensors)
    edit(**asdict(seal))(tensors, sidecar)


DAMAGE = {
    "truncated": (truncate, r"truncated: \d+ of \d+ bytes"),
    "empty": (empty, r"truncated: 0 of \d+ bytes"),
    "corrupt": (flip_a_bit, "its checksum is wrong"),
    "missing": (lose_the_tensors, "cannot be read: FileNotFoundError"),
    "half a sidecar": (halve_the_sidecar, "cannot be read: JSONDecodeError"),
    "a sidecar that is a number": (lambda _, sidecar: sidecar.write_text("3"), "cannot be read"),
    "foreign": (edit(run_id="feed"), f"it belongs to run feed, this is {RUN}"),
    "another step": (edit(step=7), "its name and its sidecar disagree"),
    "other draws": (edit_counters(**{"seeds.sr": 3}), "its seeds.sr is 3, of this run it is 2"),
    "other data": (edit_counters(next_sequence=56), "its next_sequence is 56, .* is 48"),
    "no counters": (edit(counters={}), "cannot be read: KeyError"),
    "another length": (shorten_the_history, "its history has 5 steps"),
}


@pytest.mark.parametrize(("damage", "reason"), DAMAGE.values(), ids=DAMAGE.keys())
def test_a_bad_checkpoint_is_refused_with_its_reason_for_the_one_before(
    tmp_path, caplog, damage, reason
):
    folder = open_folder(tmp_path)
    for step in (5, 6):
        folder.save(state(step))
    damage(*(tmp_path / f"trunk-000000006.{ending}" for ending in ("safetensors", "json")))
    with pytest.raises(CheckpointError, match=reason):
        folder.load(Position(horizon=None, step=6))
    with caplog.at_level(logging.WARNING):
        found = folder.latest(HORIZON, BRANCH)
    assert found is not None
    assert found.position.step == 5
    assert "trunk-000000006.safetensors refused: " in caplog.text
    assert "falling back to the one before" in caplog.text


def test_an_over_shot_branch_is_refused_for_the_one_before(tmp_path, caplog):
    folder = open_folder(tmp_path)
    for step in (20, 21):
        folder.save(state(step, HORIZON))
    found = folder.latest(HORIZON, BRANCH)
    assert found is not None
    assert found.position.step == 20
    assert "it is over-shot: 5376 tokens for a horizon of 5120" in caplog.text


def test_tensors_without_a_sidecar_do_not_exist(tmp_path):
    folder = open_folder(tmp_path)
    folder.save(state(5))
    (tmp_path / "trunk-000000005.json").unlink()
    assert folder.latest(HORIZON, BRANCH) is None


def test_old_states_go_and_kept_ones_stay(tmp_path):
    folder = open_folder(tmp_path)
    for step in range(1, 10):
        folder.save(state(step), keep=step == 4)
    assert names(tmp_path) == {f"trunk-{step:09d}" for step in (4, 8, 9)}
    for step in range(5, 8):
        folder.save(state(step, HORIZON))
    branch = {f"branch-{HORIZON}-{step:09d}" for step in (6, 7)}
    assert names(tmp_path) == branch | {f"trunk-{step:09d}" for step in (4, 8, 9)}


def test_measuring_a_horizon_drops_its_branch(tmp_path):
    folder = open_folder(tmp_path)
    folder.save(state(16), keep=True)
    folder.save(state(18, HORIZON))
    folder.save(state(18, 2 * HORIZON))
    folder.record(endpoint(HORIZON), seconds=9.0)
    assert names(tmp_path) == {"trunk-000000016", f"branch-{2 * HORIZON}-000000018"}


def test_endpoints_are_stored_exactly_and_in_order(tmp_path):
    folder = open_folder(tmp_path)
    folder.record(endpoint(2 * HORIZON), seconds=9.0)
    folder.record(endpoint(HORIZON, loss=0.1 + 0.2), seconds=11.0)
    folder.save(state(3, seconds=4.0))
    again = open_folder(tmp_path)
    assert again.endpoints() == (endpoint(HORIZON, loss=0.1 + 0.2), endpoint(2 * HORIZON))
    assert again.seconds() == 11.0


@pytest.mark.parametrize("content", ["{", "[]", '{"run_id": "feed", "endpoints": []}'])
def test_endpoints_that_are_not_ours_count_as_none(tmp_path, caplog, content):
    (tmp_path / "endpoints.json").write_text(content)
    assert open_folder(tmp_path).endpoints() == ()
    assert "refused" in caplog.text


def test_a_full_disk_leaves_the_states_before_and_nothing_half_written(tmp_path):
    folder = open_folder(tmp_path)
    folder.save(state(5))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with no_file_above(100), pytest.raises(StorageError, match=r"cannot write .*trunk-000000006"):
        folder.save(state(6))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_an_older_attempt_can_neither_begin_nor_write(tmp_path):
    first = open_folder(tmp_path, attempt=1)
    first.save(state(1))
    second = open_folder(tmp_path, attempt=2)
    before = names(tmp_path)
    message = f"attempt 1 of run {RUN} is superseded by attempt 2 and stops"
    for act in (
        lambda: first.save(state(2)),
        lambda: first.record(endpoint(HORIZON), seconds=1.0),
        lambda: open_folder(tmp_path, attempt=1),
    ):
        with pytest.raises(ConflictError) as caught:
            act()
        assert str(caught.value) == message
    assert names(tmp_path) == before
    second.save(state(2))
    open_folder(tmp_path, attempt=2).save(state(3))  # the same attempt may begin again


def test_what_a_killed_process_left_half_written_is_swept_away(tmp_path):
    (tmp_path / ".trunk-000000006.safetensors.1f2e.part").write_bytes(b"half")
    open_folder(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["attempt"]


@pytest.mark.parametrize(("content", "seen"), [(b"one", "one"), (b"", ""), (b"\xff1", "\ufffd1")])
def test_a_broken_attempt_file_is_named(tmp_path, content, seen):
    (tmp_path / "attempt").write_bytes(content)
    with pytest.raises(StorageError, match=f"attempt holds '{seen}', not the number of an attempt"):
        open_folder(tmp_path)


@pytest.mark.parametrize("name", ["attempt", "endpoints.json"])
def test_a_file_that_cannot_be_read_is_named(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(StorageError, match=rf"cannot read .*{name}: Is a directory"):
        open_folder(tmp_path).endpoints()


def test_the_weights_of_an_endpoint_stay_when_its_branch_goes(tmp_path):
    folder = open_folder(tmp_path)
    folder.save(state(18, HORIZON))
    folder.keep_weights(state(20, HORIZON))
    folder.record(endpoint(HORIZON), seconds=3.0)
    assert names(tmp_path) == {f"endpoint-{HORIZON}"}
    found = open_folder(tmp_path, attempt=2).weights(HORIZON)
    assert found.position == Position(horizon=HORIZON, step=20)
    assert list(found.tensors) == ["weight.a"]
    assert found.tensors["weight.a"].tolist() == [20.0] * 50
    assert open_folder(tmp_path, attempt=2).latest(HORIZON, BRANCH) is None


@pytest.mark.parametrize("spoil", [truncate, flip_a_bit], ids=["truncated", "flipped"])
def test_damaged_weights_are_refused(tmp_path, spoil):
    folder = open_folder(tmp_path)
    folder.keep_weights(state(20, HORIZON))
    name = tmp_path / f"endpoint-{HORIZON}"
    spoil(name.with_suffix(".safetensors"), name.with_suffix(".json"))
    with pytest.raises(
        CheckpointError, match=rf"endpoint-{HORIZON}.safetensors refused: (it is trunc|its check)"
    ):
        folder.weights(HORIZON)


def test_weights_that_were_not_kept_are_told(tmp_path):
    with pytest.raises(CheckpointError, match=f"holds no weights of the endpoint at {HORIZON} tok"):
        open_folder(tmp_path).weights(HORIZON)


def test_the_newest_state_is_that_of_the_most_steps_and_sound(tmp_path):
    folder = open_folder(tmp_path)
    assert folder.newest() is None
    folder.save(state(16), keep=True)
    folder.save(state(18, HORIZON))
    folder.keep_weights(state(20, HORIZON))
    newest = folder.newest()
    assert newest is not None
    assert newest.position == Position(horizon=HORIZON, step=18)
    truncate(tmp_path / f"branch-{HORIZON}-000000018.safetensors", tmp_path)
    fallen_back = folder.newest()
    assert fallen_back is not None
    assert fallen_back.position == Position(horizon=None, step=16)


def test_a_reader_claims_nothing_and_writes_nothing(tmp_path):
    open_folder(tmp_path, attempt=1).save(state(3))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    reader = Checkpoints(tmp_path, SPEC)
    assert reader.newest() is not None
    with pytest.raises(ConflictError):
        reader.save(state(4))
    with pytest.raises(ConflictError):
        reader.keep_weights(state(20, HORIZON))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
