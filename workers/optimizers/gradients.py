"""Gradients of some parameters, and the rows of a tensor that an update may write to.

A plain tensor is taken as it is; of a sharded one (`workers.shards`) each rank takes its own rows.
"""

from collections.abc import Mapping

from torch import Tensor, nn

from workers.shards import is_sharded, local


def in_place(tensor: Tensor) -> Tensor:
    """What of a tensor this rank updates, sharing memory."""
    # A plain parameter itself, so that it may still be moved to another device.
    return local(tensor) if is_sharded(tensor) else tensor


def gradients(weights: Mapping[str, nn.Parameter]) -> list[Tensor]:
    """This rank's gradients in the order of the parameters.

    Raises:
        ValueError: If a parameter has none.
    """
    found = [weight.grad for weight in weights.values()]
    if any(gradient is None for gradient in found):
        missing = [name for name, weight in weights.items() if weight.grad is None]
        raise ValueError(f"parameters without a gradient cannot be updated: {', '.join(missing)}")
    return [in_place(gradient) for gradient in found if gradient is not None]
