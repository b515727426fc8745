"""Frees the place of a run's ranks when the actor of their attempt is gone.

Ray Train reserves a placement group for its ranks and gives it back when they end. If the process
above them dies, the ranks die with it, and the group holds their GPUs for as long as the scheduler
lives: what Ray Train has against that asks the cluster's dashboard, which not every cluster has.
"""

import threading
import time
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, RayActorError
from ray.util import get_current_placement_group, remove_placement_group

SECONDS = 1.0
"""Between two looks at the actor."""


def keep(actor: Any) -> None:
    """Have the place of this process freed once an actor is gone.

    Args:
        actor: Handle of one that lives as long as the place is needed.
    """
    options = {"num_cpus": 0, "lifetime": "detached", "scheduling_strategy": "DEFAULT"}
    ray.remote(_Keeper).options(**options).remote(actor, get_current_placement_group())


class _Keeper:
    """An actor that belongs to nobody, watches another, and ends after it."""

    def __init__(self, actor: Any, place: Any) -> None:
        self._actor, self._place = actor, place
        threading.Thread(target=self._watch, name="watch", daemon=True).start()

    def _watch(self) -> None:
        while self._is_there():
            time.sleep(SECONDS)
        remove_placement_group(self._place)
        ray.kill(ray.get_runtime_context().current_actor)

    def _is_there(self) -> bool:
        try:
            ray.get(self._actor.__ray_ready__.remote())
        except ActorUnavailableError:  # no contact for now
            return True
        except RayActorError:
            return False
        return True
