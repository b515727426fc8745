"""What must hold between the dimensions of a model, and what a name of a preset may mean."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sweeps.errors import Problem
from sweeps.families.ladder import preset
from sweeps.shapes import Experts, ModelShape


def check_shapes(shapes: Sequence[ModelShape]) -> Iterator[Problem]:
    """Heads share out the width, groups of them the key heads, and experts are there to choose."""
    for index, shape in enumerate(shapes):
        key = f"models[{index}]"
        yield from _heads(key, shape)
        if shape.experts is not None:
            yield from _experts(key, shape, shape.experts)


def check_model_names(shapes: Sequence[ModelShape]) -> Iterator[Problem]:
    """A preset's name means the preset; results under it must not come from something else."""
    for index, shape in enumerate(shapes):
        meant = preset(shape.name)
        if meant is not None and replace(meant, name=shape.name) != shape:
            yield Problem(
                key=f"models[{index}].name",
                value=shape.name,
                message="is the name of a preset that means something else",
            )


def _heads(key: str, shape: ModelShape) -> Iterator[Problem]:
    heads, kv_heads = shape.num_heads, shape.num_kv_heads
    if shape.head_size is None and shape.width % heads:
        yield Problem(
            key=f"{key}.width",
            value=str(shape.width),
            message=f"not divisible by heads = {heads}; `head_width` frees them of the width",
        )
    elif shape.head_width % 2:
        named = shape.head_size is not None
        yield Problem(
            key=f"{key}.head_width" if named else f"{key}.heads",
            value=str(shape.head_size if named else heads),
            message=f"gives heads of width {shape.head_width}; rotary embeddings need it even",
        )
    if kv_heads is not None and heads % kv_heads:
        yield Problem(
            key=f"{key}.kv_heads",
            value=str(kv_heads),
            message=f"must divide heads = {heads}, whose equal groups share a key and value head",
        )


def _experts(model: str, shape: ModelShape, experts: Experts) -> Iterator[Problem]:
    key = f"{model}.experts"
    if experts.active > experts.count:
        yield Problem(
            key=f"{key}.active",
            value=str(experts.active),
            message=f"must be at most count = {experts.count}",
        )
    if not experts.dense_layers and shape.mlp_width != experts.passed_width:
        yield Problem(
            key=f"{model}.mlp_width",
            value=str(shape.mlp_width),
            message="is not read: experts.dense_layers = 0 leaves no layer with a dense MLP",
        )
    if experts.dense_layers >= shape.num_layers:
        yield Problem(
            key=f"{key}.dense_layers",
            value=str(experts.dense_layers),
            message=f"leaves none of the {shape.num_layers} layers for experts",
        )
