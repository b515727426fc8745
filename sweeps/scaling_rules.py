"""Scaling rules: a peak learning rate or a batch size as a published function of model and budget.

    learning rate   auto        the rate of `olmo`, at most 0.01
                    olmo        0.0047 (N / 108e6)^(-1/3) / 4
                    step-law    1.79 N^-0.713 D^0.307
                    deepseek    0.3118 C^-0.125
                    quartet     1.2e-3 up to N = 50e6, from there on as 1 / N
    batch, tokens   olmo        160 x 2048 (N / 108e6)^(2/3)
                    step-law    0.58 D^0.571
                    deepseek    0.2920 C^0.3271
                    power-lines 0.0306 D^0.383 sequences of 2048

N are the non-embedding parameters (of routed experts those that a token passes), D training tokens,
C = M D with M the FLOPs of a token without embedding and head. A rule is the same for every format.
Far outside the range that it was fitted on a rule is an extrapolation, which a plan says.

A rate keeps three digits, and a batch is one of 4, 5, 6 or 7 times a power of two of its unit, so
that a run's identity is the same on every machine and a batch falls into equal parts.

Sources: Groeneveld et al., OLMo's model ladder (arXiv 2412.04403 and the code of OLMo-core), after
Porian et al. (arXiv 2406.19146); Li et al., Step Law (arXiv 2503.04715); DeepSeek LLM
(arXiv 2401.02954); Panferov et al., QuEST (arXiv 2502.05003), whose rates Quartet keeps
(arXiv 2505.14669); Bergsma et al., Power Lines (arXiv 2505.13738).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import pow
from types import MappingProxyType

HIGHEST_AUTO_RATE = 0.01
"""Where `auto` stops to follow its power of N, at sizes a thousandth of those it was fitted on."""

LADDER_PARAMETERS = 108e6
"""Size at which OLMo's rules are anchored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """What a rule may look at.

    Attributes:
        N: Non-embedding parameters; of routed experts those that a token passes.
        D: Training tokens.
        M: Forward and backward FLOPs of a token without embedding and head.
    """

    N: int
    D: Fraction
    M: int

    @property
    def flops(self) -> float:
        """C."""
        return float(self.M * self.D)


class Symbol(StrEnum):
    """What rules look at."""

    N = "N"
    D = "D"
    C = "C"


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Where a rule was fitted.

    Attributes:
        symbol: Of what.
        least: Smallest value.
        most: Largest value.
    """

    symbol: Symbol
    least: float
    most: float

    def holds(self, scale: Scale) -> bool:
        """Whether it was fitted at this scale."""
        return self.least <= self.value(scale) <= self.most

    def value(self, scale: Scale) -> float:
        """What the range is about, at this scale."""
        match self.symbol:
            case Symbol.N:
                return float(scale.N)
            case Symbol.D:
                return float(scale.D)
            case Symbol.C:
                return scale.flops


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A published rule.

    Attributes:
        law: Its formula.
        text: The formula in the words of the module.
        fitted: Where it was fitted; the rule speaks for all scales that lie in each.
        source: Who found it.
        sees_budget: Whether D or C enters, so that each budget has a run of its own.
    """

    law: Callable[[Scale], float]
    text: str
    fitted: tuple[Range, ...]
    source: str
    sees_budget: bool = False


def _olmo_rate(scale: Scale) -> float:
    return 0.0047 * pow(scale.N / LADDER_PARAMETERS, -1 / 3) / 4


_OLMO_SIZES = (Range(symbol=Symbol.N, least=190e6, most=3.2e9),)
_STEP_LAW_SCALES = (
    Range(symbol=Symbol.N, least=60e6, most=1.1e9),
    Range(symbol=Symbol.D, least=2e9, most=100e9),
)
_DEEPSEEK_SCALES = (Range(symbol=Symbol.C, least=1e17, most=2e19),)

LEARNING_RATES: Mapping[str, Rule] = MappingProxyType(
    {
        "auto": Rule(
            law=lambda scale: min(HIGHEST_AUTO_RATE, _olmo_rate(scale)),
            text="0.0047 (N / 108e6)^(-1/3) / 4, at most 0.01",
            fitted=(),
            source="OLMo's model ladder, capped",
        ),
        "olmo": Rule(
            law=_olmo_rate,
            text="0.0047 (N / 108e6)^(-1/3) / 4",
            fitted=_OLMO_SIZES,
            source="OLMo's model ladder (arXiv 2412.04403)",
        ),
        "step-law": Rule(
            law=lambda scale: 1.79 * pow(scale.N, -0.713) * pow(scale.D, 0.307),
            text="1.79 N^-0.713 D^0.307",
            fitted=_STEP_LAW_SCALES,
            source="Step Law (arXiv 2503.04715)",
            sees_budget=True,
        ),
        "deepseek": Rule(
            law=lambda scale: 0.3118 * pow(scale.flops, -0.1250),
            text="0.3118 C^-0.125",
            fitted=_DEEPSEEK_SCALES,
            source="DeepSeek LLM (arXiv 2401.02954)",
            sees_budget=True,
        ),
        "quartet": Rule(
            law=lambda scale: 1.2e-3 * min(1.0, 50e6 / scale.N),
            text="1.2e-3, from N = 50e6 on 1.2e-3 (50e6 / N)",
            fitted=(Range(symbol=Symbol.N, least=30e6, most=800e6),),
            source="QuEST and Quartet (arXiv 2502.05003, 2505.14669)",
        ),
    }
)
"""Rules for the peak learning rate, by name."""

BATCHES: Mapping[str, Rule] = MappingProxyType(
    {
        "olmo": Rule(
            law=lambda scale: 160 * 2048 * pow(scale.N / LADDER_PARAMETERS, 2 / 3),
            text="160 x 2048 (N / 108e6)^(2/3)",
            fitted=_OLMO_SIZES,
            source="OLMo's model ladder (arXiv 2412.04403)",
        ),
        "step-law": Rule(
            law=lambda scale: 0.58 * pow(scale.D, 0.571),
            text="0.58 D^0.571",
            fitted=_STEP_LAW_SCALES,
            source="Step Law (arXiv 2503.04715)",
            sees_budget=True,
        ),
        "deepseek": Rule(
            law=lambda scale: 0.2920 * pow(scale.flops, 0.3271),
            text="0.2920 C^0.3271",
            fitted=_DEEPSEEK_SCALES,
            source="DeepSeek LLM (arXiv 2401.02954)",
            sees_budget=True,
        ),
        "power-lines": Rule(
            law=lambda scale: 2048 * 0.0306 * pow(scale.D, 0.383),
            text="2048 x 0.0306 D^0.383",
            fitted=(Range(symbol=Symbol.N, least=111e6, most=3.3e9),),
            source="Power Lines (arXiv 2505.13738)",
            sees_budget=True,
        ),
    }
)
"""Rules for the tokens of an optimizer step, by name."""


def ruled_learning_rate(name: str, scale: Scale) -> float:
    """The peak rate that a rule gives, to three digits."""
    return float(f"{LEARNING_RATES[name].law(scale):.3g}")


def ruled_batch(name: str, scale: Scale, unit: int) -> int:
    """The batch that a rule gives, in tokens.

    Args:
        name: Of the rule.
        scale: Of the run.
        unit: Tokens of which a batch holds whole ones.

    Returns:
        The nearest of 1, 2, 3 and 4, 5, 6, 7 times a power of two units.
    """
    units = Fraction(BATCHES[name].law(scale)) / unit
    step = 1 << max(0, int(units).bit_length() - 3)
    return max(1, round(units / step)) * step * unit


def extrapolation(rule: Rule, scale: Scale) -> str:
    """Where a scale lies outside the range that the rule was fitted on; empty if it does not."""
    return " and ".join(
        f"{one.symbol} = {one.value(scale):.3g} (fitted from {one.least:.3g} to {one.most:.3g})"
        for one in rule.fitted
        if not one.holds(scale)
    )
