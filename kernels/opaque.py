"""Operations that torch.compile calls in a compiled graph, without a look into them."""

from collections.abc import Callable
from typing import Any

import torch

_LIBRARY = torch.library.Library("gridlaw", "DEF")  # type: ignore[no-untyped-call]


def opaque(schema: str, body: Callable[..., Any], shapes: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a function an operation.

    `torch.library.custom_op` would read the schema from the function's types, but a call of what it
    makes costs several times as much.

    Args:
        schema: As in `name(Tensor x, int n) -> Tensor`. No tensor is changed in place, and no
            result shares memory with an argument.
        body: What it does, on any device.
        shapes: The same function of tensors without data.
    """
    name = _LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag,))  # type: ignore[no-untyped-call]
    _LIBRARY.impl(name, body, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
    torch.library.register_fake(f"gridlaw::{name}", shapes, lib=_LIBRARY)
    operation: Callable[..., Any] = getattr(torch.ops.gridlaw, name).default
    return operation
