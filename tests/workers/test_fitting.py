from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sweeps.errors import InputError
from sweeps.memory import USABLE, estimate
from tests.sweeps.made_runs import made_spec
from tests.workers.tiny import curve, endpoints, run, tiny_spec, write_corpus
from workers import fitting
from workers.device import device_at_hand, memory_at_hand, ram_at_hand
from workers.fitting import needs_checkpoints
from workers.utilization import memory_held

CPU, GPU = torch.device("cpu"), torch.device("cuda")
SPEC = made_spec()
FULL, LEAN = (estimate(SPEC, checkpoints=lean).total_bytes for lean in (False, True))


def room(total: int) -> int:
    """Memory of a device on which a training of so many bytes just fits."""
    return int(total / USABLE) + 1


@pytest.fixture
def there(monkeypatch):
    """Sets the memory of all devices."""

    def put(num_bytes: int | None) -> None:
        monkeypatch.setattr(fitting, "memory_at_hand", lambda _: num_bytes)

    return put


@pytest.mark.parametrize(
    ("num_bytes", "twice"),
    [(room(FULL), False), (room(FULL) - 2, True), (room(LEAN), True), (None, False)],
)
def test_blocks_run_twice_exactly_where_their_activations_do_not_fit(there, num_bytes, twice):
    assert LEAN < FULL
    there(num_bytes)
    assert needs_checkpoints(SPEC, CPU) is twice


def test_what_does_not_fit_at_all_is_refused_with_both_numbers(there):
    there(room(LEAN) - 2)
    with pytest.raises(InputError) as caught:
        needs_checkpoints(SPEC, CPU)
    sentence = str(caught.value)
    assert sentence.startswith("model w64: training takes about 0.0")
    assert sentence.endswith("GiB; take a smaller model or a smaller train.microbatch")


def test_a_gpu_that_is_too_small_is_told_how_many_would_do(there):
    large = replace(SPEC.model, width=1024, num_layers=12, num_heads=8, mlp_width=4096)
    spec = replace(SPEC, model=large, training=replace(SPEC.training, microbatch_tokens=64))
    there(room(estimate(spec, checkpoints=True).total_bytes) * 3 // 4)
    with pytest.raises(InputError, match=r"it would fit with resources\.gpus = [248]"):
        needs_checkpoints(spec, GPU)


def test_processes_on_one_cpu_share_its_memory(there):
    spec = replace(SPEC, resources=replace(SPEC.resources, gpus=2))
    each = estimate(spec).total_bytes
    there(2 * room(each))
    assert not needs_checkpoints(spec, CPU)
    there(2 * room(each) - 4)
    assert needs_checkpoints(spec, CPU)


def test_a_run_that_must_save_memory_is_the_same_to_the_bit(there, tmp_path):
    (tmp_path / "corpus").mkdir()
    spec = tiny_spec(write_corpus(tmp_path / "corpus"), "ufp4")
    spec = replace(spec, model=replace(spec.model, num_layers=4))
    plain = run(spec, [3], tmp_path / "plain")
    there(room(estimate(spec).total_bytes) - 2)
    assert needs_checkpoints(spec, CPU)
    lean = run(spec, [3], tmp_path / "lean")
    assert curve(lean) == curve(plain)
    assert endpoints(lean) == endpoints(plain)


def test_a_model_that_does_not_fit_is_refused_before_anything_else_is_done(there, tmp_path):
    (tmp_path / "corpus").mkdir()
    spec = tiny_spec(write_corpus(tmp_path / "corpus"))
    there(1000)
    with pytest.raises(InputError, match="model tiny: training takes about"):
        run(spec, [3], tmp_path / "run")
    assert not (tmp_path / "cache").exists()


def machine(root: Path, *, free_kb: int, groups: dict[str, str], **files: str) -> None:
    """A Linux machine's files; `files` of groups by their names with `_` for `/`."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(f"MemTotal: 99999 kB\nMemAvailable:   {free_kb} kB\n")
    lines = (f"{number}:{kind}:{name}\n" for number, (kind, name) in enumerate(groups.items()))
    (root / "proc/self/cgroup").write_text("".join(lines))
    for place, content in files.items():
        file = root / "sys/fs/cgroup" / place.replace("__", "/").replace("-", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)


def group(place: str, most: str, used: int, cached: int) -> dict[str, str]:
    """Files of a group of version 2."""
    stem = f"{place}__memory"
    return {
        f"{stem}-max": f"{most}\n",
        f"{stem}-current": f"{used}\n",
        f"{stem}-stat": f"anon 5\ninactive_file {cached}\n",
    }


POD = {"": "/pod/box", "cpu": "/elsewhere"}
OLD = {
    "memory__pod__memory-limit_in_bytes": "3000\n",
    "memory__pod__memory-usage_in_bytes": "2900\n",
    "memory__pod__memory-stat": "cache 7\ninactive_file 400\n",
}


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ({"": "/"}, {}, 5000 * 1024),
        (POD, group("pod", "max", 7, 0), 5000 * 1024),
        (POD, group("pod", "3000", 1000, 0), 2000),
        (POD, group("pod__box", "3000", 1000, 400), 2400),
        (POD, group("pod", "9000", 0, 0) | group("pod__box", "8000", 7000, 0), 1000),
        (POD, group("pod", "1000", 3000, 0), 0),
        (POD, group("elsewhere", "1000", 3000, 0), 5000 * 1024),
        ({"memory": "/pod"}, OLD, 500),
    ],
)
def test_free_memory_is_the_least_of_the_machine_and_the_groups_around(
    tmp_path, groups, files, expected
):
    machine(tmp_path, free_kb=5000, groups=groups, **files)
    assert ram_at_hand(tmp_path) == expected


def test_a_machine_without_proc_is_known_by_all_its_memory(tmp_path):
    found = ram_at_hand(tmp_path)
    assert found is not None
    assert found > 2**28


def test_this_machine_has_memory():
    found = memory_at_hand(device_at_hand())
    assert found is not None
    assert found > 2**26


def test_a_process_that_may_fill_a_part_of_a_gpu_has_that_part(monkeypatch):
    class Properties:
        total_memory = 80 * 2**30

    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: Properties)
    monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda: 0.25)
    assert memory_at_hand(GPU) == 20 * 2**30


@pytest.mark.gpu
def test_a_gpu_says_what_it_has_and_what_is_held():
    total = torch.cuda.get_device_properties(0).total_memory
    assert memory_at_hand(GPU) == pytest.approx(total, rel=0.01)
    block = torch.ones(2**24, device=GPU)
    assert memory_held(GPU) >= block.nbytes
