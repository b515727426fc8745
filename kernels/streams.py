"""Random streams: where a model's stochastic rounding and its random transforms stand.

Every draw is a function of seed, step, microbatch, layer, GEMM and operand (`kernels.philox`,
`kernels.hadamard`), so that a step can be repeated without any state but this.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from kernels.draw_table import STILL, DrawTable, Words
from kernels.draws import packed
from kernels.hadamard import Rotation, rotation, sign_bits
from kernels.operands import Rounding
from kernels.philox import stream_key
from kernels.recipes import GEMMS, Recipe, Rht


class Streams:
    """Shared by all layers of a model; the training loop moves it on.

    Attributes:
        sr: Seed of stochastic rounding.
        rht: Seed of the signs of the Hadamard transforms.
    """

    def __init__(self, *, sr: int, rht: int, step: int = 0, microbatch: int = 0) -> None:
        """Begins at a position; arguments as in `move`."""
        self.sr = sr
        self.rht = rht
        self._step = step
        self._microbatch = microbatch
        self._layers: list[tuple[Recipe, str]] = []
        self._rows: dict[tuple[Recipe, tuple[str, ...]], int] = {}
        self._table = DrawTable()

    @property
    def step(self) -> int:
        """Optimizer step."""
        return self._step

    @property
    def microbatch(self) -> int:
        """Position within the step."""
        return self._microbatch

    def move(self, *, step: int, microbatch: int = 0) -> None:
        """Go to another position, and have the rows of all layers hold its words.

        Args:
            step: Optimizer step.
            microbatch: Position within the step.
        """
        if (step, microbatch) == (self._step, self._microbatch):
            return
        self._step, self._microbatch = step, microbatch
        self._table.refresh([self.words(recipe, layer) for recipe, layer in self._layers])

    def at(self, *, step: int, microbatch: int = 0) -> "Streams":
        """The same seeds at a position of their own, without layers."""
        return Streams(sr=self.sr, rht=self.rht, step=step, microbatch=microbatch)

    def now(self) -> "Streams":
        """The same seeds, staying where these stand now."""
        return self.at(step=self.step, microbatch=self.microbatch)

    def row(self, recipe: Recipe, layer: str, device: torch.device) -> Tensor:
        """Where a layer's words are on a device, whatever the position.

        Args:
            recipe: What the layer follows.
            layer: Its name.
            device: Where its weight is.

        Returns:
            [6, 3] int64: what `words` gives; to be read, and copied where a later pass needs it.
        """
        return self.rows(recipe, (layer,), device)[0]

    def rows(self, recipe: Recipe, layers: Sequence[str], device: torch.device) -> Tensor:
        """The same for a stack of layers that follow one recipe.

        Returns:
            [layers, 6, 3] int64.
        """
        key = recipe, tuple(layers)
        if key not in self._rows:
            self._rows[key] = len(self._layers)
            for layer in layers:
                self._layers.append((recipe, layer))
                self._table.append(self.words(recipe, layer))
        return self._table.rows(self._rows[key], len(layers), device)

    def words(self, recipe: Recipe, layer: str) -> Words:
        """Key and signs of a layer's six operands, here and now; a key of 0 where none is drawn."""
        if not recipe.is_quantized:
            return STILL
        signs = {
            gemm: self._signs(getattr(recipe, gemm).rht, layer=layer, gemm=gemm) for gemm in GEMMS
        }
        return tuple(
            packed(
                0
                if operand.rounding is Rounding.RTNE
                else self.key(layer=layer, gemm=gemm, operand=word),
                signs[gemm],
            )
            for gemm, word, operand in recipe.operands()
        )

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

    def _signs(self, rht: Rht | None, *, layer: str, gemm: str) -> int:
        if rht is None:
            return 0
        return sign_bits(
            rht.signs,
            seed=self.rht,
            layer=layer,
            gemm=gemm,
            step=self.step,
            microbatch=self.microbatch,
            size=rht.size,
        )
