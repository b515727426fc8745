"""Muon: momentum whose matrices are orthogonalised, at the size of AdamW's steps.

    B = m B + (1 - m) g                  U = m B + (1 - m) g                     Nesterov
    X = U / |U|;  5 times  A = X X^T,  X = a X + (b A + c A^2) X                  about U's U V^T
    w = (1 - rate * decay) w - rate * 0.2 sqrt(max(out, in)) X

g is the gradient over `shrink`, by which clipping divides it; a, b, c = 3.4445, -4.7750, 2.0315
bring every singular value to between 0.7 and 1.2. The factor 0.2 sqrt(max(out, in)) gives the step
the root mean square of AdamW's, about 0.2, so that AdamW's rate and decay serve. The momentum B is
the only state, in FP32; the iteration runs in BF16, as its source does: it needs no more digits,
and on the device that it runs on it is the same at each repetition. A stack of experts [E, out, in]
is E matrices. Equal shapes, transposed or not, go through one batched product.

Sources: Jordan et al., Muon (kellerjordan.github.io/posts/muon); Liu et al., Muon is scalable for
LLM training (arXiv 2502.16982) for the factor. `torch.optim.Muon` is the same for single matrices.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from sweeps.training import Training
from workers.optimizers.gradients import gradients, in_place
from workers.shards import fill, whole

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5
EPSILON = 1e-7
RMS = 0.2
"""Root mean square of AdamW's steps over their rate, as the source of the factor measured it."""

BATCHED_ELEMENTS = 2**24
"""Elements that go through one product, so that few matrices are held twice."""


class Muon:
    """Moves matrices and stacks of matrices, with one weight decay."""

    def __init__(
        self, weights: Mapping[str, nn.Parameter], training: Training, *, decay: float
    ) -> None:
        """Begins with a momentum of zero.

        Args:
            weights: By name; [..., out, in] in FP32, plain or sharded.
            training: Of the run.
            decay: Weight decay of all of them.
        """
        self._momentum, self._decay = training.momentum, decay
        self._weights = weights
        self._moving = {name: torch.zeros_like(one) for name, one in weights.items()}
        self._rows = [in_place(one) for one in weights.values()]
        self._moving_rows = [in_place(one) for one in self._moving.values()]
        self._batches = tuple(_batches([*weights.values()]))

    @torch.no_grad()
    def update(self, rate: float, *, skip: Tensor, shrink: Tensor) -> None:
        """Update the weights from their gradients, which are overwritten.

        Args:
            rate: Learning rate.
            skip: A scalar in FP32: 1 to leave weights and momentum as they are, else 0.
            shrink: A scalar in FP32 by which gradients are divided.
        """
        if not self._rows:
            return
        steps, take = gradients(self._weights), 1 - skip
        torch._foreach_div_(steps, shrink)
        for step in steps:  # what is skipped may not be finite, and 0 times that is not 0
            step.masked_fill_(skip.bool(), 0.0)
        moved = torch._foreach_sub(steps, self._moving_rows)
        torch._foreach_mul_(moved, (1 - self._momentum) * take)
        torch._foreach_add_(self._moving_rows, moved)
        torch._foreach_lerp_(steps, self._moving_rows, self._momentum)
        matrices = [weight.grad for weight in self._weights.values() if weight.grad is not None]
        for places in self._batches:
            _orthogonalise([matrices[place] for place in places])
            factor = RMS * math.sqrt(max(matrices[places[0]].shape[-2:]))
            torch._foreach_mul_([steps[place] for place in places], rate * factor * take)
        torch._foreach_mul_(self._rows, 1 - rate * self._decay * take)
        torch._foreach_sub_(self._rows, steps)

    def moments(self) -> dict[str, Tensor]:
        """The `momentum` by parameter name, as it lies."""
        return {f"{name}.momentum": value for name, value in self._moving.items()}

    def count_from(self, updates: int) -> None:
        """Nothing here depends on how many updates there were."""


def orthogonalised(matrices: Tensor) -> Tensor:
    """The orthogonal factor of each matrix, roughly: singular values from 0.7 to 1.2.

    Args:
        matrices: [n, rows, columns] in FP32, rows <= columns.

    Returns:
        BF16 of that shape; zeros of a matrix of zeros.
    """
    a, b, c = COEFFICIENTS
    norms = torch.linalg.vector_norm(matrices, dim=(-2, -1), keepdim=True)
    x: Tensor = (matrices / norms.clamp_min(EPSILON)).bfloat16()
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x


def _batches(weights: Sequence[Tensor]) -> Iterator[tuple[int, ...]]:
    """Places of the matrices of one shape, transposed or not, as many as go through at once."""
    alike: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for place, weight in enumerate(weights):
        alike[tuple(sorted(weight.shape[-2:]))].append(place)
    for places in alike.values():
        batch: list[int] = []
        for place in places:
            held = sum(weights[one].numel() for one in (*batch, place))
            if batch and held > BATCHED_ELEMENTS:
                yield tuple(batch)
                batch = []
            batch.append(place)
        yield tuple(batch)


def _orthogonalise(tensors: Sequence[Tensor]) -> None:
    """Put in the place of matrices, equal in shape but for being transposed, their factors."""
    wide = []
    for tensor in tensors:
        rows, columns = tensor.shape[-2:]
        stack = whole(tensor).reshape(-1, rows, columns)
        wide.append(stack.mT if rows > columns else stack)
    found = torch.split(orthogonalised(torch.cat(wide)), [len(stack) for stack in wide])
    for tensor, factor in zip(tensors, found, strict=True):
        rows, columns = tensor.shape[-2:]
        fill(tensor, (factor.mT if rows > columns else factor).reshape(tensor.shape))
