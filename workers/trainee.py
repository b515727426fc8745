"""One model in training: its weights, optimizer and history, moved step by step along a path.

Step s reads batch s, rounds with the streams at s and takes the scheduled rate: a pure function of
the state and s, so that going on from a checkpoint repeats what would have been.

A batch is cut into equal parts whose gradients are added up (`sweeps.microbatches`).
"""

import math

import torch
from torch import Tensor

from kernels.recipe_module import bf16_forward
from kernels.recipes import Recipe
from kernels.streams import Streams
from sweeps.errors import CheckpointError
from sweeps.metrics import Diagnosis, Endpoint, StepMetrics
from sweeps.runspec import RunSpec
from workers.acceleration import Way, way_of
from workers.data.dataset import Dataset
from workers.device import device_at_hand
from workers.history import History, NonFiniteError, is_report_step, report_step_before
from workers.loss_scaling import LossScaler
from workers.losses import Losses
from workers.models.registry import build
from workers.optim import Optimizer
from workers.pace import Pace
from workers.probing import Probing
from workers.schedule import learning_rate
from workers.state import MOMENT, Position, State, fill_model, model_tensors
from workers.update_ratio import UpdateRatio
from workers.world import ALONE, World

TAIL = 0.05
"""Share of a horizon over whose last tokens an endpoint's training loss is averaged."""


