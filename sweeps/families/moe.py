"""The moe family: fine-grained routed experts and a shared one, from 1 million to 124 billion.

    h += attention(norm h)                              as in the dense family
    h += shared(norm h) + sum of g_e expert_e(norm h)   over the chosen experts e

A model is called by its N, all non-embedding parameters, within 5 %; a token passes few experts,
which leaves 29 % of N active at 1 million and 5 % at 124 billion. Expert widths, as all that a GEMM
contracts over, are multiples of 32, from 16m on of 128. Routers are sigmoid with balancing by bias
alone, the first blocks of the larger models are dense with the width that a token passes later:
DeepSeekMoE (arXiv 2401.06066), DeepSeek-V3 (arXiv 2412.19437), Ling (arXiv 2507.17702).
"""

from sweeps.shapes import Experts, ModelShape


def _moe(
    name: str, layers: int, width: int, heads: int, kv_heads: int, experts: Experts
) -> ModelShape:
    """A model whose heads share out the width; dense blocks do what a token passes elsewhere."""
    return ModelShape(
        name=name,
        num_layers=layers,
        width=width,
        num_heads=heads,
        num_kv_heads=kv_heads,
        mlp_width=experts.passed_width,
        experts=experts,
    )


LADDER = (
    _moe("moe-1m", 2, 128, 8, 2, Experts(count=16, active=2, width=64, shared_width=128)),
    _moe("moe-4m", 3, 192, 6, 2, Experts(count=32, active=4, width=64, shared_width=64)),
    _moe("moe-16m", 6, 256, 4, 2, Experts(count=24, active=3, width=128, shared_width=128)),
    _moe(
        "moe-100m", 8, 512, 8, 2,
        Experts(count=64, active=6, width=128, shared_width=256, dense_layers=1),
    ),
    _moe(
        "moe-1b", 19, 1024, 16, 4,
        Experts(count=64, active=6, width=256, shared_width=512, dense_layers=1),
    ),
    _moe(
        "moe-7.9b", 20, 2048, 16, 4,
        Experts(count=128, active=8, width=512, shared_width=512, dense_layers=1),
    ),
    _moe(
        "moe-124b", 40, 4096, 32, 8,
        Experts(count=256, active=8, width=1024, shared_width=1024, dense_layers=2),
    ),
)  # fmt: skip
"""Ascending in N."""
