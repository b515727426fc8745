"""The mixture-of-experts family: from block `dense_layers` on, many small MLPs for few tokens each.

    h = h + shared(norm h) + sum over the chosen e of gate_e * expert_e(norm h)

Fine-grained routed experts beside one that every token passes, as in DeepSeekMoE (arXiv
2401.06066); the router is `workers.models.router`. The GEMMs of every expert follow the recipe as
a layer of its own; router, norms, embedding and head are never quantized.
"""

import math

from torch import Tensor, nn

from kernels.grouped import GroupedQuantLinear
from sweeps.shapes import Experts
from workers.models import dense
from workers.models.dispatch import gather, places, send
from workers.models.linears import Linears
from workers.models.mlp import network
from workers.models.router import Router


class Mixture(nn.Module):
    """The experts of one block and their router."""

    def __init__(self, linears: Linears, experts: Experts, name: str) -> None:
        super().__init__()
        shape = linears.shape
        self._count = experts.count
        self.router = Router(experts, shape.width)
        self.experts = network(
            shape.mlp,
            linears.stack(experts.count),
            f"{name}.experts",
            width=shape.width,
            inner=experts.width,
        )
        self.shared = None
        if experts.shared_width:
            self.shared = network(
                shape.mlp,
                linears.one,
                f"{name}.shared",
                width=shape.width,
                inner=experts.shared_width,
            )
        stacks = (one for one in self.experts.children() if isinstance(one, GroupedQuantLinear))
        self._block = math.lcm(*(stack.block for stack in stacks))

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, C] to [B, T, C], of the carrier."""
        tokens = x.reshape(-1, x.shape[-1])
        chosen, gates = self.router(tokens)
        where = places(chosen, self._count, self._block)
        done = self.experts(send(tokens, where), where.ends)
        y = gather(done, gates, where).view(x.shape)
        return y if self.shared is None else y + self.shared(x)


def feed_forward(linears: Linears, block: int) -> nn.Module:
    """What follows attention in a block, counted from 0."""
    experts = linears.shape.experts
    assert experts is not None
    if block < experts.dense_layers:
        return dense.feed_forward(linears, block)
    return Mixture(linears, experts, f"blocks.{block}.mlp")
