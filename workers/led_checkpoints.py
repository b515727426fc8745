"""A run's checkpoints as several ranks see them: the lead reads and writes, the others are told.

So ranks need no common disk for them and always go on from the same state, and none reads what the
lead of an earlier attempt is still writing. `workers.checkpoint` says what each method does; all
ranks call the same one at the same time.
"""

from sweeps.metrics import Endpoint
from workers.checkpoint import Checkpoints
from workers.state import State
from workers.world import World


class LedCheckpoints:
    """A run's folder in the hands of the lead.

    Args:
        checkpoints: The folder; of the ranks that do not lead it is not touched.
        world: The ranks.
    """

    def __init__(self, checkpoints: Checkpoints, world: World) -> None:
        self._checkpoints = checkpoints
        self._world = world

    def claim(self) -> None:
        """Take the folder for the attempt."""
        if self._world.is_lead:
            self._checkpoints.claim()

    def endpoints(self) -> tuple[Endpoint, ...]:
        """The measured horizons, ascending."""
        return self._world.told(self._checkpoints.endpoints() if self._world.is_lead else ())

    def seconds(self) -> float:
        """The most training time that any file knows of."""
        return self._world.told(self._checkpoints.seconds() if self._world.is_lead else 0.0)

    def latest(self, horizon: int, branch: int) -> State | None:
        """The sound state from which the fewest steps lead to a horizon.

        Its tensors are handed over as they are looked up, by all ranks in the same order.
        """
        state = self._checkpoints.latest(horizon, branch) if self._world.is_lead else None
        place = self._world.told(None if state is None else (state.position, state.seconds))
        if place is None:
            return None
        position, seconds = place
        tensors = self._world.told_tensors({} if state is None else state.tensors)
        return State(position=position, seconds=seconds, tensors=tensors)

    def save(self, state: State, *, keep: bool = False) -> None:
        """Write a checkpoint."""
        if self._world.is_lead:
            self._checkpoints.save(state, keep=keep)

    def keep_weights(self, state: State) -> None:
        """Write the weights of an endpoint."""
        if self._world.is_lead:
            self._checkpoints.keep_weights(state)

    def record(self, endpoint: Endpoint, seconds: float) -> None:
        """Add a measured horizon and drop the checkpoints of its branch."""
        if self._world.is_lead:
            self._checkpoints.record(endpoint, seconds)
