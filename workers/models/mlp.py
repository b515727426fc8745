"""The feed-forward networks: one of its own, or a stack of them as the routed experts of a block.

- `swiglu`: down(silu(gate x) * up x)
- `relu2`: down(relu(up x)^2)

A stack takes its rows sorted by expert, and where the rows of each end (`kernels.grouped`).
Sources: SwiGLU, arXiv 2002.05202; the square of relu, arXiv 2109.08668.
"""

from torch import Tensor, nn

from sweeps.shapes import Mlp
from workers.layers.activations import squared_relu, swiglu
from workers.models.linears import Maker


class SwiGlu(nn.Module):
    """down(silu(gate x) * up x)."""

    def __init__(self, make: Maker, name: str, width: int, inner: int) -> None:
        super().__init__()
        self.gate = make(f"{name}.gate", width, inner)
        self.up = make(f"{name}.up", width, inner)
        self.down = make(f"{name}.down", inner, width)

    def forward(self, x: Tensor, *ends: Tensor) -> Tensor:
        """[..., width] to [..., width], of the carrier; with the ends of a stack's groups."""
        inner = swiglu(self.gate(x, *ends), self.up(x, *ends))
        y: Tensor = self.down(inner, *ends)
        return y


class SquaredRelu(nn.Module):
    """down(relu(up x)^2)."""

    def __init__(self, make: Maker, name: str, width: int, inner: int) -> None:
        super().__init__()
        self.up = make(f"{name}.up", width, inner)
        self.down = make(f"{name}.down", inner, width)

    def forward(self, x: Tensor, *ends: Tensor) -> Tensor:
        """[..., width] to [..., width], of the carrier; with the ends of a stack's groups."""
        y: Tensor = self.down(squared_relu(self.up(x, *ends)), *ends)
        return y


def network(kind: Mlp, make: Maker, name: str, *, width: int, inner: int) -> nn.Module:
    """A network of a kind.

    Args:
        kind: Which.
        make: Makes its layers.
        name: Of the network, as in `blocks.0.mlp`.
        width: Of the residual stream.
        inner: Its inner width.
    """
    match kind:
        case Mlp.SWIGLU:
            return SwiGlu(make, name, width, inner)
        case Mlp.RELU2:
            return SquaredRelu(make, name, width, inner)
