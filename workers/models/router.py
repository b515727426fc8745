"""The router of a mixture: which experts a token passes, by what share, and how loads are balanced.

    score_e = sigmoid(x r_e)  or  softmax over e of (x r_e)               FP32, r_e a row of weight
    chosen  = the `active` largest of score_e + bias_e
    gate_e  = score_e / sum of the scores of those chosen                 the bias never enters it
    bias_e  moves by rate * sign(mean load - load_e) after each step      load: tokens that chose e

No auxiliary loss pulls at the weights. The usual rate is 0.01: at the 0.001 of long runs a small
model has gathered its tokens on a few experts before the biases have moved far enough. Sources:
DeepSeek-V3 (arXiv 2412.19437), Wang et al. on the bias and its rates (arXiv 2408.15664).
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from sweeps.shapes import Experts, Router as Scores

_LEAST = 1e-20
"""Beside the sum of scores, so that scores that are all zero give no NaN."""


class Router(nn.Module):
    """Scores the experts of one block.

    Attributes:
        weight: [E, width], FP32, never quantized.
        bias: [E], FP32; what is kept of the run beside its parameters.
        load: [E] int64, the tokens that chose each expert in training since `balance`.
    """

    bias: Tensor
    load: Tensor

    def __init__(self, experts: Experts, width: int) -> None:
        super().__init__()
        self._experts = experts
        self.weight = nn.Parameter(torch.empty(experts.count, width))
        load = torch.zeros(experts.count, dtype=torch.int64)
        self.register_buffer("bias", torch.zeros(experts.count))
        self.register_buffer("load", load, persistent=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Choose for each token.

        Args:
            x: [t, width], of any floating type.

        Returns:
            Indices of the chosen experts, int64 [t, active], and their gates, FP32 [t, active].
        """
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        scores = self._scores(functional.linear(wide, self.weight))
        chosen = torch.topk(scores.detach() + self.bias, self._experts.active, sorted=False).indices
        if torch.is_grad_enabled():
            ones = torch.ones_like(chosen.flatten())
            self.load.scatter_add_(0, chosen.flatten(), ones)
        gates = scores.gather(1, chosen)
        return chosen, gates / (gates.sum(1, keepdim=True) + _LEAST)

    @torch.no_grad()
    def balance(self, load: Tensor) -> None:
        """Move the bias against a load, int64 [E], and begin to count anew."""
        step = self._experts.balance_rate * (load.float().mean() - load).sign()
        self.bias.add_(step)
        self.load.zero_()

    def restart(self) -> None:
        """Forget bias and load."""
        self.bias.zero_()
        self.load.zero_()

    def _scores(self, logits: Tensor) -> Tensor:
        match self._experts.router:
            case Scores.SIGMOID:
                return logits.sigmoid()
            case Scores.SOFTMAX:
                return logits.softmax(1)
