"""What a recipe does to the numbers in a run's newest checkpoint.

    newest state  →  three steps in memory, as the run would go on  →  the last of them, diagnosed

It is the diagnosis that training itself would have made there: three steps, because the motion of
a weight takes as many. The steps follow the run's own recipe and read its own batches; the tensors
are looked at under whatever recipe is asked for, so that a BF16 run can be seen under ufp4. Nothing
is written. Where only the weights of endpoints are left, one step is made from the last of them,
without motion: the moments of the optimizer are gone.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kernels.recipes import Recipe
from sweeps.errors import CheckpointError, GridlawError, InputError
from sweeps.metrics import Diagnosis
from sweeps.run_questions import RunPlace, RunQuality, RunQuestion
from sweeps.runspec import Diagnostics, Resources, RunSpec
from workers.checkpoint import Checkpoints
from workers.data.dataset import open_dataset
from workers.device import device_at_hand
from workers.fitting import needs_checkpoints
from workers.health import DivergenceError
from workers.probing import WINDOW
from workers.repeatability import repeat_bits
from workers.state import State
from workers.trainee import Trainee


def run_quality(question: RunQuestion) -> RunQuality:
    """The quality of a run's layers.

    Raises:
        InputError: If no layer is both named and quantized, the corpus changed, or the run does not
            fit the device.
        CheckpointError: If the run has no sound checkpoint.
        GridlawError: If the run diverges in the steps that follow.
    """
    place, spec = question.run, question.run.spec
    folder = Checkpoints(Path(place.folder), spec)
    state = folder.newest()
    steps = WINDOW if state is not None else 1
    weights = _last_weights(folder, spec) if state is None else state
    watching = Diagnostics(every=weights.position.step + steps, layers=question.layers)
    trainee = _trainee(
        place, replace(spec, diagnostics=watching, resources=Resources()), question.recipe
    )
    if not trainee.is_watched:
        raise InputError(
            f"layers = {','.join(question.layers)}: {question.recipe.name} quantizes no layer of "
            f"{spec.model.name} that has such a name"
        )
    trainee.restore(state or _without_moments(weights, trainee.state()))
    diagnosis = _diagnosed(trainee, steps, place)
    return RunQuality(
        horizon=weights.position.horizon,
        step=weights.position.step,
        tokens=weights.position.step * spec.training.batch_tokens,
        measured_step=diagnosis.step,
        layers=diagnosis.layers,
    )


def _diagnosed(trainee: Trainee, steps: int, place: RunPlace) -> Diagnosis:
    for _ in range(steps):
        trainee.step()
    try:
        diagnosis = trainee.diagnosis()
    except DivergenceError as error:
        raise GridlawError(f"run {place.spec.run_id} diverges from here on: {error}") from error
    if diagnosis is None:
        raise GridlawError(
            f"in step {trainee.position.step} of run {place.spec.run_id} the operands of no chosen "
            "layer are finite"
        )
    return diagnosis


def _trainee(place: RunPlace, spec: RunSpec, recipe: Recipe) -> Trainee:
    device = device_at_hand()
    repeat_bits(device)
    lean = needs_checkpoints(spec, device)
    dataset = open_dataset(
        spec.corpus, spec.tokenizer, spec.training, spec.evaluation, Path(place.cache)
    )
    return Trainee(spec, dataset, seconds=0.0, measured_under=recipe, checkpoints=lean)


def _last_weights(folder: Checkpoints, spec: RunSpec) -> State:
    endpoints: Sequence[int] = [point.tokens for point in folder.endpoints()]
    if not endpoints:
        raise CheckpointError(
            f"run {spec.run_id} has no checkpoint: it has not begun, it diverged before the first, "
            "or its folder was emptied"
        )
    return folder.weights(max(endpoints))


def _without_moments(weights: State, fresh: State) -> State:
    return replace(weights, tensors={**fresh.tensors, **weights.tensors})
