"""One model in training: its weights, optimizer and history, moved step by step along a path.

Step s reads batch s, rounds with the streams at s and takes the scheduled rate: a pure function of
the state and s, so that going on from a checkpoint repeats what would have been.

A batch above MICROBATCH_TOKENS is split into equal parts whose gradients are summed. The split is a
function of the spec alone, since the blocks along the tokens and the random streams depend on it.
"""

import math
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from kernels.linear import bf16_forward
from kernels.recipes import Recipe
from kernels.streams import Streams
from sweeps.errors import CheckpointError
from sweeps.metrics import Diagnosis, Endpoint, StepMetrics
from sweeps.runspec import RunSpec
from workers.checkpoint import Position, State
from workers.data import Dataset, Windows
from workers.device import device_at_hand
from workers.evaluate import Measurement, measure
from workers.history import History, NonFiniteError, report_step_before
from workers.loss_scaling import LossScaler
from workers.model import Decoder
from workers.nonfinite import first_nonfinite
from workers.optim import Optimizer
from workers.probing import Probing
from workers.schedule import learning_rate

MICROBATCH_TOKENS = 32_768
TAIL = 0.05
"""Share of a horizon over whose last tokens an endpoint's training loss is averaged."""


class Trainee:
    """Begins with drawn weights at step 0 of the trunk.

    Attributes:
        position: Where it stands.
        seconds: Training time of the run so far, over all attempts.
        batch_tokens: Tokens of a step.
    """

    def __init__(
        self,
        spec: RunSpec,
        dataset: Dataset,
        *,
        seconds: float,
        measured_under: Recipe | None = None,
    ) -> None:
        """Makes the model.

        Args:
            spec: The run.
            dataset: Its tokens.
            seconds: Training time of the run so far.
            measured_under: The recipe by which diagnostics look at the layers; None for the run's.
        """
        self._spec = spec
        self._dataset = dataset
        self._device = device_at_hand()
        self._streams = Streams(sr=spec.seeds.sr, rht=spec.seeds.rht)
        self._model = Decoder(
            spec.model,
            vocab_size=spec.tokenizer.vocab_size,
            context=spec.training.context,
            recipe=spec.recipe,
            streams=self._streams,
        ).to(self._device)
        self._optimizer = Optimizer(self._model, spec.training)
        self._scaler = LossScaler(spec.recipe.loss_scaling, self._device)
        self._microbatch = microbatch_sequences(spec)
        self._probing = Probing(self._model, spec, measured_under or spec.recipe)
        self.batch_tokens = spec.training.batch_tokens
        self.seconds = seconds
        self.position = Position(horizon=None, step=0)
        self._reported_step, self._reported_seconds = 0, seconds
        self.restart()

    @property
    def is_watched(self) -> bool:
        """Whether diagnostics choose any layer."""
        return self._probing.is_watching

    @property
    def tokens(self) -> int:
        """Training tokens seen along the path."""
        return self.position.step * self.batch_tokens

    def restart(self) -> None:
        """Go back to step 0 of the trunk."""
        self._model.initialise(self._spec.seeds.init)
        self._optimizer.restart()
        self._scaler.restart()
        self._history = History()
        self._stand_at(Position(horizon=None, step=0))

    def restore(self, state: State) -> None:
        """Go on from a state of the same run."""
        with torch.no_grad():
            for name, weight in self._model.named_parameters():
                weight.copy_(state.tensors[f"weight.{name}"])
        moments = {
            name.removeprefix("moment."): tensor
            for name, tensor in state.tensors.items()
            if name.startswith("moment.")
        }
        self._scaler.restore(state.tensors["loss_scaling"])
        self._optimizer.restore(moments, updates=state.position.step - self._scaler.skipped())
        self._history = History(state.tensors["history"])
        self._stand_at(state.position)

    def state(self) -> State:
        """Everything to go on from; shares memory with the model.

        Raises:
            NonFiniteError: If a step since the last look left the finite numbers.
        """
        self._settle()
        weights = {f"weight.{name}": weight for name, weight in self._model.named_parameters()}
        moments = {f"moment.{name}": value for name, value in self._optimizer.moments().items()}
        history, scaling = self._history.tensor(), self._scaler.state()
        tensors = {**weights, **moments, "history": history, "loss_scaling": scaling}
        return State(
            position=self.position,
            seconds=self.seconds,
            tensors={name: tensor.detach().cpu() for name, tensor in tensors.items()},
        )

    def leave_trunk(self, horizon: int) -> None:
        """Enter the cooldown branch of a horizon at the present step."""
        self._stand_at(Position(horizon=horizon, step=self.position.step))

    def step(self) -> None:
        """One optimizer step."""
        started = time.perf_counter()
        position = self.position
        loss = self._accumulate(position.step)
        self._scaler.unscale(self._model)
        skip, norm = self._scaler.judge(loss, self._optimizer.clip())
        self._optimizer.update(learning_rate(self._spec, self.tokens, position.horizon), skip)
        self._history.append(loss, norm)
        self.position = Position(horizon=position.horizon, step=position.step + 1)
        self.seconds += time.perf_counter() - started

    def scheduled_report(self) -> StepMetrics:
        """Means since the scheduled report before, or since the branch point."""
        return self._report(max(report_step_before(self.position.step), self._branch_step()))

    def live_report(self) -> StepMetrics:
        """Means since the last report of either kind."""
        return self._report(self._reported_step)

    def diagnosis(self) -> Diagnosis | None:
        """What was measured in the last step, once; None if nothing was.

        Raises:
            NonFiniteError: If a step since the last look left the finite numbers.
        """
        layers = self._probing.taken()
        if not layers:
            return None
        self._settle()
        position = self.position
        return Diagnosis(
            horizon=position.horizon, step=position.step, tokens=self.tokens, layers=layers
        )

    def measure(self) -> Endpoint:
        """The endpoint of the branch, at whose end the trainee stands.

        Raises:
            CheckpointError: If it does not stand at exactly the horizon.
            NonFiniteError: If a step since the last look or the held-out loss is not finite.
        """
        if self.tokens != self.position.horizon:
            raise CheckpointError(
                f"an endpoint of {self.position.horizon} tokens cannot be measured at {self.tokens}"
            )
        self._settle()
        windows = self._on_device(self._dataset.validation)
        self._streams.move(step=self.position.step)
        through_recipe = through_bf16 = self._held_out(windows)
        if not self._spec.recipe.is_bf16:
            with bf16_forward(self._model):
                through_bf16 = self._held_out(windows)
        steps = self.position.step
        tail = self._history.means(steps - max(1, math.floor(TAIL * steps)), steps)
        return Endpoint(
            tokens=self.tokens,
            loss=through_recipe.loss,
            loss_se=through_recipe.loss_se,
            loss_bf16=through_bf16.loss,
            train_loss=tail.loss,
            eval_tokens=windows.shape[0] * (windows.shape[1] - 1),
            bytes_per_token=self._dataset.bytes_per_token,
            unigram_entropy=self._dataset.unigram_entropy,
        )

    def _accumulate(self, step: int) -> Tensor:
        """Add up the gradients of a step's batch; returns its loss, a scalar on the device."""
        windows = self._on_device(self._dataset.batch(self._spec.seeds.data, step))
        parts = torch.split(windows, self._microbatch)
        loss = torch.zeros((), device=self._device)
        for index, part in enumerate(parts):
            self._streams.move(step=step, microbatch=index)
            with self._probing.during(step + 1, microbatch=index):
                logits = self._model(part[:, :-1]).flatten(0, 1)
                share = functional.cross_entropy(logits, part[:, 1:].flatten()) / len(parts)
                torch.autograd.backward(self._scaler.scaled(share))
            loss += share.detach()
        return loss

    def _held_out(self, windows: Tensor) -> Measurement:
        measured = measure(self._model, windows, self._microbatch)
        if math.isfinite(measured.loss):
            return measured
        error = NonFiniteError("held-out loss", measured.loss, self.position.step)
        raise self._located(error, lambda: measure(self._model, windows, self._microbatch))

    def _report(self, first: int) -> StepMetrics:
        self._settle()
        step, batch_tokens = self.position.step, self.batch_tokens
        means = self._history.means(first, step)
        elapsed = self.seconds - self._reported_seconds
        speed = (step - self._reported_step) * batch_tokens / max(elapsed, 1e-9)
        self._reported_step, self._reported_seconds = step, self.seconds
        return StepMetrics(
            horizon=self.position.horizon,
            step=step,
            tokens=self.tokens,
            loss=means.loss,
            learning_rate=learning_rate(
                self._spec, self.tokens - batch_tokens, self.position.horizon
            ),
            gradient_norm=means.gradient_norm,
            tokens_per_second=speed,
            seconds=self.seconds,
        )

    def _settle(self) -> None:
        started = time.perf_counter()
        try:
            self._history.settle()
        except NonFiniteError as error:
            step = error.step - 1
            raise self._located(error, lambda: self._accumulate(step)) from None
        self.seconds += time.perf_counter() - started

    def _located(self, error: NonFiniteError, repeat: Callable[[], object]) -> NonFiniteError:
        """The error with the layer at which it began, found by doing again what led to it."""
        place = first_nonfinite(self._model, repeat)
        return error.at(place or "yet no layer's operand or product by itself")

    def _stand_at(self, position: Position) -> None:
        self.position = position
        self._probing.restart()
        self._reported_step, self._reported_seconds = position.step, self.seconds

    def _branch_step(self) -> int:
        if self.position.horizon is None:
            return 0
        return self._spec.branch_tokens(self.position.horizon) // self.batch_tokens

    def _on_device(self, windows: Windows) -> Tensor:
        return torch.from_numpy(windows).to(self._device, non_blocking=True)


def microbatch_sequences(spec: RunSpec) -> int:
    """Sequences of the largest equal part of a batch within MICROBATCH_TOKENS.

    A part holds whole blocks of wgrad. A batch that has no such part is split wherever the recipe
    pads, and stays whole where it does not.
    """
    context, wgrad = spec.training.context, spec.recipe.wgrad
    sequences = spec.training.batch_tokens // context
    small = [
        part
        for part in range(1, sequences + 1)
        if sequences % part == 0 and part * context <= MICROBATCH_TOKENS
    ]
    whole = [part for part in small if part * context % wgrad.block == 0]
    return max(whole or (small if spec.recipe.pad else ()), default=sequences)
