"""Tails: contraction axes that end within a block or within the RHT of a quantized GEMM.

    fprop, dgrad    contract over a layer's features: width or mlp_width
    wgrad           contracts over the tokens of a batch

They are refused, each with the key that the user can change, unless the recipe pads; then they are
said, with the number of elements that each axis is short of.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernels.recipes import Gemm, Recipe
from sweeps.counts import linear_layers
from sweeps.errors import Problem
from sweeps.shapes import ModelShape

LISTED = 6
"""Padded axes of a recipe that are named one by one before the rest is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """A GEMM's contraction axis of `size` elements, no multiple of what it is laid out in."""

    gemm: str
    size: int
    block: int
    rht_size: int

    @property
    def missing(self) -> int:
        """Elements up to the next whole block."""
        return -self.size % self.block


def check_tails(
    shapes: Sequence[ModelShape], recipes: Sequence[Recipe], batch_tokens: int
) -> Iterator[Problem]:
    """Each contraction axis of a quantized GEMM must hold whole blocks, unless the recipe pads."""
    refusing = [recipe for recipe in recipes if not recipe.pad]
    for index, shape in enumerate(shapes):
        tails = [(recipe, _feature_tails(shape, recipe)) for recipe in refusing]
        for axis, size in (("width", shape.width), ("mlp_width", shape.mlp_width)):
            found = [
                (recipe, next(tail for tail in of_recipe if tail.size == size))
                for recipe, of_recipe in tails
                if any(tail.size == size for tail in of_recipe)
            ]
            yield from _refused(f"models[{index}].{axis}", str(size), found)
    found = [(recipe, tail) for recipe in refusing for tail in _token_tails(recipe, batch_tokens)]
    yield from _refused("train.batch", f"{batch_tokens}tok", found)


def padding_notes(
    shapes: Sequence[ModelShape], recipes: Sequence[Recipe], batch_tokens: int
) -> Iterator[str]:
    """A sentence for each recipe that pads, with the elements that its axes are filled up by."""
    for recipe in recipes:
        if not recipe.pad:
            continue
        axes = dict.fromkeys(
            f"{tail.missing} on the {tail.size} {what} ({tail.gemm}, block {tail.block})"
            for what, tail in _padded(shapes, recipe, batch_tokens)
        )
        if axes:
            more = [f"{len(axes) - LISTED} more"] if len(axes) > LISTED else []
            named = "; ".join([*list(axes)[:LISTED], *more])
            yield f"recipe {recipe.name} pads the ends of axes by this many elements: {named}"


def _padded(
    shapes: Sequence[ModelShape], recipe: Recipe, batch_tokens: int
) -> Iterator[tuple[str, Tail]]:
    for shape in shapes:
        for tail in _feature_tails(shape, recipe):
            yield f"features of model {shape.name}", tail
    for tail in _token_tails(recipe, batch_tokens):
        yield "tokens of a batch", tail


def _feature_tails(shape: ModelShape, recipe: Recipe) -> tuple[Tail, ...]:
    """The tails of fprop and dgrad in the layers of a model, each once."""
    gemms = {"fprop": recipe.fprop, "dgrad": recipe.dgrad}
    sizes = {shape.width, shape.mlp_width}
    possible = sum(size % gemm.block != 0 for gemm in gemms.values() for size in sizes)
    if not possible:
        return ()
    found: dict[Tail, None] = {}
    for layer in linear_layers(shape):
        if recipe.quantizes(layer.name, shape.num_layers):
            lengths = (layer.in_features, layer.out_features)
            for (name, gemm), size in zip(gemms.items(), lengths, strict=True):
                found |= dict.fromkeys(_tails(name, gemm, size))
        if len(found) == possible:
            break
    return tuple(found)


def _token_tails(recipe: Recipe, batch_tokens: int) -> tuple[Tail, ...]:
    return _tails("wgrad", recipe.wgrad, batch_tokens)


def _tails(name: str, gemm: Gemm, size: int) -> tuple[Tail, ...]:
    """The one tail of an axis, or none."""
    if not size % gemm.block:
        return ()
    rht_size = 0 if gemm.rht is None else gemm.rht.size
    return (Tail(gemm=name, size=size, block=gemm.block, rht_size=rht_size),)


def _refused(key: str, text: str, found: Sequence[tuple[Recipe, Tail]]) -> Iterator[Problem]:
    if not found:
        return
    recipe, tail = found[0]
    more = f" and of {len(found) - 1} more" if len(found) > 1 else ""
    whose = f"of recipe {recipe.name}{more}"
    if tail.rht_size > tail.size:
        message = f"shorter than the RHT of {tail.rht_size} elements {whose}; `pad: true` fills it"
    else:
        message = f"not divisible by the block {tail.block} {whose}; `pad: true` fills it"
    yield Problem(key=key, value=text, message=message)
