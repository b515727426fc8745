"""What fprop's quantizer makes of a layer's weight from step to step.

    codes of the weight at the forward passes of three steps in a row, by the same signs and draws
    of fprop, so that a weight that stands still has the same: a, b, c

    flips          share of elements with b != a
    oscillations   share of elements with b != a and c == a: they sit at a rounding threshold
    mismatch       rms(w in fprop - w in dgrad) / rms(w), transforms undone, at the last of them

A weight of which fprop takes the carrier's numbers has no codes and no motion.

Source: oscillation at rounding thresholds, Nagel et al. (arXiv 2203.11086).
"""

import torch
from torch import Tensor

from kernels.codes import encoded
from kernels.gemm import DGRAD, FPROP, LayerPass
from kernels.quality import WeightMotion


@torch.no_grad()
def weight_codes(call: LayerPass, weight: Tensor) -> Tensor | None:
    """Signed codes of a weight in fprop.

    Args:
        call: The layer's recipe, and the streams that all weights to be compared share.
        weight: [out, in].

    Returns:
        [out, in'] int16, or None if fprop does not quantize the weight.
    """
    operand = call.gemm(FPROP).right
    if operand.grid is None:
        return None
    panels = encoded(
        weight.to(call.carrier),
        operand,
        rotation=call.rotation(FPROP),
        axis=FPROP.right_axis,
        key=call.streams.key(layer=call.layer, gemm=FPROP.name, operand="w"),
    )
    return torch.cat([panel.codes.to(torch.int16) for panel in panels])


@torch.no_grad()
def weight_motion(call: LayerPass, weight: Tensor, codes: tuple[Tensor, ...]) -> WeightMotion:
    """The motion over three steps.

    Args:
        call: The layer's recipe, and its streams as they stand at the step of `weight`.
        weight: [out, in].
        codes: What `weight_codes` gave at three steps in a row.
    """
    first, second, third = codes
    flipped = first != second
    carried = weight.to(call.carrier)
    apart = call.seen(FPROP, "w", carried) - call.seen(DGRAD, "w", carried)
    return WeightMotion(
        flips=_share(flipped),
        oscillations=_share(flipped & (first == third)),
        mismatch=float(apart.double().square().sum().sqrt() / _norm(carried)),
    )


def _share(chosen: Tensor) -> float:
    return int(chosen.sum()) / chosen.numel()


def _norm(weight: Tensor) -> Tensor:
    """At least the smallest number, so that a weight of zeros has a mismatch of zero."""
    return weight.double().square().sum().sqrt().clamp_min(torch.finfo(torch.float64).tiny)
