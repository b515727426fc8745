"""A `.safetensors` file written tensor by tensor, and its checksum on the way.

    8 bytes   length of the header, little-endian
    header    JSON: {name: {dtype, shape, data_offsets}}, filled up to a multiple of 8 with spaces
    data      the tensors' elements one after the other, without gaps

The library's own writer first collects all bytes in memory; here no more than one tensor of a GPU,
and nothing of a CPU, is there twice. Format: https://github.com/huggingface/safetensors.
"""

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from workers import durable

_TYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """Length and SHA-256 of a file, by which it is known to be whole."""

    bytes: int
    sha256: str

    def broken_by(self, path: Path) -> str | None:
        """How a file differs, read in pieces; None if it is the sealed one.

        Raises:
            OSError: If it cannot be read.
        """
        length = path.stat().st_size
        if length != self.bytes:
            return f"it is truncated: {length} of {self.bytes} bytes"
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        return None if found == self.sha256 else "its checksum is wrong"


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> Seal:
    """Put the tensors at `path`, whole or not at all.

    Raises:
        StorageError: As `workers.durable.replacing`.
    """
    digest, length = hashlib.sha256(), 0
    with durable.replacing(path) as file:
        for piece in _pieces(tensors):
            _write(file, piece)
            digest.update(piece)
            length += piece.nbytes
    return Seal(bytes=length, sha256=digest.hexdigest())


def _pieces(tensors: Mapping[str, Tensor]) -> Iterator[memoryview]:
    ends = list(itertools.accumulate((tensor.nbytes for tensor in tensors.values()), initial=0))
    header = {
        name: {
            "dtype": _TYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
        for (name, tensor), (begin, end) in zip(
            tensors.items(), itertools.pairwise(ends), strict=True
        )
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield memoryview(len(text).to_bytes(8, "little") + text)
    for tensor in tensors.values():
        flat = tensor.detach().cpu().contiguous().view(-1)
        yield flat.view(torch.uint8).numpy().data


def _write(file: BinaryIO, piece: memoryview) -> None:
    if piece.nbytes:
        file.write(piece)
