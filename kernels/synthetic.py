"""Distributions on which quantizers are known: what activations, weights and gradients look like.

    gaussian          N(0, 1)
    laplace           density e^-|x| / 2
    student-t3        Student's t of 3 degrees of freedom
    swiglu            g sigmoid(g) u, g and u Gaussian: the input of an MLP's second linear layer
    channels          Gaussian, 2 % of the channels times 20: a model's massive activations
    entries           Gaussian, 0.5 % of the entries times 100

Each gives [rows, columns] FP32, channels being columns; the same generator gives the same numbers.
"""

from collections.abc import Callable

import torch
from torch import Generator, Tensor

Draw = Callable[[int, int, Generator], Tensor]


def gaussian(rows: int, columns: int, generator: Generator) -> Tensor:
    """Independent normal numbers."""
    return torch.randn(rows, columns, generator=generator)


def laplace(rows: int, columns: int, generator: Generator) -> Tensor:
    """From uniform u in (-1/2, 1/2): -sign(u) log(1 - 2|u|)."""
    u = torch.rand(rows, columns, generator=generator, dtype=torch.float64) - 0.5
    return (-u.sign() * torch.log1p(-2 * u.abs())).float()


def student_t3(rows: int, columns: int, generator: Generator) -> Tensor:
    """A normal number over the root mean square of three others."""
    normal = torch.randn(rows, columns, generator=generator)
    return normal / torch.randn(3, rows, columns, generator=generator).square().mean(0).sqrt()


def swiglu(rows: int, columns: int, generator: Generator) -> Tensor:
    """The product of a gate and a value."""
    gate = torch.randn(rows, columns, generator=generator)
    return gate * torch.sigmoid(gate) * torch.randn(rows, columns, generator=generator)


def outlier_channels(rows: int, columns: int, generator: Generator) -> Tensor:
    """A fiftieth of the columns, drawn at random, are 20 times as large.

    How often two of them share a block decides what a quantizer makes of them, so that few columns
    make a draw of its own kind: 20 of 1024 scatter by 0.1 dB.
    """
    x = torch.randn(rows, columns, generator=generator)
    x[:, torch.randperm(columns, generator=generator)[: columns // 50]] *= 20
    return x


def outlier_entries(rows: int, columns: int, generator: Generator) -> Tensor:
    """One entry in 200, drawn at random, is 100 times as large."""
    x = torch.randn(rows, columns, generator=generator)
    rare = torch.rand(rows, columns, generator=generator) < 0.005
    return torch.where(rare, 100 * x, x)


DISTRIBUTIONS: dict[str, Draw] = {
    "gaussian": gaussian,
    "laplace": laplace,
    "student-t3": student_t3,
    "swiglu": swiglu,
    "channels": outlier_channels,
    "entries": outlier_entries,
}
"""By the name that tables call them."""
