import hashlib
import json
import re
import tracemalloc

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from sweeps.errors import StorageError
from tests.workers.test_durable import no_file_above
from workers.tensor_stream import Seal, write_tensors

TENSORS = {
    "weight.a": torch.randn(7, 5, generator=torch.Generator().manual_seed(0)),
    "weight.ä/b": torch.randn(3, generator=torch.Generator().manual_seed(1)).bfloat16(),
    "a scalar": torch.tensor(1 / 3, dtype=torch.float64),
    "none at all": torch.zeros(0, 2),
    "counts": torch.tensor([[1, -(2**40)]]),
    "turned": torch.arange(6.0).view(2, 3).T,
    "special": torch.tensor([float("nan"), float("inf"), -0.0]),
}


def test_the_library_reads_back_every_bit(tmp_path):
    path = tmp_path / "x.safetensors"
    write_tensors(path, TENSORS)
    found = load_file(path)
    assert found.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert found[name].dtype == tensor.dtype
        assert found[name].shape == tensor.shape
        bits = [one.contiguous().view(-1).view(torch.uint8) for one in (found[name], tensor)]
        assert torch.equal(*bits), name


def test_nothing_at_all_is_a_file_too(tmp_path):
    write_tensors(tmp_path / "x.safetensors", {})
    with safe_open(tmp_path / "x.safetensors", framework="pt") as file:
        assert list(file.keys()) == []


def test_data_begin_at_a_multiple_of_eight(tmp_path):
    path = tmp_path / "x.safetensors"
    for length in range(1, 12):
        write_tensors(path, {"n" * length: torch.ones(1)})
        size = int.from_bytes(path.read_bytes()[:8], "little")
        assert size % 8 == 0
        assert "n" * length in json.loads(path.read_bytes()[8 : 8 + size])


def test_the_seal_is_length_and_checksum_of_what_lies_there(tmp_path):
    path = tmp_path / "x.safetensors"
    seal = write_tensors(path, TENSORS)
    content = path.read_bytes()
    assert seal == Seal(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    assert seal.broken_by(path) is None


@pytest.mark.parametrize(
    ("spoil", "how"),
    [
        (lambda content: content[:-3], r"it is truncated: \d+ of \d+ bytes"),
        (lambda content: content[:-1] + b"\x01", "its checksum is wrong"),
    ],
)
def test_a_seal_tells_what_became_of_the_file(tmp_path, spoil, how):
    path = tmp_path / "x.safetensors"
    seal = write_tensors(path, {"x": torch.zeros(10)})
    path.write_bytes(spoil(path.read_bytes()))
    found = seal.broken_by(path)
    assert found is not None
    assert re.fullmatch(how, found)


def test_a_full_disk_leaves_the_file_that_was_there(tmp_path):
    path = tmp_path / "x.safetensors"
    write_tensors(path, {"x": torch.zeros(10)})
    before = path.read_bytes()
    with no_file_above(1000), pytest.raises(StorageError, match="cannot write"):
        write_tensors(path, {"x": torch.zeros(10_000)})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_no_tensor_is_held_twice_while_it_is_written(tmp_path):
    tensors = {f"weight.{index}": torch.zeros(2**20) for index in range(8)}
    tracemalloc.start()
    try:
        write_tensors(tmp_path / "x.safetensors", tensors)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**20  # of 2**25 bytes
