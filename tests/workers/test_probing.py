"""Probing against tensors captured by the library's own hooks, and weights moved by hand."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from kernels.formats import INT4
from kernels.gemm import LayerPass
from kernels.linear import QuantLinear
from kernels.measures import layer_quality
from kernels.presets import PRESETS, compose
from kernels.quality import LayerQuality
from kernels.recipes import Gemm, Recipe, Rule, Signs
from kernels.reference import fake_quantize
from kernels.streams import Streams
from sweeps.runspec import Diagnostics
from sweeps.shapes import ModelShape
from tests.workers.tiny import tiny_spec, write_corpus
from workers.models.decoder import Decoder
from workers.models.registry import make
from workers.probing import Probing, Watched, measuring, watched

SHAPE = ModelShape(name="two", num_layers=2, width=16, num_heads=1, mlp_width=32)
NAMES = [
    f"blocks.{block}.{part}"
    for block in (0, 1)
    for part in (
        *(f"attention.{word}" for word in ("query", "key", "value", "output")),
        *(f"mlp.{word}" for word in ("gate", "up", "down")),
    )
]


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    return replace(tiny_spec(write_corpus(tmp_path_factory.mktemp("corpus")), "ufp4"), model=SHAPE)


def decoder(recipe: Recipe, streams: Streams | None = None) -> Decoder:
    streams = streams or Streams(sr=3, rht=5, step=7)
    model = make(SHAPE, vocab_size=257, context=32, recipe=recipe, streams=streams)
    model.initialise(0)
    return model


def tokens(seed: int = 0) -> Tensor:
    return torch.randint(0, 257, (2, 33), generator=torch.Generator().manual_seed(seed))


def walk(model: nn.Module, windows: Tensor) -> None:
    """A forward and a backward pass."""
    logits = model(windows[:, :-1]).flatten(0, 1)
    torch.autograd.backward(functional.cross_entropy(logits, windows[:, 1:].flatten()))


def layers_of(model: nn.Module) -> Mapping[str, QuantLinear]:
    return {m.name: m for m in model.modules() if isinstance(m, QuantLinear)}


def captured(model: nn.Module, windows: Tensor) -> dict[str, dict[str, Tensor]]:
    """x and dy of every layer, by hooks of the library."""
    found: dict[str, dict[str, Tensor]] = {}

    def hook(layer: QuantLinear) -> None:
        seen = found.setdefault(layer.name, {})

        def after(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            seen["x"] = inputs[0].detach().flatten(0, 1)
            output.register_hook(  # type: ignore[no-untyped-call]
                lambda dy: seen.update(dy=dy.flatten(0, 1))
            )

        handles.append(layer.register_forward_hook(after))

    handles: list[torch.utils.hooks.RemovableHandle] = []
    for layer in layers_of(model).values():
        hook(layer)
    walk(model, windows)
    for handle in handles:
        handle.remove()
    return found


@pytest.mark.parametrize("measured_under", ["ufp4", "nvfp4", "tetrajet2"])
def test_each_layer_is_measured_on_its_own_x_w_and_dy(measured_under):
    streams = Streams(sr=3, rht=5, step=7)
    model, recipe = decoder(PRESETS["ufp4"], streams), PRESETS[measured_under]
    tensors = captured(model, tokens())
    chosen = watched(model, recipe, ["*"], num_blocks=2)
    with measuring(chosen) as found:
        walk(model, tokens())
    assert sorted(found) == sorted(name for name in NAMES if recipe.quantizes(name, 2))
    for name, quality in found.items():
        call = LayerPass(recipe=recipe, layer=name, streams=streams)
        weight = layers_of(model)[name].weight.detach()
        assert quality == layer_quality(call, {**tensors[name], "w": weight})
        assert [(one.gemm, one.operand) for one in quality.operands] == [
            (gemm, word) for gemm, word, _ in recipe.operands()
        ]
        assert [one.gemm for one in quality.products] == ["fprop", "dgrad", "wgrad"]


def test_a_pass_is_measured_with_the_streams_of_its_forward():
    """Backward may come when they have moved on."""
    streams = Streams(sr=3, rht=5, step=7)
    model = decoder(PRESETS["ufp4"], streams)
    chosen = watched(model, PRESETS["ufp4"], ["blocks.0.mlp.up"], num_blocks=2)

    def quality(step_in_backward: int) -> object:
        streams.move(step=7)
        with measuring(chosen) as found:
            windows = tokens()
            logits = model(windows[:, :-1]).flatten(0, 1)
            streams.move(step=step_in_backward)
            torch.autograd.backward(functional.cross_entropy(logits, windows[:, 1:].flatten()))
        return found

    assert quality(7) == quality(8)


@pytest.mark.parametrize(
    ("globs", "names"),
    [
        (["*"], NAMES),
        (["blocks.1.mlp.*"], NAMES[-3:]),
        (["*.query", "blocks.0.mlp.up"], [NAMES[0], "blocks.0.mlp.up", NAMES[7]]),
        (["head"], []),
        ([], []),
    ],
)
def test_globs_choose_layers_in_the_order_of_the_model_and_never_the_head(globs, names):
    model = decoder(PRESETS["ufp4"])
    chosen = watched(model, PRESETS["ufp4"], globs, num_blocks=2)
    assert [one.layer.name for one in chosen] == names


def test_exempt_layers_and_recipes_without_a_grid_are_not_measured():
    model = decoder(PRESETS["bf16"])
    no_mlp = replace(PRESETS["ufp4"], rules=(Rule(pattern="*.mlp.*", quantize=False),))
    half = replace(PRESETS["ufp4"], exempt_first=0.5)
    for recipe, names in (
        (no_mlp, [name for name in NAMES if "attention" in name]),
        (half, NAMES[7:]),
        (PRESETS["bf16"], []),
        (PRESETS["fp16"], []),
    ):
        chosen = watched(model, recipe, ["*"], num_blocks=2)
        assert [one.layer.name for one in chosen] == names


def test_nobody_looks_at_a_layer_afterwards_even_if_the_pass_broke():
    model = decoder(PRESETS["ufp4"])
    chosen = watched(model, PRESETS["ufp4"], ["*"], num_blocks=2)
    with measuring(chosen):
        assert all(layers_of(model)[name].probe is not None for name in NAMES)

    def break_off() -> None:
        with measuring(chosen):
            model(torch.full((1, 32), 300))

    with pytest.raises(IndexError):
        break_off()
    assert all(layer.probe is None for layer in layers_of(model).values())


def test_a_layer_whose_operands_are_not_finite_is_left_out():
    model = decoder(PRESETS["ufp4"])
    with torch.no_grad():
        layers_of(model)["blocks.1.mlp.up"].weight[0, 0] = torch.inf
    with measuring(watched(model, PRESETS["ufp4"], ["*"], num_blocks=2)) as found:
        walk(model, tokens())
    assert "blocks.1.mlp.down" not in found


def walked(
    probing: Probing, model: nn.Module, steps: range, microbatches: int = 1
) -> Iterator[tuple[int, tuple[LayerQuality, ...]]]:
    """What is taken after each step; weights move a little in between."""
    generator = torch.Generator().manual_seed(9)
    for step in steps:
        for microbatch in range(microbatches):
            with probing.during(step, microbatch=microbatch):
                walk(model, tokens(10 * step + microbatch))
        yield step, probing.taken()
        with torch.no_grad():
            for layer in layers_of(model).values():
                layer.weight.add_(0.02 * torch.randn(layer.weight.shape, generator=generator))


def test_multiples_of_every_are_measured_and_followed_over_the_two_steps_before(spec):
    watching = replace(spec, diagnostics=Diagnostics(every=4, layers=("*.up",)))
    model = decoder(spec.recipe)
    taken = dict(walked(Probing(model, watching, spec.recipe), model, range(1, 13)))
    assert [step for step, layers in taken.items() if layers] == [4, 8, 12]
    for step in (4, 8, 12):
        assert [one.layer for one in taken[step]] == ["blocks.0.mlp.up", "blocks.1.mlp.up"]
        assert all(one.motion is not None and one.motion.flips > 0 for one in taken[step])


def test_what_is_taken_is_gone(spec):
    model = decoder(spec.recipe)
    probing = Probing(model, replace(spec, diagnostics=Diagnostics(every=1)), spec.recipe)
    with probing.during(1, microbatch=0):
        walk(model, tokens())
    assert len(probing.taken()) == len(NAMES)
    assert probing.taken() == ()


def test_a_window_begins_anew_after_a_restart_and_after_a_gap(spec):
    watching = replace(spec, diagnostics=Diagnostics(every=1, layers=("*.up",)))
    model = decoder(spec.recipe)
    probing = Probing(model, watching, spec.recipe)
    followed = {
        step: layers[0].motion is not None
        for steps in (range(1, 5), range(7, 10))
        for step, layers in walked(probing, model, steps)
    }
    assert followed == {1: False, 2: False, 3: True, 4: True, 7: False, 8: False, 9: True}
    probing.restart()
    again = {step: one[0].motion for step, one in walked(probing, model, range(10, 13))}
    assert [motion is None for motion in again.values()] == [True, True, False]


def test_the_first_microbatch_alone_is_measured(spec):
    watching = replace(spec, diagnostics=Diagnostics(every=1, layers=("*.up",)))
    one, two = decoder(spec.recipe), decoder(spec.recipe)
    first = dict(walked(Probing(one, watching, spec.recipe), one, range(1, 2)))
    both = dict(walked(Probing(two, watching, spec.recipe), two, range(1, 2), microbatches=2))
    assert first == both


def test_without_diagnostics_no_layer_is_watched(spec):
    probing = Probing(decoder(spec.recipe), spec, spec.recipe)
    assert not probing.is_watching
    with probing.during(1, microbatch=0):
        pass
    assert probing.taken() == ()


def linear(recipe: Recipe, weight: Tensor) -> Watched:
    out, features = weight.shape
    layer = QuantLinear(
        features, out, recipe=PRESETS["bf16"], name="blocks.0.a", streams=Streams(sr=0, rht=0)
    )
    with torch.no_grad():
        layer.weight.copy_(weight)
    return Watched(layer=layer, recipe=recipe)


def codes_by_hand(weight: Tensor) -> np.ndarray:
    """INT4 codes of 1x16 blocks under a scale in binary64; fit for weights on exact multiples."""
    blocks = weight.double().numpy().reshape(-1, 16)
    codes: np.ndarray = np.rint(blocks / (np.abs(blocks).max(axis=1, keepdims=True) / 7))
    return codes.reshape(weight.shape)


def test_flips_and_oscillations_are_counted_element_by_element():
    one = linear(compose(INT4, name="int4"), torch.zeros(4, 32))
    generator = torch.Generator().manual_seed(2)
    base = torch.randint(-6, 7, (4, 32), generator=generator).float()
    base[:, ::16] = 7.0
    second, third = base.clone(), base.clone()
    second[0, 1:11] += 1.0  # ten move, and four of them come back
    third[0, 5:11] += 1.0
    third[2, 3] -= 1.0  # one that moves late is no flip
    codes = []
    for weight in (base, second, third):
        with torch.no_grad():
            one.layer.weight.copy_(weight)
        found = one.codes()
        assert found is not None
        assert (found.numpy() == codes_by_hand(weight)).all()
        codes.append(found)
    motion = one.motion(codes)
    assert motion is not None
    assert motion.flips == 10 / 128
    assert motion.oscillations == 4 / 128
    assert one.motion(codes[:2]) is None


@pytest.mark.parametrize(
    "recipe",
    [
        compose(INT4, name="turning", rht=["fprop"], signs=Signs.STEP),
        compose(INT4, name="drawn", sr=["w"]),
    ],
    ids=lambda recipe: recipe.name,
)
def test_a_weight_that_stands_still_has_no_flips_whatever_changes_with_the_step(spec, recipe):
    streams = Streams(sr=3, rht=5)
    model = decoder(recipe, streams)
    probing = Probing(model, replace(spec, diagnostics=Diagnostics(every=3)), recipe)
    for step in (1, 2, 3):
        streams.move(step=step - 1)
        with probing.during(step, microbatch=0):
            walk(model, tokens())
    for layer in probing.taken():
        assert layer.motion is not None
        assert (layer.motion.flips, layer.motion.oscillations) == (0, 0)


def test_a_weight_that_fprop_leaves_alone_has_no_codes_and_no_motion():
    quantized = PRESETS["ufp4"]
    one = linear(replace(quantized, fprop=Gemm()), torch.randn(16, 16))
    assert one.codes() is None
    assert one.motion([None, None, None]) is None


@pytest.mark.parametrize("recipe", ["e4m3", "ufp4-no-rht", "nvfp4"])
def test_mismatch_is_the_distance_of_the_two_quantized_weights(recipe):
    weight = torch.randn(32, 48, generator=torch.Generator().manual_seed(4)).bfloat16().float()
    one = linear(PRESETS[recipe], weight)
    rule = PRESETS[recipe].fprop.right
    along_in = fake_quantize(weight, rule, 0).dequantized().double()
    along_out = fake_quantize(weight, rule, 0, axis=0).dequantized().double()
    expected = (
        along_in - along_out
    ).square().mean().sqrt() / weight.double().square().mean().sqrt()
    codes = one.codes()
    motion = one.motion([codes, codes, codes])
    assert motion is not None
    assert motion.mismatch == pytest.approx(float(expected), rel=1e-6, abs=1e-12)
    assert (motion.mismatch == 0) == (recipe == "nvfp4")  # square blocks are the same both ways


def test_the_mismatch_of_transformed_weights_is_that_of_independent_errors():
    """Two RHTs of a Gaussian weight leave errors of about -21 dB each, which add up."""
    weight = torch.randn(64, 64, generator=torch.Generator().manual_seed(4))
    one = linear(PRESETS["ufp4"], weight)
    codes = one.codes()
    motion = one.motion([codes, codes, codes])
    assert motion is not None
    assert motion.mismatch == pytest.approx((2 * 10**-2.12) ** 0.5, rel=0.05)


def test_a_weight_of_zeros_has_no_motion_and_no_mismatch():
    one = linear(PRESETS["ufp4"], torch.zeros(16, 16))
    codes = one.codes()
    motion = one.motion([codes, codes, codes])
    assert motion is not None
    assert (motion.flips, motion.oscillations, motion.mismatch) == (0, 0, 0)
