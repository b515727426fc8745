"""The optimizer of a model: its gradients clipped, each parameter moved by its own rule.

    adamw   all parameters by AdamW
    muon    matrices of the blocks, those of experts too, by Muon; the rest by AdamW: embedding,
            head, routers and norms, whose rows are not mixed by what comes before and after them

Weight decay acts on what multiplies activations: linear layers, experts, routers and head. Norm
gains are not decayed, nor is the embedding, whose small rows would make the gradients of the first
block large (OLMo 2, arXiv 2501.00656, section 3.4). Weights, gradients and moments are FP32.

Clipping divides all gradients by max(1, |g| / `gradient_clip`), |g| their global norm.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from sweeps.training import OptimizerKind, Training
from workers.optimizers.adamw import AdamW
from workers.optimizers.gradients import gradients
from workers.optimizers.muon import Muon
from workers.shards import fill, total


class Optimizer:
    """Moves the parameters of one model; its moments are readable and settable by name.

    A model may be sharded before it comes here (`workers.shards`): then each rank moves its rows.
    """

    def __init__(self, model: nn.Module, training: Training) -> None:
        self._weights = dict(model.named_parameters())
        self._clip = training.gradient_clip
        self._shrink: Tensor | None = None
        tables = {id(one.weight) for one in model.modules() if isinstance(one, nn.Embedding)}

        def chosen(*, by_muon: bool, decayed: bool) -> dict[str, nn.Parameter]:
            return {
                name: weight
                for name, weight in self._weights.items()
                if is_moved_by_muon(name, weight, training.optimizer) == by_muon
                and (weight.ndim >= 2 and id(weight) not in tables) == decayed
            }

        decay = training.weight_decay
        self._parts = (
            Muon(chosen(by_muon=True, decayed=True), training, decay=decay),
            AdamW(chosen(by_muon=False, decayed=True), training, decay=decay),
            AdamW(chosen(by_muon=False, decayed=False), training, decay=0.0),
        )

    @torch.no_grad()
    def clip(self) -> Tensor:
        """Settle by how much the next update shrinks the gradients.

        Returns:
            Their global norm as they are, a scalar in FP32.
        """
        norms = torch.stack(torch._foreach_norm(gradients(self._weights)))
        squares = total(norms.square().sum(), of=next(iter(self._weights.values())))
        norm = squares.sqrt()
        self._shrink = (norm / self._clip).clamp_min(1.0)
        return norm

    def update(self, rate: float, skip: Tensor) -> None:
        """Update the weights, once for each `clip`, and drop the gradients.

        Args:
            rate: Learning rate.
            skip: A scalar in FP32: 1 to leave weights and moments as they are, else 0.
        """
        assert self._shrink is not None, "gradients are clipped before an update"
        for part in self._parts:
            part.update(rate, skip=skip, shrink=self._shrink)
        self._shrink = None
        for weight in self._weights.values():
            weight.grad = None

    def moments(self) -> dict[str, Tensor]:
        """What the update rules remember, `<parameter>.<what>`; sharded as the parameters are."""
        return {name: value for part in self._parts for name, value in part.moments().items()}

    def restore(self, moments: Mapping[str, Tensor], updates: int) -> None:
        """Continue after so many updates with copies of these moments, whole ones."""
        for name, moment in self.moments().items():
            fill(moment, moments[name])
        self._count_from(updates)

    def restart(self) -> None:
        """Forget everything."""
        for moment in self.moments().values():
            moment.zero_()
        self._count_from(0)

    def _count_from(self, updates: int) -> None:
        for part in self._parts:
            part.count_from(updates)


def is_moved_by_muon(name: str, weight: Tensor, kind: OptimizerKind) -> bool:
    """Whether Muon moves a parameter of this name in the model."""
    is_matrix = name.startswith("blocks.") and weight.ndim >= 2 and ".router." not in name
    return kind is OptimizerKind.MUON and is_matrix
