"""Both ways in which a layer is computed, and what both are compared with."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from workers.layers import native

needs_kernels = pytest.mark.skipif(
    not native.are_here(), reason="needs AVX512-BF16 and a C compiler"
)


@pytest.fixture(params=["kernels", "torch"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Has the C kernels or torch compute the layers."""
    if request.param == "torch":
        monkeypatch.setattr(native, "are_here", lambda: False)
    elif not native.are_here():
        pytest.skip("needs AVX512-BF16 and a C compiler")
    return str(request.param)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    """BF16 from N(0, 1)."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(torch.bfloat16)


def outcome(function: Callable[..., Tensor], inputs: Sequence[Tensor]) -> list[Tensor]:
    """A function's value and the gradients of its inputs under a fixed pull."""
    leaves = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in inputs]
    y = function(*leaves)
    pull = drawn(*y.shape, seed=99).to(y.dtype)
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    return [y.detach(), *torch.autograd.grad(y, wanted, pull)]


def assert_near(
    found: Sequence[Tensor], expected: Sequence[Tensor], roundings: float = 1.0
) -> None:
    """Each tensor off by so many BF16 roundings at most, as a share of its norm and of its top."""
    unit = 2.0**-8
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.shape == theirs.shape
        off, size = ours.double() - theirs.double(), theirs.double()
        assert off.norm() <= roundings * unit * size.norm() + 1e-12
        assert off.abs().max() <= roundings * unit * size.abs().max() + 1e-12


def in_fp64(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The same values in FP64, integers as they are."""
    return [x.double() if x.is_floating_point() else x for x in tensors]
