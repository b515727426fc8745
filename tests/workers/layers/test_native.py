"""The C kernels of the layers: threads, torch.compile, and what is there without them."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend

from kernels import compiled
from tests.workers.layers.paths import drawn, needs_kernels, outcome
from workers.layers import native
from workers.layers.activations import squared_relu, swiglu
from workers.layers.attention import attend
from workers.layers.loss import token_losses
from workers.layers.norm import rms_norm
from workers.layers.rotary import rotations

TURNS = rotations(64, 32, 1e4)
TARGETS = torch.arange(8 * 64).reshape(8, 64) % 32


def all_layers(x: Tensor, gain: Tensor) -> Tensor:
    """[B, T, H, D] through every kernel, to losses [B, T]."""
    q, k = rms_norm(x, gain, TURNS), rms_norm(x, gain * 2, TURNS)
    y = rms_norm(attend(q, k[:, :, :2].contiguous(), x[:, :, :2].contiguous()), gain)
    logits = squared_relu(swiglu(y, x)).float().mean(2).to(torch.bfloat16)
    return token_losses(logits, TARGETS)


def inputs() -> list[Tensor]:
    return [drawn(8, 64, 4, 32), drawn(32, seed=1).float() + 1]


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@needs_kernels
def test_threads_change_no_bit(one_thread: None) -> None:
    alone = outcome(all_layers, inputs())
    torch.set_num_threads(3)
    assert all(torch.equal(a, b) for a, b in zip(alone, outcome(all_layers, inputs()), strict=True))


@needs_kernels
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_all_kernels_compile_into_one_graph_of_the_same_numbers() -> None:
    torch.compiler.reset()
    counter = CompileCounterWithBackend("aot_eager")
    quick = torch.compile(all_layers, backend=counter, fullgraph=True)
    expected, ours = outcome(all_layers, inputs()), outcome(quick, inputs())
    assert all(torch.equal(a, b) for a, b in zip(ours, expected, strict=True))
    assert counter.frame_count == 1
    graph = str(torch.export.export(Layers(), tuple(inputs())).graph)
    for name in ("norm", "attention", "swiglu", "squared_relu", "entropy"):
        assert f"gridlaw.{name}_forward" in graph


class Layers(nn.Module):
    """What a graph is exported of."""

    def forward(self, x: Tensor, gain: Tensor) -> Tensor:
        return all_layers(x, gain)


@needs_kernels
def test_kernels_serve_bf16_on_a_cpu_and_nothing_else() -> None:
    assert native.serve(torch.ones(2, dtype=torch.bfloat16))
    for other in (torch.float16, torch.float32, torch.float64):
        assert not native.serve(torch.ones(2, dtype=other))
    assert not native.serve(torch.ones(2, dtype=torch.bfloat16, device="meta"))


def test_without_a_compiler_there_are_no_kernels_and_the_log_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    assert compiled.bf16_library(native._SOURCE, {}) is None
    assert "no layers.c" in caplog.text
    assert "no-such-compiler" in caplog.text


def test_a_processor_without_the_instructions_has_none_and_that_is_no_fault(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(compiled, "_macros", lambda _command: b"#define __AVX2__ 1\n")
    assert compiled.bf16_library(native._SOURCE, {}) is None
    assert not caplog.records
