"""Certainty: what an estimate of a mean gap with its standard error allows one to say.

    interval     mean +- t(df) s.e., two-sided
    detectable   smallest gap that as many pairs tell from zero with 80 % power (`gaps.power`)
    equivalence  the gap against +-margin by two one-sided tests (`sweeps.gaps.equivalence`)

An interval over seeds is of these very models; one over models is of models like these, and holds
the noise of seeds as well.
"""

from dataclasses import dataclass
from enum import StrEnum

from sweeps.gaps.equivalence import Equivalence, tost
from sweeps.gaps.power import resolution
from sweeps.intervals import t_half_width
from sweeps.wording import plural

LEAST_DF = 2
"""Of repeats behind an interval over seeds: two values alone are as likely close as far apart."""


class Basis(StrEnum):
    """What an interval is over."""

    SEEDS = "seeds"
    MODELS = "models"
    CELLS = "cells"
    GROUPS = "groups"


@dataclass(frozen=True, slots=True, kw_only=True)
class Certainty:
    """How sure a mean gap is; nats per token.

    Attributes:
        basis: What the standard error and the interval are over.
        se: Standard error of the mean gap.
        df: Its degrees of freedom.
        level: Of the interval and the tests.
        low: Lower end of the t interval.
        high: Upper end of it.
        detectable: Smallest gap told from zero with 80 % power.
        equivalence: The gap against the margin.
    """

    basis: Basis
    se: float
    df: int
    level: float
    low: float
    high: float
    detectable: float
    equivalence: Equivalence


def certainty(
    mean: float, se: float, df: int, *, basis: Basis, level: float, margin: float
) -> Certainty:
    """What a mean gap with this standard error of df >= 1 degrees allows one to say."""
    half = t_half_width(se, df, level)
    return Certainty(
        basis=basis,
        se=se,
        df=df,
        level=level,
        low=mean - half,
        high=mean + half,
        detectable=resolution(df, level) * se,
        equivalence=tost(mean, se, df, margin, level),
    )


def over(sure: Certainty | None, n_models: int) -> str:
    """`95 % t interval over seeds at these 3 models +0.0100 to +0.0200`, or that there is none."""
    if sure is None:
        return "no interval from so few models and seeds"
    models = plural(n_models, "model")
    these = "this model" if n_models == 1 else f"these {models}"
    what = f"seeds at {these}" if sure.basis is Basis.SEEDS else models
    level = level_text(sure.level)
    return f"{level} t interval over {what} {sure.low:+.4f} to {sure.high:+.4f}"


def level_text(level: float) -> str:
    """`95 %`, `99.86 %`, with more digits where four would say 100 %."""
    texts = (f"{100 * level:.{digits}g}" for digits in range(4, 17))
    return f"{next((text for text in texts if float(text) < 100), '100')} %"
