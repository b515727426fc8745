import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

from kernels.linear import QuantLinear, bf16_forward
from kernels.presets import PRESETS
from kernels.recipes import Carrier, Rule
from kernels.streams import Streams
from sweeps.counts import linear_layers, non_embedding_parameters
from sweeps.shapes import Mlp, ModelShape
from workers.model import Decoder, RMSNorm, rotate, rotations

VOCABULARY, CONTEXT = 23, 16

Array = np.ndarray[Any, Any]
SHAPES = {
    mlp: ModelShape(name="m", num_layers=2, width=32, num_heads=2, mlp_width=48, mlp=mlp)
    for mlp in Mlp
}


def decoder(
    shape: ModelShape = SHAPES[Mlp.SWIGLU],
    recipe: str = "bf16",
    seed: int = 0,
    checkpoints: bool = False,
) -> Decoder:
    streams = Streams(sr=0, rht=0)
    model = Decoder(shape, VOCABULARY, CONTEXT, PRESETS[recipe], streams, checkpoints=checkpoints)
    model.initialise(seed)
    return model


def tokens(batch: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(9)
    return torch.randint(0, VOCABULARY, (batch, CONTEXT), generator=generator)


def embedding_and_head(model: Decoder) -> int:
    return model.embedding.weight.numel() + model.head.weight.numel()


@pytest.mark.parametrize("mlp", list(Mlp))
def test_parameters_are_as_many_as_counted(mlp):
    base = SHAPES[mlp]
    changed = (
        replace(base, num_layers=3),
        replace(base, width=64),
        replace(base, mlp_width=16),
        replace(base, num_heads=1),
    )
    for shape in (base, *changed):
        model = decoder(shape)
        total = sum(weight.numel() for weight in model.parameters())
        assert total - embedding_and_head(model) == non_embedding_parameters(shape)


@pytest.mark.parametrize("mlp", list(Mlp))
def test_every_linear_layer_of_the_blocks_has_its_name_and_follows_the_recipe(mlp):
    model = decoder(SHAPES[mlp], "ufp4")
    layers = {
        path: (layer.name, layer.in_features, layer.out_features, layer.active.name)
        for path, layer in model.named_modules()
        if isinstance(layer, QuantLinear)
    }
    assert layers.pop("head") == ("head", 32, VOCABULARY, "bf16")
    assert layers == {
        layer.name: (layer.name, layer.in_features, layer.out_features, "ufp4")
        for layer in linear_layers(SHAPES[mlp])
    }


def test_a_recipe_with_rules_exempts_the_layers_that_they_name():
    rule = Rule(pattern="blocks.1.*", quantize=False)
    recipe = replace(PRESETS["ufp4"], rules=(rule,))
    model = Decoder(SHAPES[Mlp.SWIGLU], VOCABULARY, CONTEXT, recipe, Streams(sr=0, rht=0))
    active = {
        layer.name: layer.active.is_bf16
        for layer in model.modules()
        if isinstance(layer, QuantLinear)
    }
    assert {name for name, is_bf16 in active.items() if is_bf16} == {
        name for name in active if name.startswith("blocks.1.") or name == "head"
    }


def quantized_blocks(model: Decoder) -> set[int]:
    return {
        int(layer.name.split(".")[1])
        for layer in model.modules()
        if isinstance(layer, QuantLinear) and layer.active.is_quantized
    }


def test_the_first_and_last_blocks_that_a_recipe_exempts_stay_in_the_carrier():
    shape = replace(SHAPES[Mlp.SWIGLU], num_layers=8)
    recipe = replace(PRESETS["ufp4"], exempt_first=0.25, exempt_last=0.125, carrier=Carrier.FP16)
    model = Decoder(shape, VOCABULARY, CONTEXT, recipe, Streams(sr=0, rht=0))
    assert quantized_blocks(model) == {2, 3, 4, 5, 6}
    assert {layer.carrier for layer in model.modules() if isinstance(layer, QuantLinear)} == {
        torch.float16
    }


def carriers_within(model: Decoder) -> set[torch.dtype]:
    """Types of all that linear layers take and give in a pass."""
    found: set[torch.dtype] = set()

    def look(_: torch.nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        found.update((inputs[0].dtype, output.dtype))

    layers = [module for module in model.modules() if isinstance(module, QuantLinear)]
    handles = [layer.register_forward_hook(look) for layer in layers]
    with torch.no_grad():
        assert model(tokens()).dtype is torch.float32
    for handle in handles:
        handle.remove()
    return found


def test_activations_are_of_the_recipes_carrier_and_of_bf16_where_that_is_asked_for():
    model = decoder(recipe="fp16")
    assert carriers_within(model) == {torch.float16}
    with bf16_forward(model):
        assert carriers_within(model) == {torch.bfloat16}
        with torch.no_grad():
            assert torch.equal(model(tokens()), decoder(recipe="bf16")(tokens()))
    assert carriers_within(model) == {torch.float16}


@pytest.mark.parametrize("mlp", list(Mlp))
def test_fp16_is_closer_to_the_formulas_than_bf16(mlp):
    expected = by_hand(decoder(SHAPES[mlp]), SHAPES[mlp], tokens().numpy())

    def deviation(recipe: str) -> float:
        with torch.no_grad():
            logits = decoder(SHAPES[mlp], recipe)(tokens()).numpy()
        return float(np.abs(logits - expected).max() / np.abs(expected).max())

    assert deviation("fp16") < 0.003
    assert deviation("fp16") < deviation("bf16") / 3


@pytest.mark.parametrize("mlp", list(Mlp))
def test_logits_equal_the_formulas_in_double_precision(mlp):
    model = decoder(SHAPES[mlp])
    with torch.no_grad():
        model.get_parameter("blocks.0.attention.query_norm.weight").mul_(
            3.0
        )  # sharper than the even average
        logits = model(tokens())
    expected = by_hand(model, SHAPES[mlp], tokens().numpy())
    deviation = np.abs(logits.numpy() - expected).max() / np.abs(expected).max()
    assert deviation < 0.02  # BF16 activations


@pytest.mark.parametrize("recipe", ["bf16", "ufp4"])
def test_a_token_does_not_see_later_ones(recipe):
    model = decoder(recipe=recipe)
    before = tokens()
    for place in (1, 7, CONTEXT - 1):
        after = before.clone()
        after[:, place:] = (after[:, place:] + 1) % VOCABULARY
        with torch.no_grad():
            a, b = model(before), model(after)
        assert torch.equal(a[:, :place], b[:, :place])
        assert not torch.equal(a[:, place], b[:, place])


def test_a_token_sees_earlier_ones():
    model = decoder()
    changed = tokens()
    changed[:, 0] = (changed[:, 0] + 1) % VOCABULARY
    with torch.no_grad():
        assert not torch.equal(model(tokens())[:, -1], model(changed)[:, -1])


def test_scores_of_rotated_vectors_depend_on_their_distance_alone():
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 32, generator=generator)
    turns = rotations(64, 32)

    def everywhere(x: Tensor) -> Tensor:
        return rotate(x.expand(1, 64, 1, 32).contiguous(), turns)[0, :, 0]

    scores = everywhere(q) @ everywhere(k).T
    for distance in (-40, -3, 0, 1, 17):
        diagonal = scores.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), atol=1e-4, rtol=0)
    assert scores.diagonal(1)[0] != pytest.approx(scores.diagonal(2)[0].item(), abs=1e-3)


