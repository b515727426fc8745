"""No C library reads or writes where it should not, or does what C leaves undefined.

Each is loaded into a Python of its own, compiled with the sanitizers for addresses and for
undefined behaviour, which end the process at the first fault.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernels import product

ROOT = Path(__file__).resolve().parents[2]
RUNTIMES = {
    "gcc": ("libasan.so", "libubsan.so"),
    "clang": ("libclang_rt.asan-x86_64.so",),
}
"""What must be loaded before anything else. Only clang's look into masked loads and stores."""
FLAGS = {"gcc": "", "clang": " -shared-libasan"}

QUANTIZER = """
from kernels import native
from tests.kernels.drawn_cases import ALL_GRIDS, cases
kernel = native.kernel()
for grid in (*ALL_GRIDS.values(), None):
    for case in cases(grid, 20):
        case.call(kernel.fake_quantize)
print("1 passed")
"""
PYTEST = ("-m", "pytest", "-q", "-x", "-s", "-p", "no:cacheprovider", "-m", "not slow")
LIBRARIES = {
    "kernels/quantize.c": ("-c", QUANTIZER),
    "kernels/product.c": (*PYTEST, "tests/kernels/test_product.py"),
    "workers/layers/layers.c": (*PYTEST, "tests/workers/layers/test_layers.py"),
}
"""What calls everything of each, with sizes at which panels, blocks and vectors are not full."""


def runtimes(compiler: str) -> list[str]:
    """Files; skips the test where there are none."""
    files = []
    for name in RUNTIMES[compiler]:
        command = [compiler, f"-print-file-name={name}"]
        try:
            found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError):
            pytest.skip(f"no {compiler}")
        if not Path(found.strip()).is_absolute():
            pytest.skip(f"{compiler} has no {name}")
        files.append(found.strip())
    return files


@pytest.mark.slow
@pytest.mark.parametrize("compiler", RUNTIMES)
@pytest.mark.parametrize("source", LIBRARIES)
def test_sanitizers_find_nothing(source: str, compiler: str, tmp_path: Path) -> None:
    if source != "kernels/quantize.c" and product._library() is None:
        pytest.skip("needs AVX512-BF16")
    preloaded = runtimes(compiler)
    sanitize = "-fsanitize=address,undefined -fno-sanitize-recover=all"
    environment = {
        "CC": f"{compiler} {sanitize}{FLAGS[compiler]}",
        "XDG_CACHE_HOME": str(tmp_path),
        "LD_PRELOAD": ":".join(preloaded),
        "ASAN_OPTIONS": "detect_leaks=0",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, *LIBRARIES[source]],
        cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-3000:]
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
    assert list((tmp_path / "gridlaw").glob(f"{Path(source).stem}-*.so"))


def test_every_c_source_is_watched() -> None:
    sources = {
        str(path.relative_to(ROOT))
        for folder in ("kernels", "workers")
        for path in (ROOT / folder).rglob("*.c")
    }
    assert sources == LIBRARIES.keys()
