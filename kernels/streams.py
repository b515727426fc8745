"""Random streams: where a model's stochastic rounding and its random transforms stand.

Every draw is a function of seed, step, microbatch, layer, GEMM and operand (`kernels.philox`,
`kernels.hadamard`), so that a step can be repeated without any state but this.
"""

from dataclasses import dataclass

from kernels.hadamard import Rotation, rotation
from kernels.philox import stream_key
from kernels.recipes import Rht


@dataclass(slots=True, kw_only=True)
class Streams:
    """Shared by all layers of a model; the training loop moves it on.

    Attributes:
        sr: Seed of stochastic rounding.
        rht: Seed of the signs of the Hadamard transforms.
        step: Optimizer step.
        microbatch: Position within the step.
    """

    sr: int
    rht: int
    step: int = 0
    microbatch: int = 0

    def key(self, *, layer: str, gemm: str, operand: str) -> int:
        """64 bits that select the draws of an operand of a layer's GEMM, here and now."""
        return stream_key(
            seed=self.sr,
            step=self.step,
            microbatch=self.microbatch,
            layer=layer,
            gemm=gemm,
            operand=operand,
        )

    def rotation(self, rht: Rht | None, *, layer: str, gemm: str) -> Rotation | None:
        """The transform that a GEMM of a layer shares between its operands, here and now."""
        return rotation(
            rht,
            seed=self.rht,
            layer=layer,
            gemm=gemm,
            step=self.step,
            microbatch=self.microbatch,
        )
