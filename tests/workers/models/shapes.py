"""Small shapes that differ in every dimension, models of them, and token ids."""

from dataclasses import replace

import torch
from torch import Tensor

from kernels.presets import PRESETS
from kernels.recipes import Recipe
from kernels.streams import Streams
from sweeps.shapes import Experts, Mlp, ModelShape, Router
from workers.models.decoder import Decoder
from workers.models.registry import make

VOCABULARY, CONTEXT = 23, 16

SWIGLU = ModelShape(name="m", num_layers=2, width=32, num_heads=2, mlp_width=48)
RELU2 = replace(SWIGLU, mlp=Mlp.RELU2)
GROUPED = replace(SWIGLU, num_heads=4, num_kv_heads=2, head_size=16, rope_base=500.0)
EXPERTS = Experts(count=6, active=2, width=16, shared_width=32, dense_layers=1)
MOE = replace(GROUPED, num_layers=3, experts=EXPERTS)
SOFTMAX = replace(
    MOE, mlp=Mlp.RELU2, experts=replace(EXPERTS, router=Router.SOFTMAX, shared_width=0, active=3)
)
SHAPES = {
    "swiglu": SWIGLU,
    "relu2": RELU2,
    "grouped": GROUPED,
    "moe": MOE,
    "softmax": SOFTMAX,
}


def made(
    shape: ModelShape = SWIGLU,
    recipe: Recipe | str = "bf16",
    *,
    seed: int = 0,
    checkpoints: bool = False,
    streams: Streams | None = None,
) -> Decoder:
    """A model with drawn weights."""
    model = make(
        shape,
        vocab_size=VOCABULARY,
        context=CONTEXT,
        recipe=PRESETS[recipe] if isinstance(recipe, str) else recipe,
        streams=streams or Streams(sr=0, rht=0),
        checkpoints=checkpoints,
    )
    model.initialise(seed)
    return model


def tokens(batch: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(9)
    return torch.randint(0, VOCABULARY, (batch, CONTEXT), generator=generator)
