"""Post-training quantization: the endpoints of a BF16 run, read with their weights cast by recipes.

    y = x w^T  with x and w as the recipe's fprop takes them, or w alone; nothing is tuned

The held-out loss of the cast model less that of the model as it was trained is the cost, paired
over sequences; beside it stands the same difference for the run that was trained with the recipe,
where its weights were kept. `sweeps.run_questions` holds the formulas.
"""

import logging
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from kernels.operands import CARRIED
from kernels.recipes import BF16_RECIPE, Gemm, Precision, Recipe
from kernels.streams import Streams
from sweeps.errors import CheckpointError
from sweeps.microbatches import microbatch_sequences
from sweeps.run_questions import CastEndpoint, Difference, PtqAnswer, PtqQuestion, RunPlace
from sweeps.runspec import RunSpec
from workers.checkpoint import Checkpoints
from workers.data.dataset import open_dataset
from workers.device import device_at_hand
from workers.evaluate import mean_of, sequence_losses
from workers.models.decoder import Decoder
from workers.models.registry import build
from workers.repeatability import repeat_bits
from workers.state import State, fill_model

log = logging.getLogger(__name__)


def cast_endpoints(question: PtqQuestion) -> PtqAnswer:
    """The cost of each recipe at each horizon.

    Raises:
        InputError: If the corpus changed.
        CheckpointError: If the weights of an endpoint are not there.
    """
    reader = _HeldOut(question.run)
    casts = [forward_alone(one, weights_only=question.weights_only) for one in question.recipes]
    trained = {place.spec.recipe.name: place for place in question.trained}
    endpoints: list[CastEndpoint] = []
    for tokens in question.horizons:
        state = _weights(question.run, tokens)
        plain = reader.losses(question.run.spec, BF16_RECIPE, state)
        for recipe, cast in zip(question.recipes, casts, strict=True):
            losses = reader.losses(question.run.spec, cast, state)
            difference = _difference(losses, plain)
            partner = trained.get(recipe.name)
            endpoints.append(
                CastEndpoint(
                    tokens=tokens,
                    recipe=recipe.name,
                    loss_bf16=mean_of(plain).loss,
                    loss=None if difference is None else mean_of(losses).loss,
                    cost=difference,
                    trained=None if partner is None else reader.gap(partner, tokens, plain),
                )
            )
    return PtqAnswer(
        sequences=reader.sequences,
        eval_tokens=reader.eval_tokens,
        weights_only=question.weights_only,
        endpoints=tuple(endpoints),
    )


def forward_alone(recipe: Recipe, *, weights_only: bool) -> Recipe:
    """A recipe without its backward GEMMs, and on request with activations as the carrier has them.

    The RHT stays as long as an operand needs it; it cancels in the product. Tails are padded, since
    the model was not laid out for the recipe.
    """
    left = CARRIED if weights_only else recipe.fprop.left
    fprop = Gemm(left=left, right=recipe.fprop.right)
    gemm = Precision.FP32
    if fprop.is_quantized:
        fprop, gemm = replace(fprop, rht=recipe.fprop.rht), recipe.gemm
    return replace(
        recipe, fprop=fprop, dgrad=Gemm(), wgrad=Gemm(), loss_scaling=None, pad=True, gemm=gemm
    )


class _HeldOut:
    """The held-out set of a run, read by models of its shape."""

    def __init__(self, place: RunPlace) -> None:
        spec = place.spec
        self._device = device_at_hand()
        repeat_bits(self._device)
        dataset = open_dataset(
            spec.corpus, spec.tokenizer, spec.training, spec.evaluation, Path(place.cache)
        )
        self._windows = torch.from_numpy(dataset.validation).to(self._device)
        self.sequences = len(self._windows)
        self.eval_tokens = self.sequences * (self._windows.shape[1] - 1)

    def losses(self, spec: RunSpec, recipe: Recipe, state: State) -> Tensor:
        """Mean loss of each sequence under a recipe, read as the endpoints of the run were."""
        # Scales of a whole tensor depend on what is read at once.
        batch = microbatch_sequences(spec)
        return sequence_losses(self._model(spec, recipe, state), self._windows, batch)

    def gap(self, trained: RunPlace, tokens: int, plain: Tensor) -> Difference | None:
        """What training with a recipe lost at a horizon; None if its weights were not kept."""
        try:
            state = _weights(trained, tokens)
        except CheckpointError as error:
            log.info("the trained gap has no standard error: %s", error)
            return None
        return _difference(self.losses(trained.spec, trained.spec.recipe, state), plain)

    def _model(self, spec: RunSpec, recipe: Recipe, state: State) -> Decoder:
        streams = Streams(sr=spec.seeds.sr, rht=spec.seeds.rht, step=state.position.step)
        model = build(replace(spec, recipe=recipe), streams)
        fill_model(model, state)
        return model.to(self._device)


def _weights(place: RunPlace, tokens: int) -> State:
    spec = place.spec
    folder = Checkpoints(Path(place.folder), spec)
    return folder.weights(tokens)


def _difference(losses: Tensor, plain: Tensor) -> Difference | None:
    paired = mean_of(losses - plain)
    if not torch.isfinite(losses).all():
        return None
    return Difference(mean=paired.loss, se=paired.loss_se)
