"""The dense family: Llama- and Qwen-like decoders from 50 thousand to 1.5 billion parameters.

    h += attention(norm h)     RoPE, queries and keys normed, heads in groups that share a key
    h += mlp(norm h)           SwiGLU

A model is called by its N, the non-embedding parameters, within 5 %. All that a GEMM contracts over
(the width, all query heads, all key heads, the MLP) is a multiple of 32, from 12m on of 128, so
that blocks and transforms of those sizes end where the axis does. Heads widen from 16 to 128
features, and those of 200k and 400k have a key each. Small models are shallow: there a layer's
calls cost more than its arithmetic.
"""

from sweeps.shapes import ModelShape


def _dense(
    name: str, layers: int, width: int, heads: int, kv_heads: int, mlp_width: int
) -> ModelShape:
    """A model whose heads share out the width; as many key heads are said as a user says them."""
    return ModelShape(
        name=name,
        num_layers=layers,
        width=width,
        num_heads=heads,
        num_kv_heads=None if kv_heads == heads else kv_heads,
        mlp_width=mlp_width,
    )


LADDER = (
    #             blocks width heads kv   mlp
    _dense("50k", 2, 64, 4, 2, 64),
    _dense("100k", 2, 64, 4, 2, 192),
    _dense("200k", 2, 96, 6, 6, 224),
    _dense("400k", 3, 96, 6, 6, 320),
    _dense("800k", 4, 128, 8, 4, 384),
    _dense("1.6m", 4, 192, 6, 2, 512),
    _dense("3m", 4, 256, 8, 4, 704),
    _dense("6m", 6, 320, 10, 2, 768),
    _dense("12m", 7, 384, 6, 2, 1152),
    _dense("25m", 9, 512, 8, 2, 1408),
    _dense("50m", 12, 640, 10, 2, 1664),
    _dense("100m", 16, 768, 12, 4, 2048),
    _dense("200m", 18, 1024, 16, 4, 2816),
    _dense("400m", 24, 1280, 20, 4, 3328),
    _dense("800m", 24, 1792, 14, 2, 4864),
    _dense("1.5b", 28, 2048, 16, 8, 6656),
)
"""Ascending in N."""
