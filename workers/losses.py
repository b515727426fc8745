"""The losses of a model: over the batch of a step, with its gradient, and over the held-out set.

    gradient of a step = sum over its microbatches of d(mean loss of one / number of them)

Each rank reads and passes its own microbatches alone (`workers.world`), under the draws of their
index in the step.
Where a number is not finite, what led to it is done again to name the layer at which it began.
"""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from kernels.streams import Streams
from sweeps.microbatches import microbatch_sequences, microbatches
from sweeps.runspec import RunSpec
from workers.acceleration import Passes, Way
from workers.data.dataset import Dataset
from workers.data.order import Windows
from workers.evaluate import Measurement, measure
from workers.history import NonFiniteError
from workers.layers.loss import mean_loss
from workers.loss_scaling import LossScaler
from workers.models.decoder import Decoder
from workers.nonfinite import first_nonfinite
from workers.probing import Probing
from workers.world import World


class Losses:
    """Of one model, made before its weights are placed.

    Args:
        spec: The run.
        model: Of the run.
        dataset: Its tokens.
        streams: Of the model's layers.
        scaler: Scales the loss that backward starts from.
        probing: Watches the passes of a step.
        world: The ranks that share the passes.
        device: Where the model will be.
        way: How passes of training are carried out.
    """

    def __init__(
        self,
        spec: RunSpec,
        model: Decoder,
        dataset: Dataset,
        streams: Streams,
        *,
        scaler: LossScaler,
        probing: Probing,
        world: World,
        device: torch.device,
        way: Way,
    ) -> None:
        self._model, self._dataset, self._streams = model, dataset, streams
        self._scaler, self._probing, self._world = scaler, probing, world
        self._device = device
        self._data_seed = spec.seeds.data
        self._sequences, self._parts = microbatch_sequences(spec), microbatches(spec)
        self._pass = Passes(model, self._written, way, ranks=world.size)

    def of_batch(self, step: int) -> Tensor:
        """Add up the gradients of a step's batch, scaled as the loss is.

        Args:
            step: Optimizer steps done before it.

        Returns:
            The loss over all of the batch, a scalar on the device.
        """
        mine = self._world.mine(self._parts)
        read = slice(mine.start * self._sequences, mine.stop * self._sequences)
        windows = self._on_device(self._dataset.batch(self._data_seed, step, read))
        loss = torch.zeros((), device=self._device)
        with self._watched_weights(step + 1):
            for index, part in zip(mine, torch.split(windows, self._sequences), strict=True):
                self._streams.move(step=step, microbatch=index)
                with (
                    self._world.backward(self._model, last=index == mine[-1]),
                    self._probing.during(step + 1, microbatch=index),
                ):
                    loss += self._pass(part)
        return self._world.summed(loss)

    def of_held_out(self, step: int) -> Measurement:
        """The held-out loss after so many steps.

        Raises:
            NonFiniteError: If it is not finite.
        """
        windows = self._on_device(self._dataset.validation)
        self._streams.move(step=step)

        def read() -> Measurement:
            with self._pass.as_written():
                return measure(self._model, windows, self._sequences, self._world)

        measured = read()
        if math.isfinite(measured.loss):
            return measured
        raise self.located(NonFiniteError("held-out loss", measured.loss, step), read)

    def located(self, error: NonFiniteError, repeat: Callable[[], object]) -> NonFiniteError:
        """The error with the layer at which it began.

        Args:
            error: What came of it.
            repeat: Does again what led to it.
        """
        with self._world.unsharded(self._model), self._pass.as_written():
            place = self._world.first(first_nonfinite(self._model, repeat))
        return error.at(place or "yet no layer's operand or product by itself")

    def _written(self, windows: Tensor) -> Tensor:
        share = mean_loss(self._model(windows[:, :-1]), windows[:, 1:]) / self._parts
        torch.autograd.backward(self._scaler.scaled(share))
        return share.detach()

    def _watched_weights(self, step: int) -> AbstractContextManager[None]:
        """Holds weights whole in a step in which they are looked at between passes."""
        if self._probing.looks_at(step):
            return self._world.unsharded(self._model)
        return nullcontext()

    def _on_device(self, windows: Windows) -> Tensor:
        return torch.from_numpy(windows).to(self._device, non_blocking=True)
