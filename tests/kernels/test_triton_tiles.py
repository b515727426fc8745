"""The Triton kernels in Triton's interpreter where a matrix takes many programs along both axes.

Tiles are small here, and so are the matrices; `test_triton.py` tries most of what operands can be,
each matrix in one tile.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from kernels import gpu, reference
from kernels.blocks import ROW, TENSOR, Block
from kernels.formats import E2M1, E4M3, INT4
from kernels.hadamard import Rotation
from kernels.operands import CARRIED, Operand, Rounding, Scale
from kernels.passes import IN_TILE, MEASURED, WEIGHED, pass_of
from kernels.request import Request
from tests.kernels.drawn_cases import KINDS, assert_same, rows
from tests.kernels.interpreted import interpreted_kernels

KEY = 0xFEDCBA9876543210
SIGNS = (1.0, -1.0, -1.0, 1.0)
STOCHASTIC = Operand(grid=INT4, rounding=Rounding.SR)
NVFP4 = Operand(grid=E2M1, scale=Scale.E4M3)
# By contraction axis. Both axes of a matrix end within a tile, a block and a run.
SHAPES = {1: (40, 150), 0: (150, 40)}
TURNED_SHAPES = {1: (20, 150), 0: (150, 20)}
axes = pytest.mark.parametrize("axis", [0, 1])


@pytest.fixture(scope="module")
def kernels() -> Iterator[dict[str, Any]]:
    with interpreted_kernels() as kernels, pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu, "LANES", 64)
        patch.setattr(gpu, "_WIDEST", 32)
        patch.setattr(gpu, "_LINES", 32)
        yield kernels


@pytest.fixture
def launches(kernels: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """Programs along both axes of each launch, by kernel."""
    launched: dict[str, list[Any]] = {}
    for name, kernel in kernels.items():

        def run(*data: Any, name: str = name, kernel: Any = kernel, **options: Any) -> Any:
            launched.setdefault(name, []).append(options["grid"])
            return type(kernel).run(kernel, *data, **options)

        monkeypatch.setattr(kernel, "run", run)
    return launched


def turned(size: int) -> Rotation:
    return Rotation(SIGNS * (size // 4))


def check(x: torch.Tensor, *requests: Request) -> None:
    """One operand, or one along rows and one along columns."""
    if len(requests) == 1:
        results: tuple[reference.FakeQuantized, ...] = (gpu.fulfil(x, *requests),)
    else:
        results = gpu.fulfil_both(x, *requests)
    for result, request in zip(results, requests, strict=True):
        assert_same(result, request.of(x, reference.fake_quantize))


def matrix(shape: tuple[int, int]) -> torch.Tensor:
    return rows(*shape, KINDS["finite"]).to(torch.bfloat16)


WAYS = {
    "in the tile": (STOCHASTIC, IN_TILE, IN_TILE),
    "square": (Operand(grid=E4M3, block=Block(across=16, along=32)), IN_TILE, IN_TILE),
    "under a tensor's scale": (NVFP4, IN_TILE, MEASURED),
    "outer of the tile": (replace(NVFP4, outer=64), IN_TILE, IN_TILE),
    "outer, measured": (replace(NVFP4, outer=48), IN_TILE, MEASURED),
    "measured": (replace(NVFP4, block=Block(across=5, along=48)), MEASURED, MEASURED),
    "row": (Operand(grid=E4M3, block=ROW), MEASURED, IN_TILE),
    "tensor": (Operand(grid=E4M3, block=TENSOR), MEASURED, IN_TILE),
    "weighed": (Operand(grid=E2M1, block=Block(along=48), alternate=4.0), WEIGHED, IN_TILE),
    "eden": (
        replace(NVFP4, rounding=Rounding.EDEN, block=Block(along=32), outer=96),
        WEIGHED,
        MEASURED,
    ),
}


@axes
@pytest.mark.parametrize(("operand", "blocks", "above"), WAYS.values(), ids=WAYS)
def test_every_way_has_the_bits_of_the_reference_in_many_programs(
    launches: dict[str, list[Any]], operand: Operand, blocks: int, above: int, axis: int
) -> None:
    request = Request(operand=operand, key=KEY, axis=axis)
    plan = pass_of(request, SHAPES[axis][1 - axis], SHAPES[axis][axis])
    assert (plan.blocks, plan.above) == (blocks, above)
    check(matrix(SHAPES[axis]), request)
    expected = {"quantize"} | ({"measure"} if MEASURED in (blocks, above) else set())
    assert set(launches) == expected | ({"measure", "weigh"} if blocks == WEIGHED else set())
    assert min(min(grid) for grids in launches.values() for grid in grids) > 1


@axes
@pytest.mark.parametrize(
    ("operand", "size"),
    [(STOCHASTIC, 64), (NVFP4, 128), (WAYS["eden"][0], 64), (CARRIED, 128)],
    ids=["64", "128 under a tensor's scale", "64, then sums", "128 alone"],
)
def test_so_does_a_transform_that_crosses_lanes(
    launches: dict[str, list[Any]], operand: Operand, size: int, axis: int
) -> None:
    request = Request(operand=operand, key=KEY, rotation=turned(size), axis=axis)
    check(matrix(TURNED_SHAPES[axis]), request)
    # The transform, which is a launch of its own where sums follow.
    assert min(launches["quantize"][0]) > 1


@pytest.mark.parametrize(
    ("first", "second", "rotation"),
    [
        (STOCHASTIC, STOCHASTIC, turned(64)),
        (STOCHASTIC, NVFP4, turned(16)),
        (NVFP4, replace(NVFP4, rounding=Rounding.SR), turned(32)),
        (WAYS["measured"][0], WAYS["tensor"][0], None),
        (STOCHASTIC, WAYS["eden"][0], None),
    ],
    ids=["in the tile", "one measured", "measured", "blocks", "weighed"],
)
def test_so_do_both_axes_in_one_launch(
    launches: dict[str, list[Any]], first: Operand, second: Operand, rotation: Rotation | None
) -> None:
    along_rows = Request(operand=first, key=KEY, rotation=rotation)
    check(matrix((70, 70)), along_rows, Request(operand=second, key=KEY + 1, axis=0))
    assert len(launches["quantize"]) == 1
    assert min(min(grid) for grids in launches.values() for grid in grids) > 1


# ---- What a launch can cover ----


@pytest.mark.usefixtures("kernels")
def test_a_matrix_that_is_wider_than_a_launch_is_refused() -> None:
    x = torch.empty(1, 2**21 + 1, device="meta")
    for request in (Request(operand=STOCHASTIC, key=0), Request(operand=STOCHASTIC, key=0, axis=0)):
        with pytest.raises(ValueError, match=r"65537 programs along axis 1 .* at most 65535"):
            gpu.fulfil(x, request)


def test_so_is_one_with_more_places_to_weigh(
    launches: dict[str, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    request = Request(operand=WAYS["weighed"][0], key=0)
    monkeypatch.setattr(gpu, "_MOST_PROGRAMS", 3)
    monkeypatch.setattr(gpu, "_WIDEST", 64)
    check(matrix((3, 144)), request)
    assert launches["weigh"] == [(1, 3)]
    with pytest.raises(ValueError, match=r"shape \(3, 145\) takes 4 programs along axis 1"):
        gpu.fulfil(matrix((3, 145)), request)
