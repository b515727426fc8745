"""All that a run needs to go on, as values: where it stands, and its tensors by name.

    weight.<name>     FP32 parameters
    kept.<name>       what else the model carries from step to step, as the biases of routers
    moment.<name>     of the optimizer
    history           FP32 [steps, 2]: loss and gradient norm of every step of the path
    loss_scaling      FP64 [3]: scale, good steps since it changed, steps skipped in all

Data and random draws need no tensors: both are functions of seeds and step. Where they stand is
written beside a state as `counters`, so that a state which would go on elsewhere is refused.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from torch import Tensor

from sweeps.errors import CheckpointError
from sweeps.runspec import RunSpec
from workers.models.decoder import Decoder
from workers.shards import fill

WEIGHT, KEPT, MOMENT = "weight.", "kept.", "moment."
"""Beginnings of the names of tensors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A point on the trunk (`horizon` None) or in a cooldown branch, after `step` steps."""

    horizon: int | None
    step: int

    @property
    def path(self) -> str:
        """The beginning of the names of all files on the same path."""
        return "trunk" if self.horizon is None else f"branch-{self.horizon}"

    @property
    def name(self) -> str:
        """File name without its ending."""
        return f"{self.path}-{self.step:09d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What training goes on from; `seconds` is the training time so far."""

    position: Position
    seconds: float
    tensors: Mapping[str, Tensor]

    def part(self, prefix: str) -> Mapping[str, Tensor]:
        """The tensors whose names begin so, by the rest of their names."""
        return _Part(self.tensors, prefix)


class _Part(Mapping[str, Tensor]):
    """Looks a tensor up only when it is asked for: it may have to come from another process."""

    def __init__(self, tensors: Mapping[str, Tensor], prefix: str) -> None:
        self._tensors, self._prefix = tensors, prefix

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[self._prefix + name]

    def __iter__(self) -> Iterator[str]:
        whole = (name for name in self._tensors if name.startswith(self._prefix))
        return (name.removeprefix(self._prefix) for name in whole)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def counters(spec: RunSpec, position: Position) -> dict[str, int]:
    """Where the data and the random streams of a run stand: its seeds, and what comes next."""
    training, seeds = spec.training, spec.seeds
    return {
        "seeds.init": seeds.init,
        "seeds.data": seeds.data,
        "seeds.sr": seeds.sr,
        "seeds.rht": seeds.rht,
        "next_step": position.step,
        "next_sequence": position.step * (training.batch_tokens // training.context),
    }


def model_tensors(model: Decoder) -> dict[str, Tensor]:
    """Weights and what else a model carries, by their names in a state; shares its memory."""
    weights = {f"{WEIGHT}{name}": weight.detach() for name, weight in model.named_parameters()}
    return weights | {f"{KEPT}{name}": tensor for name, tensor in model.kept().items()}


def fill_model(model: Decoder, state: State) -> None:
    """Give a model the weights of a state, and what else it carries.

    Raises:
        CheckpointError: If the state is of another model.
    """
    for name, tensor in model_tensors(model).items():
        stored = state.tensors.get(name)
        if stored is None or stored.shape != tensor.shape:
            found = "nothing" if stored is None else f"{list(stored.shape)}"
            raise CheckpointError(
                f"state {state.position.name} holds {found} as {name}, the model has "
                f"{list(tensor.shape)}"
            )
        fill(tensor, stored)
