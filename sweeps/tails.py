"""Tails: contraction axes that end within a block or within the RHT of a quantized GEMM.

    fprop, dgrad    contract over a layer's features: the width, all query heads, all key heads, an
                    MLP's inner width
    wgrad           contracts over the tokens of a microbatch, or of a batch that names none

They are refused, each with the key that the user can change, unless the recipe pads; then they are
said, with the number of elements that each axis is short of. The tokens of a routed expert have no
tail: whatever the recipe, rows of zeros fill them up to whole blocks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from kernels.recipes import Gemm, Recipe
from sweeps.counts import linear_layers
from sweeps.errors import Problem
from sweeps.families.ladder import preset
from sweeps.shapes import ModelShape
from sweeps.training import Training

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """What the user wrote that makes an axis as long as it is.

    Attributes:
        key: Where it stands in the spec.
        value: What is written there.
        size: Elements that it makes.
        words: How it makes them, where it is not by saying them.
    """

    key: str
    value: str
    size: int
    words: str = ""


def check_tails(
    shapes: Sequence[ModelShape], recipes: Sequence[Recipe], trainings: Sequence[Training]
) -> Iterator[Problem]:
    """Each contraction axis of a quantized GEMM must hold whole blocks, unless the recipe pads."""
    refusing = [recipe for recipe in recipes if not recipe.pad]
    for index, shape in enumerate(shapes):
        tails = [(recipe, feature_tails(shape, recipe)) for recipe in refusing]
        for axis in _axes(f"models[{index}]", shape):
            found = [
                (recipe, next(tail for tail in of_recipe if tail.size == axis.size))
                for recipe, of_recipe in tails
                if any(tail.size == axis.size for tail in of_recipe)
            ]
            if found:
                yield _refused(axis, found)
                if preset(shape.name) == shape:  # its other axes cannot be changed either
                    break
    for axis in dict.fromkeys(map(_tokens, trainings)):
        ends = [(recipe, tail) for recipe in refusing for tail in _token_tails(recipe, axis.size)]
        if ends:
            yield _refused(axis, ends)


def padding_notes(
    shapes: Sequence[ModelShape], recipes: Sequence[Recipe], trainings: Sequence[Training]
) -> Iterator[str]:
    """A sentence for each recipe that pads, with the elements that its axes are filled up by."""
    for recipe in recipes:
        if not recipe.pad:
            continue
        axes = dict.fromkeys(
            f"{tail.missing} on the {tail.size} {what} ({tail.gemm}, block {tail.block})"
            for what, tail in _padded(shapes, recipe, trainings)
        )
        if axes:
            more = [f"{len(axes) - LISTED} more"] if len(axes) > LISTED else []
            named = "; ".join([*list(axes)[:LISTED], *more])
            yield f"recipe {recipe.name} pads the ends of axes by this many elements: {named}"


def feature_tails(shape: ModelShape, recipe: Recipe) -> tuple[Tail, ...]:
    """The tails of fprop and dgrad in the layers of a model, each once."""
    gemms = {"fprop": recipe.fprop, "dgrad": recipe.dgrad}
    possible = sum(
        size % gemm.block != 0
        for gemm, sizes in zip(gemms.values(), _lengths(shape), strict=True)
        for size in sizes
    )
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


def _padded(
    shapes: Sequence[ModelShape], recipe: Recipe, trainings: Sequence[Training]
) -> Iterator[tuple[str, Tail]]:
    for shape in shapes:
        for tail in feature_tails(shape, recipe):
            yield f"features of model {shape.name}", tail
    for axis in map(_tokens, trainings):
        what = f"tokens of a {axis.key.removeprefix('train.')}"
        yield from ((what, tail) for tail in _token_tails(recipe, axis.size))


def _axes(model: str, shape: ModelShape) -> Iterator[Axis]:
    """The axes that layers contract over, each length once, by the key that decides it."""
    axes = [
        ("width", "width", shape.width, shape.width),
        ("heads", "query features", shape.num_heads, shape.query_width),
        ("kv_heads", "key features", shape.num_kv_heads, shape.kv_width),
        ("mlp_width", "MLP width", shape.mlp_width, shape.mlp_width),
    ]
    if (experts := shape.experts) is not None:
        axes += [
            ("experts.width", "expert width", experts.width, experts.width),
            ("experts.shared_width", "shared width", experts.shared_width, experts.shared_width),
        ]
    is_preset = preset(shape.name) == shape
    seen = {0}  # no shared expert
    for key, what, written, size in axes:
        if size in seen:
            continue
        seen.add(size)
        if is_preset:
            yield Axis(key=model, value=shape.name, size=size, words=f"has {what} {size}, ")
        elif written == size:
            yield Axis(key=f"{model}.{key}", value=str(size), size=size)
        else:
            words = f"gives {size} {what}, "
            yield Axis(key=f"{model}.{key}", value=str(written), size=size, words=words)


def _tokens(training: Training) -> Axis:
    if (part := training.microbatch_tokens) is not None:
        return Axis(key="train.microbatch", value=f"{part}tok", size=part)
    batch = training.batch_tokens
    return Axis(key="train.batch", value=f"{batch}tok", size=batch)


@lru_cache(maxsize=256)  # asked for one recipe after the other
def _lengths(shape: ModelShape) -> tuple[frozenset[int], frozenset[int]]:
    """What fprop contracts over in the layers of a model, and what dgrad does."""
    layers = linear_layers(shape)
    return (
        frozenset(layer.in_features for layer in layers),
        frozenset(layer.out_features for layer in layers),
    )


def _token_tails(recipe: Recipe, tokens: int) -> tuple[Tail, ...]:
    return _tails("wgrad", recipe.wgrad, tokens)


def _tails(name: str, gemm: Gemm, size: int) -> tuple[Tail, ...]:
    """The one tail of an axis, or none."""
    if not size % gemm.block:
        return ()
    rht_size = 0 if gemm.rht is None else gemm.rht.size
    return (Tail(gemm=name, size=size, block=gemm.block, rht_size=rht_size),)


def _refused(axis: Axis, found: Sequence[tuple[Recipe, Tail]]) -> Problem:
    recipe, tail = found[0]
    more = f" and of {len(found) - 1} more" if len(found) > 1 else ""
    whose = f"of recipe {recipe.name}{more}"
    if tail.rht_size > tail.size:
        reason = f"shorter than the RHT of {tail.rht_size} elements {whose}; `pad: true` fills it"
    else:
        reason = f"not divisible by the block {tail.block} {whose}; `pad: true` fills it"
    return Problem(key=axis.key, value=axis.value, message=f"{axis.words}{reason}")
