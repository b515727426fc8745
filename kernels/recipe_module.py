"""What the layers that follow a recipe share: FP32 master weights, and the numbers of a pass.

recipe   the three GEMMs by the recipe           the carrier's type in and out
bf16     three plain GEMMs, whatever it says     BF16 in and out
exact    no rounding at all                      the weight's type in and out, as FP64
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from typing import Any, Self

import torch
from torch import Tensor, nn

from kernels.followed import Followed, followed
from kernels.gemm import DGRAD, FPROP, Form, refusal
from kernels.probes import Probe, enrolled
from kernels.recipes import BF16_RECIPE, Recipe
from kernels.streams import Streams


class Numbers(Enum):
    """What the passes of a layer compute in, as the module docstring says."""

    RECIPE = auto()
    BF16 = auto()
    EXACT = auto()


class RecipeModule(nn.Module, ABC):
    """A layer without bias, or a stack of such layers, under one recipe.

    Attributes:
        weight: FP32 master weight, [..., out_features, in_features]; not initialised here.
        numbers: What its passes compute in for now.
        probe: Shown what the GEMMs of a pass take, by name; None while nobody looks.
    """

    def __init__(
        self, shape: tuple[int, ...], *, recipe: Recipe, name: str, streams: Streams
    ) -> None:
        """Makes the layer.

        Args:
            shape: Of the weight.
            recipe: The rules of the three GEMMs, as they are for this layer.
            name: The layer's name in the model, for the random streams and for sentences.
            streams: Shared by all layers of the model.

        Raises:
            ValueError: If a feature axis does not divide into the blocks and transforms of the GEMM
                that contracts it, and the recipe does not pad.
        """
        super().__init__()
        self.out_features, self.in_features = shape[-2:]
        self._name = name
        self._streams = streams
        self._recipe = recipe
        self.numbers = Numbers.RECIPE
        self.probe: Probe | None = None
        self.weight = nn.Parameter(torch.empty(shape, dtype=torch.float32))
        self._check(FPROP, self.in_features)
        self._check(DGRAD, self.out_features)
        self._number = enrolled(self)
        self._settle()

    @property
    def name(self) -> str:
        """The layer's name in the model."""
        return self._name

    @property
    def streams(self) -> Streams:
        """Shared by all layers of the model."""
        return self._streams

    @property
    def recipe(self) -> Recipe:
        """The rules of the three GEMMs, as they are for this layer."""
        return self._recipe

    @property
    def carrier(self) -> torch.dtype:
        """Type of a forward pass's result."""
        return self.weight.dtype if self.numbers is Numbers.EXACT else self._followed.carrier

    def extra_repr(self) -> str:
        """Shape and recipe, as printed within the model."""
        return f"{', '.join(map(str, self.weight.shape))}, recipe={self.recipe.name}"

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy, or one from another process, has its rows in the table of its own streams."""
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._number = enrolled(self)
        self._settle()

    @abstractmethod
    def _rows(self, device: torch.device) -> Tensor:
        """Where the words of its draws are on a device."""

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        """A weight may be assigned that is on another device."""
        super()._load_from_state_dict(*args, **kwargs)
        self._settle()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._settle()
        return self

    def _settle(self) -> None:
        """Learn what depends on where the weight is."""
        device = self.weight.device
        self._draws = self._rows(device)
        self._own, self._plain = followed(self.recipe, device), followed(BF16_RECIPE, device)

    @property
    def _followed(self) -> Followed:
        return self._own if self.numbers is Numbers.RECIPE else self._plain

    def _check(self, form: Form, size: int) -> None:
        if (reason := refusal(form, self.recipe, size)) is not None:
            raise ValueError(f"layer {self.name!r}: {reason}")


@contextmanager
def bf16_forward(model: nn.Module) -> Iterator[None]:
    """Runs every linear layer of a model in BF16 while the context lasts, whatever its carrier."""
    with _computing(model, Numbers.BF16):
        yield


@contextmanager
def unrounded(model: nn.Module) -> Iterator[None]:
    """Runs every linear layer of a model in the type of its weight while the context lasts.

    Nothing is rounded to a carrier then: a model that was moved to FP64 computes in FP64.
    """
    with _computing(model, Numbers.EXACT):
        yield


@contextmanager
def _computing(model: nn.Module, numbers: Numbers) -> Iterator[None]:
    layers = [module for module in model.modules() if isinstance(module, RecipeModule)]
    before = [layer.numbers for layer in layers]
    for layer in layers:
        layer.numbers = numbers
    try:
        yield
    finally:
        for layer, were in zip(layers, before, strict=True):
            layer.numbers = were
