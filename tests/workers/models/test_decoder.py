"""What holds of every family: names, recipes, carriers, time, init, graphs and checkpoints."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

from kernels.presets import PRESETS
from kernels.recipe_module import RecipeModule, bf16_forward
from kernels.recipes import Carrier, Rule
from sweeps.counts import count_parameters, linear_layers
from sweeps.shapes import ModelShape
from tests.workers.models.by_hand import ByHand
from tests.workers.models.shapes import (
    CONTEXT,
    EXPERTS,
    MOE,
    SHAPES,
    SWIGLU,
    VOCABULARY,
    made,
    tokens,
)
from workers.models.decoder import Decoder

shapes = pytest.mark.parametrize("name", SHAPES)


def layers_of(model: Decoder) -> list[RecipeModule]:
    return [module for module in model.modules() if isinstance(module, RecipeModule)]


@shapes
def test_parameters_are_as_many_as_counted(name):
    base = SHAPES[name]
    changed = (
        replace(base, num_layers=4),
        replace(base, width=64),
        replace(base, mlp_width=16),
        replace(base, num_heads=2, num_kv_heads=1),
    )
    for shape in (base, *changed):
        total = sum(weight.numel() for weight in made(shape).parameters())
        assert total == count_parameters(shape, VOCABULARY).total


@shapes
def test_every_linear_layer_of_the_blocks_has_its_name_and_follows_the_recipe(name):
    model = made(SHAPES[name], "ufp4")
    layers = {
        path: (layer.name, tuple(layer.weight.shape), layer.recipe.name)
        for path, layer in model.named_modules()
        if isinstance(layer, RecipeModule)
    }
    assert layers.pop("head") == ("head", (VOCABULARY, 32), "bf16")
    assert layers == {
        layer.name: (
            layer.name,
            (layer.stack, layer.out_features, layer.in_features)[".experts." not in layer.name :],
            "ufp4",
        )
        for layer in linear_layers(SHAPES[name])
    }


def test_a_recipe_with_rules_exempts_the_layers_that_they_name():
    rules = (
        Rule(pattern="blocks.1.*", quantize=False),
        Rule(pattern="*.experts.down", quantize=False),
        Rule(pattern="*.shared.*", quantize=False),
    )
    model = made(MOE, replace(PRESETS["ufp4"], rules=rules))
    exempt = {layer.name for layer in layers_of(model) if layer.recipe.is_bf16}
    assert exempt == {
        layer.name
        for layer in layers_of(model)
        if layer.name.startswith("blocks.1.") or ".shared." in layer.name
    } | {"head", "blocks.2.mlp.experts.down"}


def test_the_first_and_last_blocks_that_a_recipe_exempts_stay_in_the_carrier():
    shape = replace(SWIGLU, num_layers=8)
    recipe = replace(PRESETS["ufp4"], exempt_first=0.25, exempt_last=0.125, carrier=Carrier.FP16)
    layers = layers_of(made(shape, recipe))
    quantized = {int(one.name.split(".")[1]) for one in layers if one.recipe.is_quantized}
    assert quantized == {2, 3, 4, 5, 6}
    assert {layer.carrier for layer in layers} == {torch.float16}


def carriers_within(model: Decoder) -> set[torch.dtype]:
    """Types of all that linear layers take and give in a pass."""
    found: set[torch.dtype] = set()

    def look(_: torch.nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        found.update((inputs[0].dtype, output.dtype))

    handles = [layer.register_forward_hook(look) for layer in layers_of(model)]
    with torch.no_grad():
        model(tokens())
    for handle in handles:
        handle.remove()
    return found


@pytest.mark.parametrize("name", ["swiglu", "moe"])
def test_activations_are_of_the_recipes_carrier_and_of_bf16_where_that_is_asked_for(name):
    model = made(SHAPES[name], "fp16")
    assert carriers_within(model) == {torch.float16}
    with bf16_forward(model):
        assert carriers_within(model) == {torch.bfloat16}
        with torch.no_grad():
            assert torch.equal(model(tokens()), made(SHAPES[name], "bf16")(tokens()))
    assert carriers_within(model) == {torch.float16}


@pytest.mark.parametrize("name", ["swiglu", "relu2", "grouped"])
def test_sixteen_bits_stay_close_to_the_formulas_and_fp16_closer(name):
    def deviation(recipe: str) -> float:
        model = made(SHAPES[name], recipe)
        with torch.no_grad():
            # Sharper than the even average.
            model.get_parameter("blocks.0.attention.query_norm.weight").mul_(3.0)
            logits = model(tokens()).double().numpy()
        expected = ByHand(model, SHAPES[name]).logits(tokens().numpy())
        return float(np.abs(logits - expected).max() / np.abs(expected).max())

    assert deviation("bf16") < 0.02
    assert deviation("fp16") < min(0.003, deviation("bf16") / 3)


@pytest.mark.parametrize("recipe", ["bf16", "ufp4"])
@pytest.mark.parametrize("name", ["grouped", "moe"])
def test_a_token_does_not_see_later_ones(name, recipe):
    model = made(SHAPES[name], recipe)
    before = tokens()
    for place in (1, 7, CONTEXT - 1):
        after = before.clone()
        after[:, place:] = (after[:, place:] + 1) % VOCABULARY
        with torch.no_grad():
            a, b = model(before), model(after)
        assert torch.equal(a[:, :place], b[:, :place])
        assert not torch.equal(a[:, place], b[:, place])


def test_a_token_sees_earlier_ones():
    model = made()
    changed = tokens()
    changed[:, 0] = (changed[:, 0] + 1) % VOCABULARY
    with torch.no_grad():
        assert not torch.equal(model(tokens())[:, -1], model(changed)[:, -1])


@pytest.mark.parametrize("name", ["swiglu", "moe"])
def test_the_first_loss_is_that_of_guessing_evenly(name):
    with torch.no_grad():
        logits = made(SHAPES[name])(tokens(8)).float()
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens(8).flatten())
    assert loss.item() == pytest.approx(math.log(VOCABULARY), abs=0.1)


def test_initial_spread_follows_fan_in_and_depth():
    experts = replace(EXPERTS, width=96, shared_width=128)
    model = made(
        ModelShape(
            name="m", num_layers=2, width=64, num_heads=2, mlp_width=256, head_size=48,
            experts=experts,
        )
    )  # fmt: skip
    expected = {
        "blocks.1.attention.query": 64**-0.5,
        "blocks.1.attention.output": (96 * 4) ** -0.5,
        "blocks.0.mlp.up": 64**-0.5,
        "blocks.0.mlp.down": (256 * 4) ** -0.5,
        "blocks.1.mlp.experts.gate": 64**-0.5,
        "blocks.1.mlp.experts.down": (96 * 4) ** -0.5,
        "blocks.1.mlp.shared.down": (128 * 4) ** -0.5,
        "blocks.1.mlp.router": 64**-0.5,
        "head": 1 / 64,
        "embedding": 1.0,
    }
    for layer, deviation in expected.items():
        spread = model.get_parameter(f"{layer}.weight").std().item()
        assert spread == pytest.approx(deviation, rel=0.08)


@pytest.mark.parametrize("name", ["swiglu", "moe"])
def test_weights_are_a_function_of_the_seed_alone(name):
    torch.manual_seed(1)
    first = made(SHAPES[name]).state_dict()
    torch.manual_seed(2)
    again = made(SHAPES[name], "ufp4").state_dict()
    other = made(SHAPES[name], seed=1).state_dict()
    assert all(torch.equal(first[key], again[key]) for key in first)
    matrices = [key for key, weight in first.items() if weight.ndim > 1]
    assert not any(torch.equal(first[key], other[key]) for key in matrices)


def test_initialising_leaves_the_global_generator_alone():
    model = made()
    before = torch.get_rng_state()
    model.initialise(3)
    assert torch.equal(before, torch.get_rng_state())


def loss_and_gradients(run: Callable[[Tensor], Tensor], model: Decoder) -> list[Tensor]:
    model.zero_grad()
    logits = run(tokens())
    torch.autograd.backward(logits.float().logsumexp(-1).sum())
    gradients = [weight.grad for weight in model.parameters()]
    return [logits.detach(), *(gradient for gradient in gradients if gradient is not None)]


def loads(model: Decoder) -> list[Tensor]:
    return [load.clone() for name, load in model.named_buffers() if name.endswith("router.load")]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@shapes
def test_the_whole_model_compiles_into_one_graph_that_serves_every_step(name):
    torch.compiler.reset()
    counter = CompileCounterWithBackend("aot_eager")
    model = made(SHAPES[name], "ufp4")
    quick = torch.compile(model, backend=counter, fullgraph=True)
    for step in range(3):
        model.head.streams.move(step=step)
        expected = loss_and_gradients(model, model)
        once = loads(model)
        ours = loss_and_gradients(quick, model)
        assert all(torch.equal(a, b) for a, b in zip(ours, expected, strict=True))
        assert all(torch.equal(a, 2 * b) for a, b in zip(loads(model), once, strict=True))
        model.balance()
    assert counter.frame_count == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
@pytest.mark.parametrize(("name", "graphs"), [("swiglu", 1), ("moe", 2)])
def test_blocks_of_one_kind_share_a_graph(name, graphs):
    torch.compiler.reset()
    counter = CompileCounterWithBackend("aot_eager")
    model = made(SHAPES[name], "ufp4")
    expected = loss_and_gradients(model, model)
    for block in model.blocks:
        block.compile(backend=counter, fullgraph=True)
    ours = loss_and_gradients(model, model)
    assert all(torch.equal(a, b) for a, b in zip(ours, expected, strict=True))
    assert counter.frame_count == graphs


@pytest.mark.parametrize("recipe", ["bf16", "ufp4"])
@pytest.mark.parametrize("name", ["swiglu", "moe"])
def test_blocks_that_are_checkpointed_change_nothing(name, recipe):
    plain, thrifty = (made(SHAPES[name], recipe, checkpoints=flag) for flag in (False, True))
    expected, ours = (loss_and_gradients(model, model) for model in (plain, thrifty))
    assert all(torch.equal(a, b) for a, b in zip(ours, expected, strict=True))
    runs = []
    thrifty.blocks[0].register_forward_pre_hook(lambda *_: runs.append(1))
    loss_and_gradients(thrifty, thrifty)
    assert len(runs) == 2
    with torch.no_grad():
        assert torch.equal(thrifty(tokens()), plain(tokens()))
