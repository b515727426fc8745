"""A quantizer of another package: what is asked of it, and what of ours is nearest to that.

    peer    x -> quantized and dequantized, in the type that the package returns
    ours    x -> `kernels.ops.fake_quantize`, the tensor's factor applied, FP32

Peers are optional. One that is not there is a sentence with the line that installs it, one that
fails is a sentence with what it said; neither is an error.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kernels.hadamard import Rotation
from kernels.operands import Operand, Rounding
from kernels.ops import fake_quantize

Quantizer = Callable[[Tensor], Any]
"""Of a matrix; a tensor of its shape comes back."""

PINS = Path(__file__).with_name("requirements.txt")
_KEY = 0x9E3779B97F4A7C15

_FAILURES = (
    ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, OSError,
    RuntimeError, TypeError, ValueError,
)  # fmt: skip
"""What the code of others may raise where its interface moved or a compiler of its own gave up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One quantizer of a package.

    Attributes:
        package: Its name on PyPI.
        rule: What is asked of it, in its own words.
        load: Imports the package and returns the quantizer.
        operand: What is nearest to it among ours; its rounding says whether the peer's is SR.
        rotation: The RHT of both, or None.
        takes: The type in which it is given x, BF16 or FP32.
        computes_scales: Whether it finds the scales of blocks, or rounds elements alone.
        is_torch: Whether its code is torch's, so that `torch.compile` makes something else of it.
        differs: Why it does not give our numbers everywhere; empty where it does.
    """

    package: str
    rule: str
    load: Callable[[], Quantizer]
    operand: Operand
    rotation: Rotation | None = None
    takes: torch.dtype = torch.bfloat16
    computes_scales: bool = True
    is_torch: bool = True
    differs: str = ""

    @property
    def is_stochastic(self) -> bool:
        """Whether it rounds by SR, so that no two calls give the same numbers."""
        return self.operand.rounding is Rounding.SR

    def ours(self, x: Tensor) -> Tensor:
        """What we make of a matrix by the nearest operand, FP32."""
        return fake_quantize(x, self.operand, _KEY, rotation=self.rotation).dequantized()


@dataclass(frozen=True, slots=True)
class Missing:
    """Why there is no quantizer."""

    why: str


def found(peer: Peer) -> Quantizer | Missing:
    """The quantizer of a peer, if its package is installed and works."""
    if installed(peer.package) is None:
        return Missing(not_installed(peer.package))
    return _tried(peer.load)


def attempted(quantizer: Quantizer, x: Tensor) -> Quantizer | Missing:
    """The quantizer, if it can be called on x."""

    def call() -> Quantizer:
        quantizer(x)
        return quantizer

    return _tried(call)


def compiled(quantizer: Quantizer, x: Tensor) -> Quantizer | Missing:
    """The same by `torch.compile`, for matrices of the shape of x, if it can be compiled."""

    def call(x: Tensor) -> Any:
        return quantizer(x)

    def build() -> Quantizer:
        torch.compiler.reset()  # else what was compiled before counts towards a limit
        made: Quantizer = torch.compile(call, dynamic=False)
        made(x)
        return made

    return _tried(build)


def installed(package: str) -> str | None:
    """The version of a package, or None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def not_installed(package: str) -> str:
    """What to do about a package that is not there, by the line that `requirements.txt` has."""
    lines = PINS.read_text().splitlines()
    pinned = (line for line in lines if f" {package}==" in f" {line}")
    line = next(pinned, package)
    command = line.removeprefix("# ") if line.startswith("#") else f"pip install {line}"
    return f"not installed: {command}"


def _tried(make: Callable[[], Quantizer]) -> Quantizer | Missing:
    """What is made, without the warnings of others, or what was said instead."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return make()
    except _FAILURES as error:
        lines = str(error).splitlines() or [""]
        return Missing(f"fails: {type(error).__name__}: {lines[0]}"[:160])
