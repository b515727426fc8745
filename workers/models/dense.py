"""The dense family: a decoder in the manner of Llama and Qwen, every block with one MLP.

    h = h + down(silu(gate (norm h)) * up (norm h))        after attention, in each block

RMSNorm, RoPE, QK-norm, GQA. Sources: Llama 3 (arXiv 2407.21783), Qwen3 (arXiv 2505.09388).
"""

from torch import nn

from workers.models.linears import Linears
from workers.models.mlp import network


def feed_forward(linears: Linears, block: int) -> nn.Module:
    """What follows attention in a block, counted from 0."""
    shape, name = linears.shape, f"blocks.{block}.mlp"
    return network(shape.mlp, linears.one, name, width=shape.width, inner=shape.mlp_width)
