"""Which steps are taken: dynamic loss scaling, and standing still once a run has diverged.

    backward of loss * scale, in the carrier        gradients / scale, in FP32
    gradient not finite    the step is skipped; scale *= backoff, good = 0
    gradient finite        good += 1; at good = interval: scale *= growth, good = 0

A skipped step leaves weights and moments as they are and counts for all else: batches, learning
rate and horizons go by tokens read, and runs are compared that have read the same ones.

Scaling cannot help a loss that is not finite, nor a gradient at a scale of LEAST: then, as without
scaling, the run has diverged. Verdicts stay on the device, so that a step waits for none; from the
one that diverged on no step is taken, so that the weights which made it are still there when it
becomes known.

Source: Micikevicius et al., Mixed precision training (arXiv 1710.03740).
"""

import torch
from torch import Tensor, nn

from kernels.loss_scaling import LossScaling
from workers.shards import local

LEAST = 2.0**-24
"""A scale at which a gradient overflows for other reasons than the scale."""


class LossScaler:
    """Begins at the initial scale, 1 without a rule; judges step after step."""

    def __init__(self, rule: LossScaling | None, device: torch.device) -> None:
        self._rule = rule
        self._scale = torch.empty((), device=device)
        self._good, self._skipped = torch.zeros(2, dtype=torch.int64, device=device).unbind()
        self._stopped = torch.zeros((), dtype=torch.bool, device=device)
        self.restart()

    def scaled(self, loss: Tensor) -> Tensor:
        """What backward starts from."""
        return loss if self._rule is None else loss * self._scale

    def unscale(self, model: nn.Module) -> None:
        """Divide all gradients by the scale."""
        if self._rule is None:
            return
        for weight in model.parameters():
            if weight.grad is not None:
                local(weight.grad).div_(self._scale)

    def judge(self, loss: Tensor, norm: Tensor) -> tuple[Tensor, Tensor]:
        """Decide on a step, and adapt the scale to it.

        Args:
            loss: Of the step, not scaled; a scalar.
            norm: Global norm of its gradient after `unscale`; a scalar.

        Returns:
            Whether the step must be left out, 1 or 0 in FP32; and the norm to be told of it, which
            is 0 for a step that is skipped and what it was for one that diverged.
        """
        sound = norm.isfinite()
        possible = loss.isfinite() & ~self._stopped
        if self._rule is None:
            self._stopped |= ~(sound & possible)
            return self._stopped.float(), norm
        skipped = possible & ~sound & (self._scale > LEAST)
        self._stopped |= ~(possible & (sound | skipped))
        self._adapt(self._rule, skipped)
        return (self._stopped | skipped).float(), norm.masked_fill(skipped, 0.0)

    def state(self) -> Tensor:
        """Scale, good steps since it changed, steps skipped in all: FP64 [3]."""
        parts = (self._scale, self._good, self._skipped)
        return torch.stack([part.double() for part in parts])

    def skipped(self) -> int:
        """Steps skipped in all."""
        return int(self._skipped)

    def restore(self, state: Tensor) -> None:
        """Go on from what `state` gave."""
        scale, good, skipped = state.unbind()
        self._scale.copy_(scale)
        self._good.copy_(good)
        self._skipped.copy_(skipped)
        self._stopped.fill_(False)

    def restart(self) -> None:
        """Forget everything."""
        initial = 1.0 if self._rule is None else self._rule.initial
        self.restore(torch.tensor([initial, 0.0, 0.0], dtype=torch.float64))

    def _adapt(self, rule: LossScaling, skipped: Tensor) -> None:
        taken = ~(skipped | self._stopped)
        self._good += taken
        grows = taken & (self._good == rule.interval)
        self._good.masked_fill_(skipped | grows, 0)
        self._skipped += skipped
        factor = torch.where(skipped, rule.backoff, torch.where(grows, rule.growth, 1.0))
        # Gradients that are all zero would let it grow beyond FP32.
        self._scale.mul_(factor).clamp_(max=2.0**127)