def test_rotation_keeps_lengths_and_leaves_position_zero():
    x = torch.randn(1, 8, 3, 16, generator=torch.Generator().manual_seed(0))
    rotated = rotate(x, rotations(8, 16))
    torch.testing.assert_close(rotated.norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(rotated[:, 0], x[:, 0])


def test_norm_gives_rows_of_unit_mean_square_times_the_gain():
    norm = RMSNorm(32)
    with torch.no_grad():
        norm.weight.fill_(3.0)
    x = torch.randn(5, 32, generator=torch.Generator().manual_seed(0)) * 100
    torch.testing.assert_close(norm(x).square().mean(-1), torch.full((5,), 9.0))


def test_the_first_loss_is_that_of_guessing_evenly():
    model = decoder()
    with torch.no_grad():
        logits = model(tokens(8))
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens(8).flatten())
    assert loss.item() == pytest.approx(math.log(VOCABULARY), abs=0.1)


def test_initial_spread_follows_fan_in_and_depth():
    model = decoder(ModelShape(name="m", num_layers=2, width=64, num_heads=2, mlp_width=256))
    expected = {
        "blocks.1.attention.query": 64**-0.5,
        "blocks.1.attention.output": (64 * 4) ** -0.5,
        "blocks.1.mlp.up": 64**-0.5,
        "blocks.1.mlp.down": (256 * 4) ** -0.5,
        "head": 1 / 64,
        "embedding": 1.0,
    }
    for layer, deviation in expected.items():
        spread = model.get_parameter(f"{layer}.weight").std().item()
        assert spread == pytest.approx(deviation, rel=0.05)


def test_weights_are_a_function_of_the_seed_alone():
    torch.manual_seed(1)
    first = decoder().state_dict()
    torch.manual_seed(2)
    again, other = decoder(recipe="ufp4").state_dict(), decoder(seed=1).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["head.weight"], other["head.weight"])


