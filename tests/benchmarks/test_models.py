"""What is trained for the step benchmark: the example's own model, and the large stack."""

from dataclasses import replace

import torch
import yaml

from benchmarks.models import EXAMPLE, largest, quickstart, recipes_on, trainees, wide
from benchmarks.stack import SHAPE, TRAINING, bytes_needed, stack_trainee
from kernels.presets import PRESETS
from kernels.recipes import Precision
from sweeps.counts import non_embedding_parameters
from sweeps.families.ladder import PRESETS as MODELS
from sweeps.shapes import ModelShape
from sweeps.training import Training

CPU = torch.device("cpu")


def test_the_quickstarts_model_is_the_largest_of_the_example_file_trained_as_it_says() -> None:
    written = yaml.safe_load(EXAMPLE.read_text())
    run = largest(quickstart())
    sizes = [MODELS[name] for name in written["models"]]
    assert run.model == max(sizes, key=non_embedding_parameters)
    assert run.training.context == written["train"]["context"]
    assert f"{run.training.batch_tokens}tok" == written["train"]["batch"]
    assert run.recipe.is_bf16


def test_the_wide_model_differs_from_it_in_the_model_alone() -> None:
    narrow, broad = largest(quickstart()), largest(wide())
    assert broad.model.width == 512
    assert (broad.training, broad.tokenizer) == (narrow.training, narrow.tokenizer)


def test_every_recipe_begins_with_the_same_weights_and_reads_the_same_tokens() -> None:
    run = largest(quickstart())
    run = replace(run, training=replace(run.training, batch_tokens=run.training.context))
    pair = trainees(run, {name: PRESETS[name] for name in ("bf16", "ufp4")})
    weights = [trainee.state().tensors for trainee in pair.values()]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    for trainee in pair.values():
        trainee.step()
    losses = [trainee.scheduled_report().loss for trainee in pair.values()]
    assert losses[0] != losses[1]
    assert abs(losses[0] - losses[1]) < 0.1


def test_the_recipes_are_presets_and_a_gpu_has_one_with_bf16_products() -> None:
    cpu, gpu = recipes_on(CPU), recipes_on(torch.device("cuda"))
    assert next(iter(cpu)) == "bf16"
    assert set(cpu) <= set(PRESETS)
    assert {name for name in gpu if gpu[name].gemm is Precision.BF16} == set(gpu) - set(cpu)


def test_the_stack_has_a_billion_parameters_and_needs_16_bytes_for_each_and_recipe() -> None:
    parameters = non_embedding_parameters(SHAPE)
    assert 0.95e9 < parameters < 1.1e9
    assert bytes_needed(3) - bytes_needed(2) == 16 * parameters
    assert TRAINING.batch_tokens % TRAINING.context == 0


def test_a_stack_trains_in_place_and_its_streams_move_on() -> None:
    shape = ModelShape(name="small", num_layers=2, width=32, num_heads=2, mlp_width=64)
    training = Training(context=16, batch_tokens=32, learning_rate=0.01, warmup_tokens=32)
    trainee = stack_trainee(shape, training, PRESETS["ufp4"], CPU, compiled=False)
    assert trainee.x.shape == (2, 16, 32)
    losses = []
    for _ in range(8):
        losses.append(trainee.forward(trainee.x).detach().float().square().mean())
        trainee.step()
    assert losses[-1] < losses[0]
    assert trainee.streams.step == 7
