"""A tensor of a person's own from a file, under quantizers.

    FILE.npy            one array of floating type
    FILE.safetensors    a tensor by its name; BF16, FP16, FP8, FP32 or FP64

Blocks lie along one axis; the others are laid out as rows. Numbers are taken to FP32.
"""

from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from kernels.surveys import surveyed
from sweeps.errors import InputError
from sweeps.questions import TensorAnswer, TensorQuestion

NAMED = 8
"""Names that are listed where one is missing."""


def tensor_quality(question: TensorQuestion) -> TensorAnswer:
    """What each quantizer of the question makes of its tensor.

    Raises:
        InputError: If the file holds no such tensor, or nothing in it can be quantized.
    """
    path = Path(question.file)
    try:
        name, tensor = _read(path, question.tensor)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    rows = _rows(path, tensor, question.axis)
    sizes = (None,) if question.rht is None else (None, question.rht)
    return TensorAnswer(
        file=question.file,
        tensor=name,
        shape=tuple(tensor.shape),
        rows=tuple(
            surveyed(name or path.name, rows, operand, rht)
            for operand in question.operands()
            for rht in sizes
        ),
    )


def _read(path: Path, name: str | None) -> tuple[str | None, Tensor]:
    match path.suffix:
        case ".npy":
            if name is not None:
                raise InputError(f"{path} holds one array without a name, {name!r} was asked for")
            return None, _from_numpy(path)
        case ".safetensors":
            return _from_safetensors(path, name)
        case _:
            raise InputError(f"{path} is neither a .npy nor a .safetensors file")


def _from_numpy(path: Path) -> Tensor:
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(f"{path} is not a .npy file of numbers") from error
    if array.dtype.kind != "f":
        raise InputError(f"{path} holds {array.dtype}, which is no floating type")
    return torch.from_numpy(array.astype(np.float32))


def _from_safetensors(path: Path, name: str | None) -> tuple[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            names = list(file.keys())
            chosen = names[0] if name is None and len(names) == 1 else name
            if chosen is None or chosen not in names:
                listed = ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")
                if not names:
                    raise InputError(f"{path} holds no tensor")
                what = "a name is needed" if chosen is None else f"there is no tensor {chosen!r}"
                raise InputError(f"{path}: {what}; it holds {len(names)}: {listed}")
            tensor: Tensor = file.get_tensor(chosen)
    except SafetensorError as error:
        raise InputError(f"{path} is not a .safetensors file: {error}") from error
    if not tensor.is_floating_point():
        raise InputError(f"{chosen} of {path} is {tensor.dtype}, which is no floating type")
    return chosen, tensor.to(torch.float32)


def _rows(path: Path, tensor: Tensor, axis: int) -> Tensor:
    """The tensor as a matrix whose columns are the axis along which blocks lie."""
    if not tensor.numel():
        raise InputError(f"{path}: the tensor is empty")
    if not -max(1, tensor.ndim) <= axis < max(1, tensor.ndim):
        raise InputError(f"axis = {axis}: the tensor has {tensor.ndim} axes")
    lost = tensor.numel() - int(tensor.isfinite().sum())
    if lost:
        raise InputError(f"{path}: {lost} of {tensor.numel()} elements are not finite in FP32")
    if tensor.ndim == 0:
        return tensor.view(1, 1)
    moved = tensor.movedim(axis, -1)
    return moved.reshape(-1, moved.shape[-1]).contiguous()
