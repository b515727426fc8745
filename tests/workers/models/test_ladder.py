"""Every model that has a name can be built, without memory for its weights."""

import pytest
import torch

from kernels.presets import PRESETS as RECIPES
from kernels.streams import Streams
from sweeps.counts import count_parameters, linear_layers
from sweeps.families.ladder import PRESETS
from workers.models.registry import make

VOCABULARY = 50_304


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_has_the_parameters_that_are_counted(name):
    shape = PRESETS[name]
    with torch.device("meta"):
        model = make(
            shape,
            vocab_size=VOCABULARY,
            context=2048,
            recipe=RECIPES["ufp4"],
            streams=Streams(sr=0, rht=0),
        )
    counted = count_parameters(shape, VOCABULARY)
    parts = {name: weight.numel() for name, weight in model.named_parameters()}
    buckets = {
        "embedding": sum(size for name, size in parts.items() if "embedding" in name),
        "head": sum(size for name, size in parts.items() if name.startswith("head")),
        "router": sum(size for name, size in parts.items() if "router" in name),
        "norms": sum(size for name, size in parts.items() if "norm" in name),
    }
    assert {name: getattr(counted, name) for name in buckets} == buckets
    assert sum(parts.values()) == counted.total
    assert {f"{layer.name}.weight" for layer in linear_layers(shape)} <= parts.keys()
