"""Token shards as llm.c and nanoGPT write them, byte by byte, and what is no such file."""

import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sweeps.corpora import shards
from sweeps.corpora.pin import pin, read
from sweeps.errors import InputError
from sweeps.sources import CorpusKind
from tests.corpora import pinned, source

END = 50256


def llm_c(
    ids: Sequence[int],
    *,
    magic: int = 20240520,
    version: int = 1,
    count: int | None = None,
    letter: str = "H",
) -> bytes:
    """A shard as dev/data/data_common.py writes it."""
    header = [magic, version, len(ids) if count is None else count] + [0] * 253
    return struct.pack("<256i", *header) + struct.pack(f"<{len(ids)}{letter}", *ids)


def llama_3(ids: Sequence[int], version: int = 7) -> bytes:
    return llm_c(ids, magic=20240801, version=version, letter="I")


def nano_gpt(ids: Sequence[int]) -> bytes:
    """A shard as data/openwebtext/prepare.py writes it: `tofile` of uint16."""
    return np.array(ids, np.uint16).tobytes()


def documents(path: Path, separator: int = END, **fields: Any) -> list[tuple[int, ...]]:
    ref = pinned(CorpusKind.SHARDS, path, separator=separator, **fields)
    return [struct.unpack(f"<{len(d.content) // 4}I", d.content) for d in read(ref)]


def refused(path: Path, separator: int | None = END, **fields: Any) -> str:
    with pytest.raises(InputError) as caught:
        pinned(CorpusKind.SHARDS, path, separator=separator, **fields)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_separator_before_or_behind_each_document_gives_the_same_documents(tmp_path):
    (tmp_path / "before.bin").write_bytes(llm_c([END, 1, 2, END, 3, END, 50255]))
    (tmp_path / "behind.bin").write_bytes(nano_gpt([1, 2, END, 3, END, 50255, END]))
    expected = [(1, 2), (3,), (50255,)]
    assert documents(tmp_path / "before.bin") == expected
    assert documents(tmp_path / "behind.bin", token_type="uint16") == expected


def test_the_same_tokens_are_one_corpus_in_files_of_16_and_of_32_bits(tmp_path):
    ids = [END, 7, 8, END, 9]
    (tmp_path / "16.bin").write_bytes(llm_c(ids))
    (tmp_path / "32.bin").write_bytes(llama_3(ids))
    (tmp_path / "raw.bin").write_bytes(np.array(ids, np.uint32).tobytes())
    refs = [
        pinned(CorpusKind.SHARDS, tmp_path / "16.bin", separator=END),
        pinned(CorpusKind.SHARDS, tmp_path / "32.bin", separator=END),
        pinned(CorpusKind.SHARDS, tmp_path / "raw.bin", separator=END, token_type="uint32"),
    ]
    assert len({ref.fingerprint for ref in refs}) == 1
    assert (refs[0].num_bytes, refs[0].num_documents) == (3 * 4, 2)


def test_ids_above_16_bits_survive(tmp_path):
    (tmp_path / "a.bin").write_bytes(llama_3([128000, 1, 127999, 128000, 2**31 - 2]))
    assert documents(tmp_path / "a.bin", 128000) == [(1, 127999), (2**31 - 2,)]
    ref = source(CorpusKind.SHARDS, tmp_path / "a.bin", separator=128000)
    assert pin(ref, 0.5).largest_id == 2**31 - 2


def test_a_document_goes_on_in_the_next_shard_and_empty_ones_are_left_out(tmp_path):
    (tmp_path / "train_000001.bin").write_bytes(llm_c([END, 1, END, END, 2, 3]))
    (tmp_path / "train_000002.bin").write_bytes(llm_c([4, END, 5]))
    (tmp_path / "train_000010.bin").write_bytes(llm_c([END, 6]))
    assert documents(tmp_path / "train_*.bin") == [(1,), (2, 3, 4), (5,), (6,)]


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=60),
    st.lists(st.integers(1, 20), max_size=3),
    st.integers(1, 7),
)
def test_documents_are_what_lies_between_separators_however_it_is_cut(
    tmp_path_factory, ids, cuts, chunk
):
    folder = tmp_path_factory.mktemp("shards")
    parts, rest = [], [0, *ids, 0, 1]
    for cut in cuts:
        if 0 in rest[:cut] and 0 in rest[cut:]:
            parts.append(rest[:cut])
            rest = rest[cut:]
    for number, part in enumerate([*parts, rest]):
        (folder / f"{number}.bin").write_bytes(nano_gpt(part))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "CHUNK", chunk)
        found = documents(folder, 0, token_type="uint16")
    words = "".join(map(str, [0, *ids, 0, 1])).split("0")
    assert found == [tuple(map(int, word)) for word in words if word]


@pytest.mark.parametrize(
    ("content", "token_type", "words"),
    [
        (llm_c([END, 1], version=2), None, "has version 2 under magic 20240520; 1 is what is read"),
        (llama_3([END, 1], version=1), None, "has version 1 under magic 20240801; 7 is"),
        (llm_c([END, 1], magic=20240522), None, "it begins with 20240522, not 20240520 or"),
        (nano_gpt([END, 1]), None, "has no header: .* say corpus.type: uint16 or uint32"),
        (nano_gpt([END] * 600), None, "has no header"),
        (b"", None, "has no header"),
        (llm_c([END, 1], count=3), None, "has 3 tokens, but its 1028 bytes have room for 2"),
        (llm_c([END, 1], count=1), None, "has 1 tokens, but its 1028 bytes have room for 2"),
        (llm_c([END, 1]) + b"x", None, "has 2 tokens, but its 1029 bytes have room for 2"),
        (llama_3([END, 1])[:-2], None, "has 2 tokens, but its 1030 bytes have room for 1"),
        (
            llm_c([END, 1]),
            "uint32",
            "corpus.type = uint32: .* says in its header that it is uint16",
        ),
        (nano_gpt([END, 1]) + b"x", "uint16", "has 5 bytes, no whole number of uint16 tokens"),
        (nano_gpt([END, 1, 2]), "uint32", "has 6 bytes, no whole number of uint32 tokens"),
        (nano_gpt([1, 2, 3]), "uint16", "separator = 50256: .*holds no such token to end"),
        (llm_c([]), None, "holds no such token"),
    ],
)
def test_a_file_that_is_no_such_shard_is_one_sentence(tmp_path, content, token_type, words):
    (tmp_path / "a.bin").write_bytes(content)
    sentence = refused(tmp_path / "a.bin", token_type=token_type)
    assert str(tmp_path / "a.bin") in sentence
    assert re.search(words, sentence), sentence


def test_a_document_longer_than_any_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "LONGEST", 8)
    monkeypatch.setattr(shards, "CHUNK", 4)
    (tmp_path / "a.bin").write_bytes(nano_gpt([END, *range(8), END]))
    assert documents(tmp_path / "a.bin", token_type="uint16") == [tuple(range(8))]
    (tmp_path / "a.bin").write_bytes(nano_gpt([END, *range(13), END]))
    with pytest.raises(InputError, match="holds no such token in 8 others to end a document"):
        pinned(CorpusKind.SHARDS, tmp_path / "a.bin", separator=END, token_type="uint16")


def test_shards_need_a_separator(tmp_path):
    (tmp_path / "a.bin").write_bytes(llm_c([END, 1]))
    assert refused(tmp_path / "a.bin", None).startswith("corpus.separator: token shards need")