def test_initialising_leaves_the_global_generator_alone():
    model = decoder()
    before = torch.get_rng_state()
    model.initialise(3)
    assert torch.equal(before, torch.get_rng_state())


def by_hand(model: Decoder, shape: ModelShape, ids: Array) -> Array:
    """The module docstring of workers.model, written out in FP64."""
    weights = {name: w.detach().double().numpy() for name, w in model.named_parameters()}

    def norm(x: Array, name: str) -> Array:
        rms: Array = np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)
        y: Array = x / rms * weights[f"{name}.weight"]
        return y

    def linear(x: Array, name: str) -> Array:
        y: Array = x @ weights[f"{name}.weight"].T
        return y

    def heads(x: Array) -> Array:
        y: Array = x.reshape(*x.shape[:2], shape.num_heads, -1)
        return y

    def turn(x: Array) -> Array:
        positions, width = x.shape[1], x.shape[-1]
        angle = np.outer(np.arange(positions), 1e4 ** (-np.arange(0, width, 2) / width))[:, None]
        a, b = x[..., 0::2], x[..., 1::2]
        pairs = (a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle))
        return np.stack(pairs, -1).reshape(x.shape)

    x = weights["embedding.weight"][ids]
    future = np.triu(np.full((ids.shape[1], ids.shape[1]), -np.inf), 1)
    for index in range(shape.num_layers):
        name = f"blocks.{index}"
        y = norm(x, f"{name}.attention_norm")
        part = f"{name}.attention"
        q = turn(norm(heads(linear(y, f"{part}.query")), f"{part}.query_norm"))
        k = turn(norm(heads(linear(y, f"{part}.key")), f"{part}.key_norm"))
        v = heads(linear(y, f"{part}.value"))
        scores = np.einsum("bthd,bshd->bhts", q, k) / np.sqrt(q.shape[-1]) + future
        share = np.exp(scores - scores.max(-1, keepdims=True))
        share /= share.sum(-1, keepdims=True)
        mixed = np.einsum("bhts,bshd->bthd", share, v).reshape(x.shape)
        x = x + linear(mixed, f"{part}.output")
        y, part = norm(x, f"{name}.mlp_norm"), f"{name}.mlp"
        up = linear(y, f"{part}.up")
        if shape.mlp is Mlp.SWIGLU:
            gate = linear(y, f"{part}.gate")
            inner = gate / (1 + np.exp(-gate)) * up
        else:
            inner = np.maximum(up, 0) ** 2
        x = x + linear(inner, f"{part}.down")
    return linear(norm(x, "norm"), "head")


def loss_and_gradients(run: Callable[[Tensor], Tensor], model: Decoder) -> list[Tensor]:
    model.zero_grad()
    logits = run(tokens())
    torch.autograd.backward(logits.logsumexp(-1).sum())
    gradients = [weight.grad for weight in model.parameters()]
    return [logits.detach(), *(gradient for gradient in gradients if gradient is not None)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("mlp", list(Mlp))
def test_the_whole_model_compiles_into_one_graph_that_serves_every_step(mlp):
    torch.compiler.reset()
    counter = CompileCounterWithBackend("aot_eager")
    model = decoder(SHAPES[mlp], "ufp4")
    quick = torch.compile(model, backend=counter, fullgraph=True)
    for step in range(3):
        model.head.streams.move(step=step)
        expected = loss_and_gradients(model, model)
        ours = loss_and_gradients(quick, model)
        assert all(torch.equal(a, b) for a, b in zip(ours, expected, strict=True))
    assert counter.frame_count == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_the_blocks_of_a_model_share_a_graph():
    torch.compiler.reset()
    counter = CompileCounterWithBackend("aot_eager")
    model = decoder(recipe="ufp4")
    expected = loss_and_gradients(model, model)
    for block in model.blocks:
        block.compile(backend=counter, fullgraph=True)
    ours = loss_and_gradients(model, model)
    assert all(torch.equal(a, b) for a, b in zip(ours, expected, strict=True))
    assert counter.frame_count == 1


@pytest.mark.parametrize("recipe", ["bf16", "ufp4"])
def test_blocks_that_are_checkpointed_change_nothing(recipe):
    plain, thrifty = decoder(recipe=recipe), decoder(recipe=recipe, checkpoints=True)
    expected, ours = (loss_and_gradients(model, model) for model in (plain, thrifty))
    assert all(torch.equal(a, b) for a, b in zip(ours, expected, strict=True))
    runs = []
    thrifty.blocks[0].register_forward_pre_hook(lambda *_: runs.append(1))
    loss_and_gradients(thrifty, thrifty)
    assert len(runs) == 2
    with torch.no_grad():
        assert torch.equal(thrifty(tokens()), plain(tokens()))
