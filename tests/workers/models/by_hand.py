"""The docstrings of `workers.models`, written out in FP64 and numpy, token by token."""

from typing import Any

import numpy as np

from sweeps.shapes import Experts, Mlp, ModelShape, Router
from workers.models.decoder import Decoder

Array = np.ndarray[Any, Any]


class ByHand:
    """What a model computes."""

    def __init__(self, model: Decoder, shape: ModelShape) -> None:
        self._shape = shape
        self._tensors = {
            name: tensor.detach().double().numpy() for name, tensor in model.state_dict().items()
        }

    def logits(self, ids: Array) -> Array:
        """[B, T] to [B, T, vocabulary]."""
        x = self._tensors["embedding.weight"][ids]
        for index in range(self._shape.num_layers):
            name = f"blocks.{index}"
            x = x + self._attention(self._norm(x, f"{name}.attention_norm"), f"{name}.attention")
            y, experts = self._norm(x, f"{name}.mlp_norm"), self._shape.experts
            if experts is None or index < experts.dense_layers:
                x = x + self._network(y, f"{name}.mlp")
            else:
                x = x + self._mixture(y, experts, f"{name}.mlp")
        return self._linear(self._norm(x, "norm"), "head")

    def _norm(self, x: Array, name: str) -> Array:
        rms: Array = np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)
        y: Array = x / rms * self._tensors[f"{name}.weight"]
        return y

    def _linear(self, x: Array, name: str, expert: int | None = None) -> Array:
        weight = self._tensors[f"{name}.weight"]
        y: Array = x @ (weight if expert is None else weight[expert]).T
        return y

    def _turn(self, x: Array) -> Array:
        positions, width = x.shape[1], x.shape[-1]
        base = self._shape.rope_base
        angle = np.outer(np.arange(positions), base ** (-np.arange(0, width, 2) / width))[:, None]
        a, b = x[..., 0::2], x[..., 1::2]
        pairs = (a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle))
        return np.stack(pairs, -1).reshape(x.shape)

    def _attention(self, x: Array, name: str) -> Array:
        heads, kv_heads = self._shape.num_heads, self._shape.num_kv_heads or self._shape.num_heads
        batch, positions, _ = x.shape

        def split(part: str, count: int) -> Array:
            return self._linear(x, f"{name}.{part}").reshape(batch, positions, count, -1)

        q = self._turn(self._norm(split("query", heads), f"{name}.query_norm"))
        k = self._turn(self._norm(split("key", kv_heads), f"{name}.key_norm"))
        v = split("value", kv_heads)
        mixed = np.zeros_like(q)
        for head in range(heads):
            shared = head // (heads // kv_heads)
            for t in range(positions):
                scores = np.einsum("bd,bsd->bs", q[:, t, head], k[:, : t + 1, shared])
                share = np.exp(scores / np.sqrt(q.shape[-1]))
                share /= share.sum(-1, keepdims=True)
                mixed[:, t, head] = np.einsum("bs,bsd->bd", share, v[:, : t + 1, shared])
        return self._linear(mixed.reshape(batch, positions, -1), f"{name}.output")

    def _network(self, x: Array, name: str, expert: int | None = None) -> Array:
        up = self._linear(x, f"{name}.up", expert)
        if self._shape.mlp is Mlp.SWIGLU:
            gate = self._linear(x, f"{name}.gate", expert)
            inner = gate / (1 + np.exp(-gate)) * up
        else:
            inner = np.maximum(up, 0) ** 2
        return self._linear(inner, f"{name}.down", expert)

    def _mixture(self, x: Array, experts: Experts, name: str) -> Array:
        y = np.zeros_like(x)
        bias = self._tensors[f"{name}.router.bias"]
        for place in np.ndindex(x.shape[:-1]):
            logits = self._linear(x[place], f"{name}.router")
            if experts.router is Router.SIGMOID:
                scores = 1 / (1 + np.exp(-logits))
            else:
                scores = np.exp(logits) / np.exp(logits).sum()
            chosen = np.argsort(scores + bias)[-experts.active :]
            for expert in chosen:
                gate = scores[expert] / scores[chosen].sum()
                y[place] += gate * self._network(x[place], f"{name}.experts", int(expert))
        return y + self._network(x, f"{name}.shared") if experts.shared_width else y
