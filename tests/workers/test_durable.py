import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sweeps.errors import StorageError
from workers import durable


@contextmanager
def no_file_above(size: int) -> Iterator[None]:
    """The kernel refuses longer files, as it does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_content_replaces_what_was_there(tmp_path):
    path = tmp_path / "deep" / "file"
    durable.write(path, b"old")
    durable.write(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(path.parent.iterdir()) == [path]


def test_an_error_while_writing_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    durable.write(path, b"old")

    def write_half_and_fail() -> None:
        with durable.replacing(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half_and_fail()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("size", [2_000, 10_000_000])
def test_a_refusing_disk_is_one_clear_sentence_and_leaves_nothing(tmp_path, size):
    path = tmp_path / "file"
    with no_file_above(1_000), pytest.raises(StorageError) as caught:
        durable.write(path, b"x" * size)
    assert str(caught.value) == f"cannot write {path}: File too large"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_is_a_storage_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match=r"cannot write .*below: "):
        durable.write(tmp_path / "file" / "below", b"x")
