"""The corpus: which files, in what order, pinned by what was read, split by document."""

import errno
import hashlib
import os
import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from sweeps.corpus import Document, describe, read, split
from sweeps.errors import InputError
from sweeps.sources import CorpusKind


def write(root: Path, **texts: str) -> None:
    """Files by name, with `__` for a folder and `_dot_` for a dot."""
    for name, text in texts.items():
        file = root / name.replace("__", "/").replace("_dot_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def texts(path: Path | str) -> list[bytes]:
    return [document.text for document in read(describe(CorpusKind.TEXT, str(path)))]


def test_a_folder_is_read_in_the_order_of_its_relative_paths(tmp_path):
    write(tmp_path, a__z="first", b="second", c__d__e="third")
    assert texts(tmp_path) == [b"first", b"second", b"third"]


def test_the_fingerprint_is_the_hash_of_the_documents_hashes(tmp_path):
    write(tmp_path, a="one", b="two")
    ref = describe(CorpusKind.TEXT, str(tmp_path))
    inner = hashlib.sha256(b"one").digest() + hashlib.sha256(b"two").digest()
    assert ref.fingerprint == hashlib.sha256(inner).hexdigest()
    assert (ref.num_bytes, ref.num_documents) == (6, 2)


def test_a_corpus_is_the_same_wherever_it_lies(tmp_path):
    for place in ("here", "there/deeper"):
        write(tmp_path / place, a="one", s__b="two")
    here, there = (describe(CorpusKind.TEXT, str(tmp_path / p)) for p in ("here", "there/deeper"))
    assert here.fingerprint == there.fingerprint
    assert here.path != there.path


def test_hidden_files_and_blank_ones_are_left_out(tmp_path):
    write(tmp_path, a="one", _dot_git__config="no", _dot_b="no", blank=" \n")
    assert texts(tmp_path) == [b"one"]


def test_a_file_and_a_glob_are_corpora_too(tmp_path):
    write(tmp_path, s__a_dot_txt="one", s__b_dot_md="two", c_dot_txt="three")
    assert texts(tmp_path / "c.txt") == [b"three"]
    assert texts(tmp_path / "**" / "*.txt") == [b"three", b"one"]
    assert describe(CorpusKind.TEXT, str(tmp_path / "s" / "*")).num_documents == 2


@pytest.mark.parametrize("path", ["gone", "gone/*.txt", "empty", "blank"])
def test_a_corpus_without_text_is_named(tmp_path, path):
    (tmp_path / "empty").mkdir()
    write(tmp_path, blank="\n")
    with pytest.raises(InputError, match=path.replace("*", r"\*")):
        describe(CorpusKind.TEXT, str(tmp_path / path))


def test_a_file_that_is_not_utf8_is_named(tmp_path):
    (tmp_path / "bad").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="bad is not UTF-8 text"):
        describe(CorpusKind.TEXT, str(tmp_path))


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("~no-such-user/texts", "home directory"),
        ("/tmp/" + "x" * 300, "File name too long"),
        ("/tmp/a\0b", "matches no file"),
        ("/tmp/a\0b/*", "null"),
    ],
)
def test_a_path_that_no_file_can_have_is_refused_in_one_sentence(path, why):
    with pytest.raises(InputError, match=f"^corpus path .*{why}") as caught:
        describe(CorpusKind.TEXT, path)
    assert "\0" not in str(caught.value)


def test_a_folder_that_may_not_be_entered_is_refused_rather_than_passed_over(tmp_path, monkeypatch):
    write(tmp_path, a="one", locked__b="two")
    scandir = os.scandir

    def refusing(path):
        if str(path).endswith("locked"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(InputError, match=r"locked' cannot be read: Permission denied"):
        describe(CorpusKind.TEXT, str(tmp_path))


@pytest.mark.parametrize("code", [errno.EACCES, errno.ENOENT, errno.EIO])
def test_a_file_that_is_locked_gone_or_damaged_is_named(tmp_path, monkeypatch, code):
    write(tmp_path, a="one")

    def refusing(path):
        raise OSError(code, os.strerror(code), path)

    monkeypatch.setattr(Path, "read_bytes", refusing)
    with pytest.raises(InputError, match=f"/a cannot be read: {os.strerror(code)}"):
        describe(CorpusKind.TEXT, str(tmp_path))


def test_a_corpus_that_changed_since_it_was_pinned_is_refused(tmp_path):
    write(tmp_path, a="one")
    ref = describe(CorpusKind.TEXT, str(tmp_path))
    write(tmp_path, a="two")
    with pytest.raises(InputError, match="has changed: the plan pinned"):
        read(ref)
    with pytest.raises(InputError, match="has changed"):
        read(replace(ref, fingerprint="0" * 64))


def test_the_standard_library_is_its_sources_without_tests_packages_and_build_files(
    tmp_path, monkeypatch
):
    write(
        tmp_path,
        abc_dot_py="1",
        json__decoder_dot_py="2",
        json__notes_dot_txt="no",
        test__abc_dot_py="no",
        email__tests__x_dot_py="no",
        **{"site-packages__torch__nn_dot_py": "no", "config-3.11-linux__config_dot_py": "no"},
    )
    (tmp_path / "_sysconfigdata__linux_x86.py").write_text("no", encoding="utf-8")
    (tmp_path / "latin.py").write_bytes(b"# coding: latin-1\n# \xe9")
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path)})
    ref = describe(CorpusKind.STDLIB)
    assert [document.text for document in read(ref)] == [b"1", b"2"]


def test_folders_that_are_left_out_are_not_walked(tmp_path, monkeypatch):
    write(tmp_path, a_dot_py="1", **{"site-packages__pkg__b_dot_py": "2"})
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path)})
    seen: list[str] = []
    scandir = os.scandir

    def noting(path):
        seen.append(str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", noting)
    describe(CorpusKind.STDLIB)
    assert seen == [str(tmp_path)]


def test_the_real_standard_library_has_text_enough():
    ref = describe(CorpusKind.STDLIB)
    assert ref.num_bytes > 5_000_000
    assert ref.num_documents > 300


DOCUMENTS = [
    Document(text, hashlib.sha256(text).digest()) for text in (str(n).encode() for n in range(4000))
]


def test_about_the_asked_share_is_held_out():
    for share in (0.05, 0.2, 0.5):
        held_out = split(DOCUMENTS, share)[1]
        assert len(held_out) / len(DOCUMENTS) == pytest.approx(share, abs=0.02)


@given(st.floats(0.1, 0.9), st.integers(200, 3999))
def test_adding_documents_moves_none_to_the_other_side(share, count):
    few, many = split(DOCUMENTS[:count], share), split(DOCUMENTS, share)
    for side in (0, 1):
        assert few[side] == [document for document in many[side] if int(document.text) < count]


def test_a_split_without_one_side_is_refused_with_its_numbers():
    with pytest.raises(InputError, match=r"held_out = 1e-09 leaves 10 training and 0 validation"):
        split(DOCUMENTS[:10], 1e-9)
