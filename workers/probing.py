"""Probing: what a recipe does to the operands of chosen layers, measured while a model trains.

    step n, first microbatch:  x and w in forward, dy in backward  →  LayerQuality of each layer
    steps n-2, n-1, n:         codes of w in fprop                 →  its WeightMotion

at every n that is a multiple of `diagnostics.every`. The layers are watched and nothing is changed:
the numbers of a run are the same to the bit with and without. A step that is not measured costs
nothing, but for the codes of the two before one that is. A window of three steps that does not lie
within one unbroken stretch of one path is dropped: then the motion is None.

A layer is measured as its dy arrives, so that no tensor is held longer than training holds it. One
whose operands are not finite, as in a step that loss scaling skips, is left out. Routed experts are
layers of their own, each on its rows, filled up with zeros as its GEMMs take them; one that no
token passes is left out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from kernels.gemm import LayerPass
from kernels.grouped import GroupedQuantLinear
from kernels.measures import layer_quality
from kernels.quality import LayerQuality, WeightMotion
from kernels.recipe_module import RecipeModule
from kernels.recipes import Recipe
from sweeps.runspec import RunSpec
from workers.weight_motion import weight_codes, weight_motion

WINDOW = 3
"""Steps over which a weight is followed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A layer and the recipe that it is measured under, which need not be the one it follows.

    Attributes:
        layer: A layer, or the stack that it is one of.
        recipe: What it is measured under.
        expert: Its place in the stack; None for a layer of its own.
    """

    layer: RecipeModule
    recipe: Recipe
    expert: int | None = None

    @property
    def name(self) -> str:
        """The layer's name in the model."""
        return self.layer.name if self.expert is None else f"{self.layer.name}.{self.expert}"

    @property
    def weight(self) -> Tensor:
        """[out, in]."""
        return self.layer.weight if self.expert is None else self.layer.weight[self.expert]

    def now(self) -> LayerPass:
        """A pass under that recipe, as the layer's streams stand."""
        streams = self.layer.streams.now()
        return LayerPass(recipe=self.recipe, layer=self.name, streams=streams)

    def operands(self, shown: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """x, dy and w of the layer, of what the probe of its module was shown."""
        rows = slice(None)
        if self.expert is not None:
            start, end = [0, *shown["ends"].tolist()][self.expert : self.expert + 2]
            rows = slice(start, end)
        return {"x": shown["x"][rows], "dy": shown["dy"][rows], "w": self.weight}

    def codes(self) -> Tensor | None:
        """Of the weight in fprop, by the same signs and draws at every step: what moves is it."""
        streams = self.layer.streams.at(step=0)
        return weight_codes(replace(self.now(), streams=streams), self.weight)

    def motion(self, codes: Sequence[Tensor | None]) -> WeightMotion | None:
        """Of the weight, as it is now, over what `codes` gave at three steps in a row."""
        sound = tuple(one for one in codes if one is not None)
        if len(sound) < WINDOW:
            return None
        return weight_motion(self.now(), self.weight, sound)


def watched(
    model: nn.Module, recipe: Recipe, globs: Sequence[str], *, num_blocks: int
) -> tuple[Watched, ...]:
    """The linear layers in the blocks of a model that a recipe quantizes and a glob names.

    A glob that names a stack of experts names them all, and it may name one of them.
    """
    layers = (module for module in model.modules() if isinstance(module, RecipeModule))
    return tuple(
        one
        for layer in layers
        if layer.name.startswith("blocks.")
        and recipe.is_quantized
        and recipe.quantizes(layer.name, num_blocks)
        for one in _parts(layer, recipe)
        if any(fnmatchcase(name, glob) for glob in globs for name in {layer.name, one.name})
    )


@contextmanager
def measuring(layers: Sequence[Watched]) -> Iterator[dict[str, LayerQuality]]:
    """Measures each layer as a forward and a backward pass go through it.

    Yields:
        The quality by layer, which fills as backward proceeds.
    """
    found: dict[str, LayerQuality] = {}
    modules: dict[RecipeModule, list[Watched]] = {}
    for one in layers:
        modules.setdefault(one.layer, []).append(one)
    for module, parts in modules.items():
        module.probe = _probe(parts, found)
    try:
        yield found
    finally:
        for one in layers:
            one.layer.probe = None


class Probing:
    """The diagnostics of one run; it is told of every pass and keeps what it measured last.

    Args:
        model: What is trained.
        spec: The run.
        recipe: What its layers are measured under.
    """

    def __init__(self, model: nn.Module, spec: RunSpec, recipe: Recipe) -> None:
        self._every = spec.diagnostics.every
        globs = spec.diagnostics.layers if self._every else ()
        self._layers = watched(model, recipe, globs, num_blocks=spec.model.num_layers)
        self._measured: tuple[LayerQuality, ...] = ()
        self.restart()

    @property
    def is_watching(self) -> bool:
        """Whether any layer is chosen."""
        return bool(self._layers)

    def restart(self) -> None:
        """Forget the weights of earlier steps: the next one does not follow on them."""
        self._steps: list[int] = []
        self._codes: list[list[Tensor | None]] = []

    def looks_at(self, step: int) -> bool:
        """Whether it looks at weights in an optimizer step, counted from 1."""
        return self.is_watching and -step % self._every < WINDOW

    @contextmanager
    def during(self, step: int, *, microbatch: int) -> Iterator[None]:
        """Watch a forward and backward pass, if it is one to be measured.

        Args:
            step: The optimizer step that it belongs to, counted from 1.
            microbatch: Position within the step.
        """
        if not self._layers or microbatch:
            yield
            return
        self._note_codes(step)
        if step % self._every:
            yield
            return
        with measuring(self._layers) as found:
            yield
        motions = self._motions(step)
        self._measured = tuple(
            replace(found[one.name], motion=motion)
            for one, motion in zip(self._layers, motions, strict=True)
            if one.name in found
        )

    def taken(self) -> tuple[LayerQuality, ...]:
        """What was measured since this was asked last, in the order of the model."""
        measured, self._measured = self._measured, ()
        return measured

    def _note_codes(self, step: int) -> None:
        if not self.looks_at(step):
            return
        if self._steps and self._steps[-1] != step - 1:
            self.restart()
        self._steps = [*self._steps, step][-WINDOW:]
        self._codes = [*self._codes, [one.codes() for one in self._layers]][-WINDOW:]

    def _motions(self, step: int) -> list[WeightMotion | None]:
        if self._steps != [step - 2, step - 1, step]:
            return [None] * len(self._layers)
        by_layer = zip(*self._codes, strict=True)
        return [one.motion(codes) for one, codes in zip(self._layers, by_layer, strict=True)]


def _parts(layer: RecipeModule, recipe: Recipe) -> tuple[Watched, ...]:
    if not isinstance(layer, GroupedQuantLinear):
        return (Watched(layer=layer, recipe=recipe),)
    experts = range(len(layer.names))
    return tuple(Watched(layer=layer, recipe=recipe, expert=expert) for expert in experts)


def _probe(
    parts: Sequence[Watched], found: dict[str, LayerQuality]
) -> Callable[[str, Tensor], None]:
    """Of the module that the layers are."""
    shown: dict[str, Tensor] = {}
    # The streams move on, and backward of a pass belongs to where they stood in forward.
    calls = [one.now() for one in parts]

    @torch.no_grad()
    def probe(word: str, tensor: Tensor) -> None:
        shown[word] = tensor
        if word != "dy":
            return
        for one, call in zip(parts, calls, strict=True):
            tensors = one.operands(shown)
            if all(len(each) and each.isfinite().all() for each in tensors.values()):
                found[call.layer] = layer_quality(call, tensors)
        shown.clear()

    return probe
