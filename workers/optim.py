"""AdamW with decoupled decay on matrices only; weights, gradients and moments in FP32.

    m = b1 m + (1 - b1) g        v = b2 v + (1 - b2) g^2
    w = (1 - rate * decay) w - rate * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + 1e-8)

The gradient g is first clipped so that its global norm is at most `gradient_clip`. Vectors (norm
gains) are not decayed; t counts the updates. Source: Loshchilov and Hutter (arXiv 1711.05101).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from sweeps.training import Training

EPSILON = 1e-8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slot:
    """A parameter, its moments, and its updates as the scalar that the fused one counts in."""

    weight: nn.Parameter
    mean: Tensor
    square: Tensor
    count: Tensor


class Optimizer:
    """AdamW over the parameters of one model, its moments readable and settable by name.

    It calls the library's fused update as a function: the optimizer class around it would load the
    whole compiler when it is made, some seconds for each process.
    """

    def __init__(self, model: nn.Module, training: Training) -> None:
        self._training = training
        self._slots = {
            name: _Slot(
                weight=weight,
                mean=torch.zeros_like(weight, requires_grad=False),
                square=torch.zeros_like(weight, requires_grad=False),
                count=torch.zeros((), device=weight.device),
            )
            for name, weight in model.named_parameters()
        }
        matrices = [slot for slot in self._slots.values() if slot.weight.ndim >= 2]
        vectors = [slot for slot in self._slots.values() if slot.weight.ndim < 2]
        self._groups = ((matrices, training.weight_decay), (vectors, 0.0))

    def clip(self) -> Tensor:
        """Clip the gradients.

        Returns:
            Their global norm before it, a scalar.
        """
        weights = [slot.weight for slot in self._slots.values()]
        return nn.utils.clip_grad_norm_(weights, self._training.gradient_clip, foreach=True)

    @torch.no_grad()
    def update(self, rate: float, skip: Tensor) -> None:
        """Update the weights and drop the gradients.

        Args:
            rate: Learning rate.
            skip: A scalar in FP32: 1 to leave weights and moments as they are, else 0.
        """
        for slots, decay in self._groups:
            adamw(
                [slot.weight for slot in slots],
                [slot.weight.grad for slot in slots if slot.weight.grad is not None],
                [slot.mean for slot in slots],
                [slot.square for slot in slots],
                [],
                [slot.count for slot in slots],
                fused=True,
                found_inf=skip,
                amsgrad=False,
                beta1=self._training.beta1,
                beta2=self._training.beta2,
                lr=rate,
                weight_decay=decay,
                eps=EPSILON,
                maximize=False,
            )
        for slot in self._slots.values():
            slot.weight.grad = None

    def moments(self) -> dict[str, Tensor]:
        """First (`mean`) and second (`square`) moments by parameter name."""
        means = {f"{name}.mean": slot.mean for name, slot in self._slots.items()}
        return means | {f"{name}.square": slot.square for name, slot in self._slots.items()}

    def restore(self, moments: Mapping[str, Tensor], updates: int) -> None:
        """Continue after so many updates with copies of these moments."""
        for name, moment in self.moments().items():
            moment.copy_(moments[name])
        for slot in self._slots.values():
            slot.count.fill_(updates)

    def restart(self) -> None:
        """Forget everything."""
        self.restore({name: torch.zeros(()) for name in self.moments()}, updates=0)
