"""The linear layers of a model's blocks, each under what the recipe says of it."""

from collections.abc import Callable
from dataclasses import dataclass

from kernels.grouped import GroupedQuantLinear
from kernels.linear import QuantLinear
from kernels.recipe_module import RecipeModule
from kernels.recipes import Recipe
from kernels.streams import Streams
from sweeps.shapes import ModelShape

Maker = Callable[[str, int, int], RecipeModule]
"""Makes a layer of a name such as `blocks.0.mlp.down`, its input and its output features."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Linears:
    """Makes them.

    Attributes:
        shape: Of the model.
        recipe: Of the model.
        streams: Shared by all layers.
    """

    shape: ModelShape
    recipe: Recipe
    streams: Streams

    def one(self, name: str, in_features: int, out_features: int) -> QuantLinear:
        """The layer of a name."""
        return QuantLinear(
            in_features, out_features, recipe=self._of(name), name=name, streams=self.streams
        )

    def stack(self, count: int) -> Maker:
        """Makes stacks of so many layers, where rules match the name of the stack."""

        def make(name: str, in_features: int, out_features: int) -> GroupedQuantLinear:
            return GroupedQuantLinear(
                count,
                in_features,
                out_features,
                recipe=self._of(name),
                name=name,
                streams=self.streams,
            )

        return make

    def _of(self, name: str) -> Recipe:
        quantized = self.recipe.quantizes(name, self.shape.num_layers)
        return self.recipe if quantized else self.recipe.unquantized()
