"""The counts of `sweeps` against the models that are trained: names, sizes, and FLOPs by torch."""

from dataclasses import replace

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from kernels.grouped import GroupedQuantLinear
from kernels.linear import QuantLinear
from kernels.recipe_module import unrounded
from kernels.recipes import BF16_RECIPE
from kernels.streams import Streams
from sweeps.counts import Linear, count_parameters, flops_per_token, linear_layers
from sweeps.shapes import Experts, Mlp, ModelShape
from workers.models.decoder import Decoder
from workers.models.registry import make

V, T, B = 61, 32, 4

DENSE = ModelShape(
    name="dense", num_layers=2, width=48, num_heads=4, num_kv_heads=2, head_size=16, mlp_width=96
)
SQUARED = replace(DENSE, name="squared", num_kv_heads=None, mlp=Mlp.RELU2)
MIXED = replace(
    DENSE,
    name="mixed",
    num_layers=3,
    experts=Experts(count=6, active=2, width=32, shared_width=64, dense_layers=1),
)
UNSHARED = replace(
    MIXED, name="unshared", experts=Experts(count=4, active=3, width=32, shared_width=0)
)
EVERY = pytest.mark.parametrize(
    "shape", [DENSE, SQUARED, MIXED, UNSHARED], ids=lambda shape: shape.name
)


def decoder(shape: ModelShape) -> Decoder:
    streams = Streams(sr=0, rht=0)
    return make(shape, vocab_size=V, context=T, recipe=BF16_RECIPE, streams=streams)


def stacked(layer: Linear) -> tuple[int, ...]:
    return (layer.stack,) if ".experts." in layer.name else ()


@EVERY
def test_the_parameters_of_a_model_are_those_that_are_counted(shape):
    held = sum(weight.numel() for weight in decoder(shape).parameters())
    assert held == count_parameters(shape, V).total


@EVERY
def test_its_quantizable_layers_have_the_names_and_sizes_that_are_listed(shape):
    layers = [
        (layer.name, *layer.weight.shape)
        for layer in decoder(shape).modules()
        if isinstance(layer, QuantLinear | GroupedQuantLinear) and layer.name != "head"
    ]
    listed = [
        (one.name, *stacked(one), one.out_features, one.in_features) for one in linear_layers(shape)
    ]
    assert sorted(layers) == sorted(listed)


@EVERY
def test_torch_counts_the_same_flops_in_a_forward_and_backward_pass(shape):
    model = decoder(shape)
    model.initialise(0)
    ids = torch.randint(0, V, (B, T), generator=torch.Generator().manual_seed(0))
    counter = FlopCounterMode(display=False)
    # Only plain products are counted, so nothing is rounded and attention is spelled out.
    with unrounded(model), sdpa_kernel(SDPBackend.MATH), counter:
        model(ids).sum().backward()
    assert counter.get_total_flops() == B * T * flops_per_token(shape, vocab_size=V, context=T)
