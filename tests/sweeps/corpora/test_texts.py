"""Text files: which are read, in what order, and that they are pinned by what was read."""

import errno
import hashlib
import os
import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest

from sweeps.corpora.pin import read
from sweeps.errors import InputError
from sweeps.sources import CorpusKind
from tests.corpora import pinned, pinned_text


def write(root: Path, **texts: str) -> None:
    """Files by name, with `__` for a folder and `_dot_` for a dot."""
    for name, text in texts.items():
        file = root / name.replace("__", "/").replace("_dot_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def texts(path: Path | str) -> list[bytes]:
    return [document.content for document in read(pinned_text(path))]


def test_a_folder_is_read_in_the_order_of_its_relative_paths(tmp_path):
    write(tmp_path, a__z="first", b="second", c__d__e="third")
    assert texts(tmp_path) == [b"first", b"second", b"third"]


def test_the_fingerprint_is_the_hash_of_the_documents_hashes(tmp_path):
    write(tmp_path, a="one", b="two")
    ref = pinned_text(tmp_path)
    inner = hashlib.sha256(b"one").digest() + hashlib.sha256(b"two").digest()
    assert ref.fingerprint == hashlib.sha256(inner).hexdigest()
    assert (ref.num_bytes, ref.num_documents) == (6, 2)


def test_a_corpus_is_the_same_wherever_it_lies(tmp_path):
    for place in ("here", "there/deeper"):
        write(tmp_path / place, a="one", s__b="two")
    here, there = (pinned_text(tmp_path / p) for p in ("here", "there/deeper"))
    assert here.fingerprint == there.fingerprint
    assert here.path != there.path


def test_hidden_files_and_blank_ones_are_left_out(tmp_path):
    write(tmp_path, a="one", _dot_git__config="no", _dot_b="no", blank=" \n")
    assert texts(tmp_path) == [b"one"]


def test_a_file_and_a_glob_are_corpora_too(tmp_path):
    write(tmp_path, s__a_dot_txt="one", s__b_dot_md="two", c_dot_txt="three")
    assert texts(tmp_path / "c.txt") == [b"three"]
    assert texts(tmp_path / "**" / "*.txt") == [b"three", b"one"]
    assert pinned_text(tmp_path / "s" / "*").num_documents == 2


@pytest.mark.parametrize("path", ["gone", "gone/*.txt", "empty", "blank"])
def test_a_corpus_without_text_is_named(tmp_path, path):
    (tmp_path / "empty").mkdir()
    write(tmp_path, blank="\n")
    with pytest.raises(InputError, match=path.replace("*", r"\*")):
        pinned_text(tmp_path / path)


def test_a_file_that_is_not_utf8_is_named(tmp_path):
    (tmp_path / "bad").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="bad is not UTF-8 text"):
        pinned_text(tmp_path)


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
        pinned_text(path)
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
        pinned_text(tmp_path)


@pytest.mark.parametrize("code", [errno.EACCES, errno.ENOENT, errno.EIO])
def test_a_file_that_is_locked_gone_or_damaged_is_named(tmp_path, monkeypatch, code):
    write(tmp_path, a="one")

    def refusing(path):
        raise OSError(code, os.strerror(code), path)

    monkeypatch.setattr(Path, "read_bytes", refusing)
    with pytest.raises(InputError, match=f"/a cannot be read: {os.strerror(code)}"):
        pinned_text(tmp_path)


def test_a_corpus_that_changed_since_it_was_pinned_is_refused(tmp_path):
    write(tmp_path, a="one")
    ref = pinned_text(tmp_path)
    write(tmp_path, a="two")
    with pytest.raises(InputError, match="has changed: the plan pinned"):
        list(read(ref))
    with pytest.raises(InputError, match="has changed"):
        list(read(replace(ref, fingerprint="0" * 64)))


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
    ref = pinned(CorpusKind.STDLIB)
    assert [document.content for document in read(ref)] == [b"1", b"2"]


def test_folders_that_are_left_out_are_not_walked(tmp_path, monkeypatch):
    write(tmp_path, a_dot_py="1", **{"site-packages__pkg__b_dot_py": "2"})
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path)})
    seen: list[str] = []
    scandir = os.scandir

    def noting(path):
        seen.append(str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", noting)
    pinned(CorpusKind.STDLIB)
    assert seen == [str(tmp_path)]


def test_the_real_standard_library_has_text_enough():
    ref = pinned(CorpusKind.STDLIB)
    assert ref.num_bytes > 5_000_000
    assert ref.num_documents > 300
