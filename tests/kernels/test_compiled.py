"""How the C kernel is compiled and cached."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernels import compiled
from kernels.compiled import FLAGS

ROOT = Path(__file__).resolve().parents[2]
QUICK = (*FLAGS, "-O0")
pytestmark = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("cc", "gcc", "clang")), reason="no C compiler"
)


@pytest.fixture(scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def test_a_library_is_compiled_once_into_the_cache_of_the_user(own_cache: None) -> None:
    first = compiled.build(QUICK)
    stamp = first.stat().st_mtime_ns
    assert compiled.build(QUICK) == first
    assert first.stat().st_mtime_ns == stamp
    assert first.parent == Path(os.environ["XDG_CACHE_HOME"]) / "gridlaw"


@pytest.mark.parametrize("content", [b"", bytes(4096), b"not a library"])
def test_what_the_cache_has_but_cannot_be_loaded_is_compiled_again(
    own_cache: None, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = compiled.build(QUICK)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    library = tmp_path / "gridlaw" / sound.name
    library.parent.mkdir()
    library.write_bytes(content)
    assert compiled.built_and_loaded(QUICK)._name == str(library)
    assert library.stat().st_size == sound.stat().st_size


def test_a_compiler_whose_library_cannot_be_loaded_is_tried_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "cc"
    script.write_text(
        f"#!/bin/sh\necho run >> {tmp_path}/runs\n"
        'while [ $# -gt 0 ]; do [ "$1" = -o ] && : > "$2"; shift; done\n'
    )
    script.chmod(0o700)
    monkeypatch.setenv("CC", str(script))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(OSError, match="file too short"):
        compiled.built_and_loaded(QUICK)
    # For its macros and for a library, both times.
    assert (tmp_path / "runs").read_text().split() == ["run"] * 4


@pytest.mark.parametrize("name", ["quantize.c", "scales.h"])
def test_a_change_of_any_source_is_another_library(
    own_cache: None, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (compiled.SOURCE, *compiled.SOURCE.parent.glob("*.h")):
        shutil.copy(path, tmp_path)
    before = compiled.build(QUICK)
    monkeypatch.setattr(compiled, "SOURCE", tmp_path / "quantize.c")
    assert compiled.build(QUICK) == before
    with (tmp_path / name).open("a") as source:
        source.write("/* another */\n")
    assert compiled.build(QUICK) != before


@pytest.mark.slow
def test_processes_that_compile_at_once_end_with_one_valid_library(tmp_path: Path) -> None:
    code = f"from kernels import compiled as c; c.load(c.build({QUICK})); print(c.build({QUICK}))"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=ROOT, env=os.environ | {"XDG_CACHE_HOME": str(tmp_path)},
            stdout=subprocess.PIPE, text=True,
        )
        for _ in range(3)
    ]  # fmt: skip
    paths = {Path(process.communicate()[0].strip()) for process in started}
    assert [process.returncode for process in started] == [0, 0, 0]
    assert set((tmp_path / "gridlaw").iterdir()) == paths
    assert len(paths) == 1