class Trainee:
    """Begins with drawn weights at step 0 of the trunk.

    Attributes:
        position: Where it stands.
        batch_tokens: Tokens of a step.
    """

    def __init__(
        self,
        spec: RunSpec,
        dataset: Dataset,
        *,
        seconds: float,
        measured_under: Recipe | None = None,
        checkpoints: bool = False,
        accelerate: bool = True,
        world: World = ALONE,
    ) -> None:
        """Makes the model.

        Args:
            spec: The run.
            dataset: Its tokens.
            seconds: Training time of the run so far.
            measured_under: The recipe by which diagnostics look at the layers; None for the run's.
            checkpoints: Whether blocks keep their input alone for backward, and run twice.
            accelerate: Whether passes may be compiled and recorded, on a GPU.
            world: The ranks that train it together: each has a trainee, and all do the same.
        """
        self._spec = spec
        self._dataset = dataset
        self._device = device_at_hand()
        self._streams = Streams(sr=spec.seeds.sr, rht=spec.seeds.rht)
        self._world = world
        self._model = build(spec, self._streams, checkpoints=checkpoints)
        self._scaler = LossScaler(spec.recipe.loss_scaling, self._device)
        self._probing = Probing(self._model, spec, measured_under or spec.recipe)
        self._losses = Losses(
            spec,
            self._model,
            dataset,
            self._streams,
            scaler=self._scaler,
            probing=self._probing,
            world=world,
            device=self._device,
            way=way_of(spec, self._device, ranks=world.size) if accelerate else Way.WRITTEN,
        )
        world.place(self._model, self._device)
        self._optimizer = Optimizer(self._model, spec.training)
        self._pace = Pace(spec, self._device, seconds, ranks=world.size)
        self._update_ratio = UpdateRatio(self._model)
        self._imbalance: Tensor | None = None
        self.batch_tokens = spec.training.batch_tokens
        self.position = Position(horizon=None, step=0)
        self.restart()

    @property
    def seconds(self) -> float:
        """Training time of the run so far, over all attempts."""
        return self._pace.seconds

    @property
    def is_watched(self) -> bool:
        """Whether diagnostics choose any layer."""
        return self._probing.is_watching

    @property
    def tokens(self) -> int:
        """Training tokens seen along the path."""
        return self.position.step * self.batch_tokens

    @property
    def is_due(self) -> bool:
        """Whether a scheduled report belongs to the present step, clocks aside."""
        return self._is_due(self.position.step)

    def restart(self) -> None:
        """Go back to step 0 of the trunk."""
        self._model.initialise(self._spec.seeds.init)
        self._optimizer.restart()
        self._scaler.restart()
        self._history = History(self._spec.health)
        self._stand_at(Position(horizon=None, step=0))

    def restore(self, state: State) -> None:
        """Go on from a state of the same run.

        Raises:
            CheckpointError: If it is of another model.
        """
        fill_model(self._model, state)
        self._scaler.restore(state.tensors["loss_scaling"])
        updates = state.position.step - self._scaler.skipped()
        self._optimizer.restore(state.part(MOMENT), updates=updates)
        self._history = History(self._spec.health, state.tensors["history"])
        self._stand_at(state.position)

    def state(self) -> State:
        """Everything to go on from; shares memory with what trains on.

        Of several ranks the lead has the tensors, the others none.

        Raises:
            DivergenceError: If the run has diverged since the last look.
        """
        self._settle()
        moments = {f"{MOMENT}{name}": value for name, value in self._optimizer.moments().items()}
        return State(
            position=self.position,
            seconds=self.seconds,
            tensors=self._world.gathered(
                {
                    **model_tensors(self._model),
                    **moments,
                    "history": self._history.tensor(),
                    "loss_scaling": self._scaler.state(),
                }
            ),
        )

    def leave_trunk(self, horizon: int) -> None:
        """Enter the cooldown branch of a horizon at the present step."""
        self._stand_at(Position(horizon=horizon, step=self.position.step))

    def step(self) -> None:
        """One optimizer step."""
        position = self.position
        with self._pace.running():
            loss = self._losses.of_batch(position.step)
            self._scaler.unscale(self._model)
            skip, norm = self._scaler.judge(loss, self._optimizer.clip())
            rate = learning_rate(self._spec, self.tokens, position.horizon)
            with self._update_ratio.watching(wanted=self._is_due(position.step + 1)):
                self._optimizer.update(rate, skip)
            self._imbalance = self._balance(skip)
            self._history.append(loss, norm)
            self.position = Position(horizon=position.horizon, step=position.step + 1)

    def scheduled_report(self) -> StepMetrics:
        """Means since the scheduled report before, or since the branch point.

        Raises:
            DivergenceError: If the run has diverged since the last look.
        """
        return self._report(max(report_step_before(self.position.step), self._branch_step()))

    def live_report(self) -> StepMetrics:
        """Means since the last report of either kind.

        Raises:
            DivergenceError: If the run has diverged since the last look.
        """
        return self._report(self._reported_step)

    def diagnosis(self) -> Diagnosis | None:
        """What was measured in the last step, once; None if nothing was.

        Raises:
            DivergenceError: If the run has diverged since the last look.
        """
        if not self._probing.looks_at(self.position.step):
            return None
        # The first microbatch is the lead's.
        layers = self._world.told(self._probing.taken())
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
            DivergenceError: If the run has diverged since the last look, or the held-out loss is
                not finite.
        """
        if self.tokens != self.position.horizon:
            raise CheckpointError(
                f"an endpoint of {self.position.horizon} tokens cannot be measured at {self.tokens}"
            )
        self._settle()
        steps = self.position.step
        through_recipe = through_bf16 = self._losses.of_held_out(steps)
        if not self._spec.recipe.is_bf16:
            with bf16_forward(self._model):
                through_bf16 = self._losses.of_held_out(steps)
        validation = self._dataset.validation
        tail = self._history.means(steps - max(1, math.floor(TAIL * steps)), steps)
        return Endpoint(
            tokens=self.tokens,
            loss=through_recipe.loss,
            loss_se=through_recipe.loss_se,
            loss_bf16=through_bf16.loss,
            train_loss=tail.loss,
            eval_tokens=validation.shape[0] * (validation.shape[1] - 1),
            bytes_per_token=self._dataset.bytes_per_token,
            unigram_entropy=self._dataset.unigram_entropy,
        )

    def _balance(self, skip: Tensor) -> Tensor | None:
        """Even out the loads of experts, but for a step that is left out; how uneven they are."""
        kept = self._model.kept()
        before = {name: tensor.clone() for name, tensor in kept.items()}
        imbalance = self._model.balance(self._world.summed)
        for name, tensor in kept.items():
            tensor.copy_(torch.where(skip > 0, before[name], tensor))
        return imbalance

    def _report(self, first: int) -> StepMetrics:
        self._settle()
        step = self.position.step
        means = self._history.means(first, step)
        speed = self._pace.speed(step)
        self._reported_step = step
        last, imbalance = self._update_ratio.last, self._imbalance
        return StepMetrics(
            horizon=self.position.horizon,
            step=step,
            tokens=self.tokens,
            loss=means.loss,
            learning_rate=learning_rate(
                self._spec, self.tokens - self.batch_tokens, self.position.horizon
            ),
            gradient_norm=means.gradient_norm,
            tokens_per_second=speed.tokens_per_second,
            seconds=self.seconds,
            update_ratio=None if last is None else last.item(),
            mfu=speed.mfu,
            memory_bytes=speed.memory_bytes,
            imbalance=None if imbalance is None else imbalance.item(),
        )

    def _settle(self) -> None:
        try:
            with self._pace.running():
                self._history.settle()
        except NonFiniteError as error:
            step = error.step - 1
            raise self._losses.located(error, lambda: self._losses.of_batch(step)) from None

    def _stand_at(self, position: Position) -> None:
        self.position = position
        self._probing.restart()
        self._pace.stand_at(position.step)
        self._reported_step = position.step

    def _is_due(self, step: int) -> bool:
        return is_report_step(step) or step * self.batch_tokens == self.position.horizon

    def _branch_step(self) -> int:
        if self.position.horizon is None:
            return 0
        return self._spec.branch_tokens(self.position.horizon) // self.batch_tokens
