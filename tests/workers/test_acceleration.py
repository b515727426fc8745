"""However a pass is carried out, it gives the bits of the pass as written.

Recording is played by a function that is called again, which like a graph always reads and writes
the same memory; compiling stops before kernels are generated.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

from kernels.presets import PRESETS
from kernels.recipe_module import RecipeModule
from kernels.recipes import Recipe
from kernels.streams import Streams
from sweeps.errors import GridlawError
from sweeps.runspec import Evaluation, RunSpec
from sweeps.shapes import Experts, ModelShape
from sweeps.sources import CorpusKind, CorpusRef, TokenizerRef
from sweeps.training import Training
from workers.acceleration import INDUCTOR, SMALL, Pass, Passes, Way, way_of
from workers.models.decoder import Decoder
from workers.models.registry import build
from workers.nonfinite import first_nonfinite
from workers.recording import cuda_graph

CPU, GPU = torch.device("cpu"), torch.device("cuda")
CONTEXT = 16
DENSE = ModelShape(name="d", num_layers=3, width=32, num_heads=2, mlp_width=32)
MIXTURE = replace(
    DENSE, experts=Experts(count=4, active=2, width=32, shared_width=32, dense_layers=1)
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.script_method:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),
]


def spec(shape: ModelShape = DENSE, recipe: Recipe = PRESETS["ufp4"]) -> RunSpec:
    return RunSpec(
        model=shape,
        recipe=recipe,
        corpus=CorpusRef(
            name="stdlib", kind=CorpusKind.STDLIB, fingerprint="0", num_bytes=1, num_documents=1
        ),
        tokenizer=TokenizerRef(),
        training=Training(
            context=CONTEXT, batch_tokens=128, learning_rate=0.01, warmup_tokens=128,
            microbatch_tokens=64,
        ),
        evaluation=Evaluation(held_out=0.1, tokens=64),
    )  # fmt: skip


class Model:
    """A model with drawn weights and its pass as written."""

    def __init__(self, shape: ModelShape = DENSE, recipe: Recipe = PRESETS["ufp4"]) -> None:
        self.streams = Streams(sr=1, rht=2)
        self.decoder: Decoder = build(spec(shape, recipe), self.streams)
        self.decoder.initialise(0)

    def run(self, windows: Tensor) -> Tensor:
        logits = self.decoder(windows[:, :-1]).float().flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(logits, windows[:, 1:].flatten()) / 2
        torch.autograd.backward(loss)
        return loss.detach()

    def steps(self, run: Pass, count: int = 3) -> Iterator[list[Tensor]]:
        """Losses and gradients of some steps of two microbatches, the weights moved by each."""
        for step in range(count):
            losses = []
            for index in range(2):
                self.streams.move(step=step, microbatch=index)
                losses.append(run(windows(step, index)).clone())
            yield [*losses, *(gradient.clone() for gradient in self.gradients())]
            with torch.no_grad():
                for weight, gradient in zip(
                    self.decoder.parameters(), self.gradients(), strict=True
                ):
                    weight.sub_(0.1 * gradient)
                    weight.grad = None

    def gradients(self) -> list[Tensor]:
        gradients = [weight.grad for weight in self.decoder.parameters()]
        return [gradient for gradient in gradients if gradient is not None]


def windows(step: int, index: int) -> Tensor:
    generator = torch.Generator().manual_seed(10 * step + index)
    return torch.randint(256, (4, CONTEXT + 1), generator=generator)


def called_again(function: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """As a recording: the result lies where the first one lay."""
    result = function().clone()

    def replay() -> Tensor:
        return result.copy_(function())

    return replay


def on_gpu(run: Pass) -> Pass:
    return lambda part: run(part.to(GPU))


def recorded(model: Model) -> Passes:
    return Passes(model.decoder, model.run, Way.GRAPH, record=called_again)


def compiled(model: Model, backend: Any = "aot_eager") -> Passes:
    torch.compiler.reset()
    return Passes(model.decoder, model.run, Way.BLOCKS, compiler={"backend": backend})


def assert_same(ours: list[Tensor], theirs: list[Tensor]) -> None:
    assert len(ours) == len(theirs)
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))


@pytest.mark.parametrize(
    ("shape", "ranks", "device", "way"),
    [
        (DENSE, 1, CPU, Way.WRITTEN),
        (MIXTURE, 4, CPU, Way.WRITTEN),
        (DENSE, 1, GPU, Way.GRAPH),
        (DENSE, 2, GPU, Way.BLOCKS),
        (MIXTURE, 1, GPU, Way.BLOCKS),
        (replace(DENSE, width=SMALL // 64), 1, GPU, Way.GRAPH),
        (replace(DENSE, width=SMALL // 64 + 1), 1, GPU, Way.BLOCKS),
    ],
)
def test_small_dense_models_are_recorded_and_others_compiled_on_a_gpu(shape, ranks, device, way):
    assert way_of(spec(shape), device, ranks=ranks) is way


@pytest.mark.parametrize("recipe", ["bf16", "ufp4"])
def test_a_recorded_pass_gives_every_step_what_the_written_one_gives(recipe):
    plain, ours = Model(recipe=PRESETS[recipe]), Model(recipe=PRESETS[recipe])
    for expected, found in zip(plain.steps(plain.run), ours.steps(recorded(ours)), strict=True):
        assert_same(found, expected)


def test_a_recorded_pass_adds_to_gradients_that_stay_where_they_are():
    model = Model()
    passes = recorded(model)
    addresses = [
        [gradient.data_ptr() for gradient in model.gradients()] for _ in model.steps(passes)
    ]
    assert addresses[0] == addresses[1] == addresses[2]


def test_gradients_of_another_pass_are_kept_when_one_is_recorded_after_it():
    plain, ours = Model(), Model()
    passes = recorded(ours)
    runs: list[Pass] = [ours.run, passes, passes]
    for index, run in enumerate(runs):
        plain.run(windows(0, index))
        run(windows(0, index))
    assert len(ours.gradients()) == len(list(ours.decoder.parameters()))
    assert_same(ours.gradients(), plain.gradients())


@pytest.mark.slow
def test_compiled_blocks_give_what_the_written_ones_give_with_one_graph_for_each_kind():
    shape = replace(MIXTURE, num_layers=3)
    plain, ours = Model(shape), Model(shape)
    counter = CompileCounterWithBackend("aot_eager")
    with torch._dynamo.config.patch(recompile_limit=1):
        passes = compiled(ours, counter)
        assert_probes_change_nothing(plain, ours, passes)
    assert counter.frame_count == 2


def test_probes_see_a_pass_that_would_be_recorded():
    plain, ours = Model(), Model()
    assert_probes_change_nothing(plain, ours, recorded(ours))


def assert_probes_change_nothing(plain: Model, ours: Model, passes: Passes) -> None:
    """One step, one that is probed, one more."""
    layer = ours.decoder.get_submodule("blocks.1.attention.query")
    assert isinstance(layer, RecipeModule)
    seen: list[str] = []
    expected, found = plain.steps(plain.run), ours.steps(passes)
    assert_same(next(found), next(expected))
    layer.probe = lambda word, _tensor: seen.append(word)
    assert_same(next(found), next(expected))
    assert seen == ["x", "dy"] * 2
    layer.probe = None
    assert_same(next(found), next(expected))
    assert seen == ["x", "dy"] * 2
    assert_same(list(ours.decoder.buffers()), list(plain.decoder.buffers()))


@pytest.mark.slow
@pytest.mark.parametrize("make", [recorded, compiled])
def test_the_place_where_a_pass_leaves_the_finite_numbers_is_found_as_written(make):
    model = Model(replace(DENSE, num_layers=1), PRESETS["bf16"])
    passes = make(model)
    for _ in model.steps(passes, count=1):
        pass
    with torch.no_grad():
        model.decoder.get_submodule("blocks.0.mlp.up").get_parameter("weight")[0, 0] = torch.inf
    with passes.as_written():
        found = first_nonfinite(model.decoder, lambda: passes(windows(1, 0)))
    assert found is not None
    assert found.startswith("blocks.0.mlp.up, fprop operand w")


@pytest.mark.slow
def test_the_compiler_knows_the_options_that_keep_the_roundings():
    import torch._inductor as inductor

    assert set(INDUCTOR["options"]) <= set(inductor.list_options())
    doubled = torch.compile(lambda x: x * 2, **INDUCTOR, backend="inductor")
    assert torch.equal(doubled(torch.ones(3)), torch.full((3,), 2.0))


@pytest.mark.gpu
@pytest.mark.parametrize("recipe", ["bf16", "ufp4", "fp16"])
def test_a_cuda_graph_gives_the_bits_of_the_pass_as_written(recipe):
    plain, ours = Model(recipe=PRESETS[recipe]), Model(recipe=PRESETS[recipe])
    for model in (plain, ours):
        model.decoder.to(GPU)
    passes = Passes(ours.decoder, ours.run, Way.GRAPH)

    pairs = zip(plain.steps(on_gpu(plain.run)), ours.steps(on_gpu(passes)), strict=True)
    for expected, found in pairs:
        assert_same(found, expected)


@pytest.mark.gpu
def test_a_pass_that_waits_for_the_gpu_is_refused_with_the_way_out():
    number = torch.ones((), device=GPU)
    with pytest.raises(GridlawError, match="GRIDLAW_ACCELERATE=false trains without"):
        cuda_graph(lambda: number * number.item())


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [DENSE, MIXTURE])
def test_blocks_compiled_for_the_gpu_stay_near_the_written_ones_and_repeat_their_bits(shape):
    models = [Model(shape) for _ in range(3)]
    for model in models:
        model.decoder.to(GPU)
    torch.compiler.reset()
    runs: list[Pass] = [
        models[0].run,
        *(Passes(model.decoder, model.run, Way.BLOCKS) for model in models[1:]),
    ]
    written, first, second = (
        next(model.steps(on_gpu(run))) for model, run in zip(models, runs, strict=True)
    )
    assert_same(first, second)
    for ours, theirs in zip(first[:2], written[:2], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=0)
