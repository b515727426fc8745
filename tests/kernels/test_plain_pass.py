"""The short way of a layer that quantizes nothing: the numbers of the general one."""

import pytest
import torch
from torch import Tensor

from kernels.followed import followed
from kernels.layer_ops import LinearPass
from kernels.linear import QuantLinear
from kernels.plain_pass import PlainPass
from kernels.presets import PRESETS
from kernels.streams import Streams


def outcome(y: Tensor, leaves: tuple[Tensor, ...]) -> list[Tensor]:
    pull = torch.randn(y.shape, generator=torch.Generator().manual_seed(3)).to(y.dtype)
    return [y.detach(), *torch.autograd.grad(y, leaves, pull)]


@pytest.mark.parametrize("sizes", [(48, 32, 64), (7, 5, 3), (1, 257, 16)])
@pytest.mark.parametrize("name", ["bf16", "fp16"])
def test_it_is_the_general_pass_bit_for_bit(name: str, sizes: tuple[int, int, int]) -> None:
    tokens, inside, outside = sizes
    recipe = PRESETS[name].unquantized()
    rules = followed(recipe, torch.device("cpu"))
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(tokens, inside, generator=generator).to(rules.carrier).requires_grad_()
    w = torch.randn(outside, inside, generator=generator).requires_grad_()
    draws = torch.zeros(6, 3, dtype=torch.int64)
    plain = PlainPass.apply(x, w)  # type: ignore[no-untyped-call]
    general = LinearPass.apply(  # type: ignore[no-untyped-call]
        x, w, draws, rules.number, True, True, rules.keeps_x, rules.keeps_w
    )
    pairs = zip(outcome(plain, (x, w)), outcome(general, (x, w)), strict=True)
    assert all(torch.equal(a, b) and a.dtype is b.dtype for a, b in pairs)


def test_a_layer_takes_it_where_nothing_is_quantized_and_nobody_looks() -> None:
    for name, is_short in (("bf16", True), ("ufp4", False)):
        layer = QuantLinear(
            32, 32, recipe=PRESETS[name], name="blocks.0.mlp.up", streams=Streams(sr=0, rht=0)
        )
        torch.nn.init.normal_(layer.weight)
        x = torch.ones(2, 16, 32, dtype=torch.bfloat16)
        found = layer(x).grad_fn
        assert (type(found).__name__ == "PlainPassBackward") is is_short
