"""A pass recorded once, at fixed addresses, and carried out again and again by one launch.

    windows  --copy-->  [windows]  --replay-->  [loss],  [gradients] += those of the pass

Brackets stand for memory that stays where it is: a CUDA graph is a list of kernels with their
addresses. Weights, moments and the words of the random streams are changed in place and so are
always the present ones. Source: PyTorch's notes on CUDA graphs, "whole-network capture".
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from sweeps.errors import GridlawError

Record = Callable[[Callable[[], Tensor]], Callable[[], Tensor]]
"""Makes of a function one that does the same on the same memory, and gives the same tensor."""

WARM_UPS = 3
"""Passes before the recorded one: libraries choose and load kernels in the first."""


def cuda_graph(function: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """Record what a function launches on the GPU.

    Raises:
        GridlawError: If it does something that no graph can hold, as waiting for the GPU.
    """
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UPS):
            function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    try:
        # On the stream of the warm-up, to which autograd has bound the gradients of the weights.
        with torch.cuda.graph(graph, stream=stream):
            result = function()
    except RuntimeError as error:
        line = str(error).strip().splitlines()[0]
        raise GridlawError(
            f"a step cannot be recorded as a CUDA graph: {line}; GRIDLAW_ACCELERATE=false trains "
            "without one"
        ) from error

    def replay() -> Tensor:
        graph.replay()
        return result

    return replay


class Recorded:
    """A pass over windows of one shape.

    Args:
        model: Whose gradients the pass adds to.
        run: The pass; leaves nothing behind but gradients.
        windows: Of the shape, on the device.
        record: How it is recorded.
    """

    def __init__(
        self,
        model: nn.Module,
        run: Callable[[Tensor], Tensor],
        windows: Tensor,
        *,
        record: Record = cuda_graph,
    ) -> None:
        self._windows = windows.clone()
        self._weights = tuple(model.parameters())
        self._gradients = [torch.zeros_like(weight) for weight in self._weights]
        before = [weight.grad for weight in self._weights]
        for weight, gradient in zip(self._weights, self._gradients, strict=True):
            weight.grad = gradient
        self._replay = record(lambda: run(self._windows))
        for weight, earlier in zip(self._weights, before, strict=True):
            weight.grad = earlier

    def __call__(self, windows: Tensor) -> Tensor:
        """One pass; the loss is to be read before the next."""
        self._hold()
        self._windows.copy_(windows)
        return self._replay()

    def _hold(self) -> None:
        """Have every gradient where the recorded pass adds to it, as large as it is now."""
        fresh = []
        for weight, held in zip(self._weights, self._gradients, strict=True):
            if weight.grad is None:
                fresh.append(held)
            elif weight.grad is not held:
                held.copy_(weight.grad)
            weight.grad = held
        if fresh:
            torch._foreach_zero_(fresh)
