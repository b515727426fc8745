from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from kernels.formats import Grid
from kernels.presets import PRESETS, compose
from kernels.recipes import Recipe
from kernels.streams import Streams
from sweeps.metrics import Diverged, StepMetrics
from sweeps.shapes import ModelShape
from tests.workers.tiny import BATCH, open_tiny, run, tiny_spec, write_corpus
from workers.history import NonFiniteError
from workers.models.decoder import Decoder
from workers.models.registry import make
from workers.nonfinite import first_nonfinite
from workers.trainee import Trainee

MODEL = ModelShape(name="m", num_layers=2, width=32, num_heads=2, mlp_width=48)
FP16_UNSCALED = replace(PRESETS["fp16"], name="fp16-unscaled", loss_scaling=None)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def ids() -> Tensor:
    return torch.randint(0, 23, (4, 16), generator=torch.Generator().manual_seed(0))


def decoder(recipe: Recipe) -> Decoder:
    model = make(MODEL, vocab_size=23, context=16, recipe=recipe, streams=Streams(sr=0, rht=0))
    model.initialise(0)
    return model


def first(model: nn.Module, ids: Tensor, scale: float = 1.0) -> str | None:
    return first_nonfinite(
        model, lambda: torch.autograd.backward(model(ids).square().sum() * scale)
    )


def poison(value: float, *names: str) -> Callable[[Decoder], None]:
    """Sets one element of each named weight."""

    def spoil(model: Decoder) -> None:
        for name in names:
            model.get_parameter(f"{name}.weight").view(-1)[-1] = value

    return spoil


def enlarge(factor: float, *names: str) -> Callable[[Decoder], None]:
    def spoil(model: Decoder) -> None:
        for name in names:
            model.get_parameter(f"{name}.weight").mul_(factor)

    return spoil


DOWN, UP, GATE = "blocks.1.mlp.down", "blocks.1.mlp.up", "blocks.1.mlp.gate"
OUTPUT = "blocks.0.attention.output"
FORWARD = {
    "a weight": ("ufp4", poison(torch.nan, UP), f"{UP}, fprop operand w is not finite"),
    "the first of two": (
        "ufp4", poison(torch.inf, UP, OUTPUT), f"{OUTPUT}, fprop operand w is not finite"
    ),
    "a gain": (
        "bf16", poison(torch.inf, "blocks.1.mlp_norm"),
        "blocks.1.mlp_norm, its weight is not finite",
    ),
    "an activation": ("fp16", enlarge(1e3, UP, GATE), f"{DOWN}, fprop operand x is not finite"),
    "a product": ("fp16", enlarge(1e5, UP), f"{UP}, fprop product y is not finite"),
}  # fmt: skip


@pytest.mark.parametrize(("recipe", "spoil", "sentence"), FORWARD.values(), ids=FORWARD.keys())
def test_the_first_layer_of_forward_is_named_with_its_operand(ids, recipe, spoil, sentence):
    model = decoder(PRESETS[recipe])
    with torch.no_grad():
        spoil(model)
    assert first(model, ids) == sentence


def test_a_gradient_that_overflows_is_found_where_backward_meets_it_first(ids):
    assert first(decoder(PRESETS["fp16"]), ids, scale=1e7) == "head, dgrad operand dy is not finite"
    model = decoder(PRESETS["fp16"])
    with torch.no_grad():
        enlarge(1e3, "head")(model)
    assert first(model, ids, scale=10.0) == "norm, the gradient of its output is not finite"


def test_a_weight_gradient_beyond_fp32_is_its_layers(ids):
    model = decoder(PRESETS["bf16"])
    assert first(model, ids, scale=1e38) == "head, wgrad product dw is not finite"


@pytest.mark.parametrize("recipe", ["bf16", "ufp4", "nvfp4"])
def test_a_sound_pass_names_nothing_and_leaves_no_hook(ids, recipe):
    model = decoder(PRESETS[recipe])
    assert first(model, ids) is None
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
    assert all(not weight._post_accumulate_grad_hooks for weight in model.parameters())


def test_an_error_in_the_pass_leaves_no_hook_either(ids):
    model = decoder(PRESETS["bf16"])
    with pytest.raises(IndexError):
        first_nonfinite(model, lambda: model(ids + 1000))
    assert not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize("steps_before_it_is_known", [0, 1, 5])
def test_the_step_that_diverged_is_found_however_late_it_becomes_known(
    corpus, tmp_path, steps_before_it_is_known
):
    """Another step would have put NaN into every weight, and the embedding would be named."""
    spec = tiny_spec(corpus, learning_rate=10.0, warmup_tokens=0)
    trainee = Trainee(replace(spec, recipe=FP16_UNSCALED), open_tiny(spec, tmp_path), seconds=0.0)
    for _ in range(2 + steps_before_it_is_known):
        trainee.step()
    with pytest.raises(NonFiniteError) as caught:
        trainee.state()
    assert caught.value.step == 2
    assert str(caught.value) == (
        "training loss became nan at step 2: blocks.0.mlp.down, fprop operand x is not finite"
    )


def test_a_diverged_run_says_where(corpus, tmp_path):
    spec = tiny_spec(corpus, "ufp4", learning_rate=float("inf"), warmup_tokens=0)
    *before, last = run(spec, [100], tmp_path / "run")
    assert [type(event) for event in before] == [StepMetrics]
    assert last == Diverged(
        horizon=None,
        step=2,
        tokens=2 * BATCH,
        detail="training loss became nan at step 2: embedding, its weight is not finite",
    )


def test_a_quantized_run_names_the_linear_layer_whose_block_became_nan(corpus, tmp_path):
    """Under a grid whose FP32 scale overflows, every block of more than 3e-2 does."""
    grid = Grid("tiny", (0.0, 2.0**-133))
    spec = replace(tiny_spec(corpus), recipe=compose(grid, name="tiny"))
    *_, last = run(spec, [100], tmp_path / "run")
    assert isinstance(last, Diverged)
    assert last.step == 1
    assert last.detail == (
        "training loss became nan at step 1: blocks.0.attention.query, "
        "fprop product y is not finite"
    )


def test_a_held_out_loss_says_where_too(corpus, tmp_path):
    spec = tiny_spec(corpus, "ufp4", learning_rate=float("inf"), warmup_tokens=0)
    *_, last = run(spec, [1], tmp_path / "run")
    assert isinstance(last, Diverged)
    assert last.detail == "held-out loss became nan at step 1: embedding, its weight is not finite"


def test_what_overflows_on_the_way_to_its_norm_is_said_to_be_so(corpus, tmp_path):
    """Finite gradients whose squares are not: no layer is at fault."""
    spec = tiny_spec(corpus)
    trainee = Trainee(spec, open_tiny(spec, tmp_path), seconds=0.0)
    trainee.step()
    trainee._history.append(torch.tensor(1.0), torch.tensor(torch.inf))
    with pytest.raises(NonFiniteError, match="gradient norm became inf at step 2: yet no layer's"):
        trainee.scheduled_report()
