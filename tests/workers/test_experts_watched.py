"""Routed experts under the watch of diagnostics and of the search for what is not finite."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from kernels.gemm import LayerPass
from kernels.grouped import GroupedQuantLinear
from kernels.measures import layer_quality
from kernels.presets import PRESETS
from kernels.streams import Streams
from sweeps.runspec import Diagnostics
from tests.workers.models.shapes import EXPERTS, MOE, made, tokens
from tests.workers.tiny import tiny_spec, write_corpus
from workers.models.decoder import Decoder
from workers.nonfinite import first_nonfinite
from workers.probing import Probing, measuring, watched

STACKS = [
    f"blocks.{block}.mlp.experts.{word}" for block in (1, 2) for word in ("gate", "up", "down")
]
DOWN = "blocks.1.mlp.experts.down"


def walk(model: nn.Module) -> None:
    torch.autograd.backward(model(tokens()).float().logsumexp(-1).sum())


def captured(model: Decoder, name: str) -> dict[str, Tensor]:
    """x, dy, w and ends of a stack, by hooks of the library."""
    found: dict[str, Tensor] = {}

    def after(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        found["x"], found["ends"] = (tensor.detach() for tensor in inputs)
        output.register_hook(lambda dy: found.update(dy=dy))  # type: ignore[no-untyped-call]

    stack = model.get_submodule(name)
    handle = stack.register_forward_hook(after)
    walk(model)
    handle.remove()
    assert isinstance(stack, GroupedQuantLinear)
    return {**found, "w": stack.weight.detach()}


@pytest.mark.parametrize("followed", ["bf16", "ufp4"])
@pytest.mark.parametrize("measured_under", ["ufp4", "nvfp4"])
def test_each_expert_is_measured_on_its_own_rows_and_weight(followed, measured_under):
    streams, recipe = Streams(sr=3, rht=5, step=7), PRESETS[measured_under]
    model = made(MOE, followed, streams=streams)
    tensors = captured(model, DOWN)
    chosen = watched(model, recipe, [DOWN], num_blocks=MOE.num_layers)
    with measuring(chosen) as found:
        walk(model)
    measured = 0
    for expert, (start, end) in enumerate(pairwise([0, *tensors["ends"].tolist()])):
        name = f"{DOWN}.{expert}"
        assert (name in found) == (end > start)
        if end > start:
            call = LayerPass(recipe=recipe, layer=name, streams=streams)
            own = {word: tensors[word][start:end] for word in ("x", "dy")}
            assert found[name] == layer_quality(call, {**own, "w": tensors["w"][expert]})
            measured += 1
    assert measured == len(found) > 1


@pytest.mark.parametrize(
    ("globs", "names"),
    [
        (["*.experts.*"], [f"{stack}.{expert}" for stack in STACKS for expert in range(6)]),
        ([DOWN], [f"{DOWN}.{expert}" for expert in range(6)]),
        (["*.experts.down.3"], [f"{stack}.3" for stack in STACKS if stack.endswith("down")]),
        (["blocks.1.mlp.shared.up"], ["blocks.1.mlp.shared.up"]),
        (["*router*"], []),
    ],
)
def test_globs_choose_stacks_and_single_experts(globs, names):
    model = made(MOE, "ufp4")
    chosen = watched(model, PRESETS["ufp4"], globs, num_blocks=MOE.num_layers)
    assert [one.name for one in chosen] == names


def test_the_motion_of_each_experts_weight_is_followed(tmp_path):
    spec = tiny_spec(write_corpus(tmp_path), "ufp4")
    watching = Diagnostics(every=3, layers=(DOWN,))
    spec = replace(spec, model=MOE, diagnostics=watching)
    model = made(MOE, "ufp4")
    probing = Probing(model, spec, spec.recipe)
    weight = model.get_parameter(f"{DOWN}.weight")
    for step in (1, 2, 3):
        with probing.during(step, microbatch=0):
            walk(model)
        with torch.no_grad():
            weight[2].neg_()
    by_name = {one.layer: one.motion for one in probing.taken()}
    for name, motion in by_name.items():
        assert motion is not None
        if name.endswith(".2"):
            assert motion.flips == motion.oscillations > 0.5
        else:
            assert motion.flips == 0


def poison(name: str, *place: int) -> Callable[[Decoder], None]:
    def spoil(model: Decoder) -> None:
        model.get_parameter(f"{name}.weight")[place] = torch.nan

    return spoil


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (poison(DOWN, 3, 1, 2), f"{DOWN}.3, fprop operand w is not finite"),
        (poison("blocks.2.mlp.shared.up", 0, 0), "blocks.2.mlp.shared.up, fprop operand w"),
        (poison("blocks.1.mlp.router", 2, 5), "blocks.1.mlp.router, its weight is not finite"),
    ],
)
def test_an_expert_whose_weight_is_not_finite_is_named(spoil, sentence):
    model = made(MOE, "ufp4")
    with torch.no_grad():
        spoil(model)
    found = first_nonfinite(model, lambda: walk(model))
    assert found is not None
    assert found.startswith(sentence)


def busiest(model: Decoder) -> int:
    ends = captured(model, DOWN)["ends"].tolist()
    return max(range(EXPERTS.count), key=lambda expert: ends[expert] - [0, *ends][expert])


def test_the_expert_whose_product_overflows_is_named():
    model = made(MOE, "fp16")
    expert = busiest(model)
    with torch.no_grad():
        model.get_parameter("blocks.1.mlp.experts.up.weight")[expert] *= 1e6
    found = first_nonfinite(model, lambda: walk(model))
    assert found == f"blocks.1.mlp.experts.up.{expert}, fprop product y is not finite"


def test_the_expert_whose_gradient_overflows_is_named():
    model = made(MOE, "bf16")
    expert = busiest(model)
    stack = model.get_submodule(DOWN)

    def spoil(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        start = [0, *inputs[1].tolist()][expert]
        mask = torch.zeros(len(output), 1, dtype=output.dtype)
        mask[start] = torch.inf
        output.register_hook(lambda dy: dy + mask)  # type: ignore[no-untyped-call]
        return output

    stack.register_forward_hook(spoil)
    found = first_nonfinite(model, lambda: walk(model))
    assert found == f"{DOWN}.{expert}, dgrad operand dy is not finite"


def test_a_sound_pass_names_nothing():
    model = made(MOE, "nvfp4")
    assert first_nonfinite(model, lambda: walk(model)) is None
