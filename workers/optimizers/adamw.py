"""AdamW: decoupled weight decay, moments and weights in FP32.

    m = b1 m + (1 - b1) g        v = b2 v + (1 - b2) g^2
    w = (1 - rate * decay) w - rate * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + 1e-8)

g is the gradient over `shrink`, by which clipping divides it; t counts the updates. Source:
Loshchilov and Hutter (arXiv 1711.05101).

It calls the library's fused kernel. The optimizer class around that would load the whole compiler
when it is made, some seconds for each process, and costs more than the kernel in small models.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from sweeps.training import Training
from workers.optimizers.gradients import gradients, in_place

EPSILON = 1e-8


class AdamW:
    """Moves some parameters with one weight decay."""

    def __init__(
        self, weights: Mapping[str, nn.Parameter], training: Training, *, decay: float
    ) -> None:
        """Begins with moments of zero.

        Args:
            weights: By name; of any shape, all on one device, plain or sharded.
            training: Of the run.
            decay: Weight decay of all of them.
        """
        self._training, self._decay = training, decay
        self._weights = weights
        self._means = {name: torch.zeros_like(one) for name, one in weights.items()}
        self._squares = {name: torch.zeros_like(one) for name, one in weights.items()}
        devices = {one.device for one in weights.values()}
        self._count = torch.zeros((), device=devices.pop() if devices else None)
        self._rows = [in_place(one) for one in weights.values()]
        self._mean_rows = [in_place(one) for one in self._means.values()]
        self._square_rows = [in_place(one) for one in self._squares.values()]

    @torch.no_grad()
    def update(self, rate: float, *, skip: Tensor, shrink: Tensor) -> None:
        """Update the weights from their gradients, which are overwritten.

        Args:
            rate: Learning rate.
            skip: A scalar in FP32: 1 to leave weights and moments as they are, else 0.
            shrink: A scalar in FP32 by which gradients are divided.
        """
        if not self._rows:
            return
        self._count += 1 - skip
        torch._fused_adamw_(
            self._rows,
            gradients(self._weights),
            self._mean_rows,
            self._square_rows,
            [],
            [self._count] * len(self._rows),
            amsgrad=False,
            beta1=self._training.beta1,
            beta2=self._training.beta2,
            lr=rate,
            weight_decay=self._decay,
            eps=EPSILON,
            maximize=False,
            grad_scale=shrink,
            found_inf=skip,
        )

    def moments(self) -> dict[str, Tensor]:
        """First (`mean`) and second (`square`) moments by parameter name, as they lie."""
        means = {f"{name}.mean": value for name, value in self._means.items()}
        return means | {f"{name}.square": value for name, value in self._squares.items()}

    def count_from(self, updates: int) -> None:
        """Go on as after so many updates."""
        self._count.fill_(updates)
