"""What a process has set, and how a layer came to be, changes no number of it."""

from collections.abc import Iterator
from copy import deepcopy
from threading import Barrier, Thread

import pytest
import torch
from torch import Tensor, nn

from kernels.formats import E2M1
from kernels.gemm import FPROP, LayerPass
from kernels.layer_products import keeps_quantized_x
from kernels.linear import QuantLinear
from kernels.matmul import carried_matmul, emulated_matmul
from kernels.operands import Operand
from kernels.presets import PRESETS
from kernels.recipes import Gemm, Precision, Recipe
from kernels.streams import Streams

UFP4 = PRESETS["ufp4"]
LAYER = "blocks.0.mlp.up"


def streams() -> Streams:
    return Streams(sr=1, rht=2)


def layer() -> QuantLinear:
    made = QuantLinear(64, 48, recipe=UFP4, name=LAYER, streams=streams())
    nn.init.normal_(made.weight, generator=torch.Generator().manual_seed(1))
    return made


def x() -> Tensor:
    return torch.randn(32, 64, generator=torch.Generator().manual_seed(2)).to(torch.bfloat16)


@pytest.fixture(params=["high", "medium"])
def rounded_products(request: pytest.FixtureRequest) -> Iterator[str]:
    torch.set_float32_matmul_precision(request.param)
    yield request.param
    torch.set_float32_matmul_precision("highest")


def test_a_cpu_that_may_round_operands_is_refused(rounded_products: str) -> None:
    for product in (
        lambda: carried_matmul(x(), x().t(), torch.float16),
        lambda: emulated_matmul(x().float(), x().float().t(), Precision.FP32),
        lambda: layer()(x()),
    ):
        with pytest.raises(ValueError, match=r"call torch.set_float32_matmul_precision\('highest'"):
            product()


def test_a_gpu_is_told_by_which_units_to_multiply_whatever_is_allowed(
    rounded_products: str,
) -> None:
    matmul = torch.backends.cuda.matmul
    allowed, a, b = matmul.fp32_precision, torch.empty(4, 8, device="meta"), torch.empty(8, 4)
    for precision in Precision:
        emulated_matmul(a, b.to("meta"), precision)
        assert matmul.fp32_precision == allowed


def test_threads_that_multiply_in_tf32_leave_the_setting_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a = torch.empty(4, 4, device="meta")
    start, seen = Barrier(2), set()

    def product(precision: Precision) -> None:
        start.wait()
        for _ in range(300):
            emulated_matmul(a, a, precision)
            seen.add(torch.backends.cuda.matmul.fp32_precision in ("ieee", "tf32", "none"))

    before = torch.backends.cuda.matmul.fp32_precision
    threads = [Thread(target=product, args=(one,)) for one in (Precision.TF32, Precision.FP32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {True}
    assert torch.backends.cuda.matmul.fp32_precision == before


def test_autocast_changes_no_product() -> None:
    follows = LayerPass(recipe=UFP4, layer=LAYER, streams=streams())
    weight = layer().weight.detach().to(torch.bfloat16)
    expected = follows.multiply(FPROP, x(), weight), layer()(x())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = follows.multiply(FPROP, x(), weight), layer()(x())
    for ours, right in zip(found, expected, strict=True):
        assert ours.dtype is right.dtype
        assert torch.equal(ours, right)


def test_a_layer_works_and_moves_on_under_another_default_device() -> None:
    expected, rows = layer(), x()
    expected.streams.move(step=3)
    with torch.device("meta"):
        made = QuantLinear(64, 48, recipe=UFP4, name=LAYER, streams=streams())
        made.load_state_dict(expected.state_dict(), assign=True)
        made.streams.move(step=3)
        y = made(rows)
    assert torch.equal(y, expected(rows))


def test_a_weight_that_is_assigned_on_another_device_takes_the_layer_there() -> None:
    with torch.device("meta"):
        made = QuantLinear(64, 48, recipe=UFP4, name=LAYER, streams=streams())
    made.load_state_dict(layer().state_dict(), assign=True)
    assert torch.equal(made(x()), layer()(x()))


def test_a_layer_made_for_inference_moves_on() -> None:
    with torch.inference_mode():
        copy = deepcopy(layer())
        copy.streams.move(step=4)
        y = copy(x())
    other = layer()
    other.streams.move(step=4)
    assert torch.equal(y, other(x()))


def test_a_gradient_of_a_gradient_is_refused() -> None:
    made, rows = layer(), x().requires_grad_()
    (dx,) = torch.autograd.grad(made(rows).square().sum(), rows, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dx.sum().backward()  # type: ignore[no-untyped-call]


def test_what_a_layer_follows_cannot_be_replaced_by_assignment() -> None:
    made = layer()
    for name in ("recipe", "streams", "name"):
        with pytest.raises(AttributeError):
            setattr(made, name, getattr(made, name))


def test_x_itself_is_never_kept_as_its_quantized_copy() -> None:
    plain_x = Recipe(
        name="plain x",
        fprop=Gemm(left=Operand(grid=E2M1)),
        wgrad=Gemm(left=Operand(grid=E2M1)),
        gemm=Precision.BF16,
    )
    assert not keeps_quantized_x(plain_x, torch.device("cuda"))
