"""Which form is fitted to points, and to which part of them.

A name of the registry becomes a law about the centre of the points; where they have several arms, a
joint law, in which every arm but the first has multipliers of its own.
"""

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches

import numpy as np
from numpy.typing import NDArray

from sweeps.errors import InputError
from sweeps.fits.points import Points
from sweeps.laws.joint import Effect, Joint, by_arm, joint
from sweeps.laws.law import Law
from sweeps.laws.registry import LAWS

BASES = ("tied", "chinchilla", "gamma")
"""Forms of one surface over N and D, by their number of constants; `auto` chooses among them."""


def form(name: str, points: Points, effects: Sequence[Effect]) -> Law:
    """The law of this name about the centre of the points, joint where they have several arms.

    Args:
        name: As in the registry.
        points: What it is to be fitted to.
        effects: What each arm but the first has of its own.

    Raises:
        InputError: If there is no such law, or the effects cannot be told apart in it.
    """
    if name not in LAWS:
        near = get_close_matches(name, LAWS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise InputError(f"law = {name!r}: the laws are {', '.join(LAWS)}{hint}")
    base = LAWS[name](points.where)
    return joint(base, by_arm(points.arms), effects) if len(points.arms) > 1 else base


def base_of(law: Law) -> Law:
    """The law of the reference."""
    return law.base if isinstance(law, Joint) else law


def part(points: Points, keep: NDArray[np.bool_]) -> Points:
    """Some of the points, in their order; the arms keep their names."""
    return replace(
        points,
        N=points.N[keep],
        D=points.D[keep],
        loss=points.loss[keep],
        arm=points.arm[keep],
        cell=_from_zero(points.cell[keep]),
        cluster=_from_zero(points.cluster[keep]),
        row=points.row[keep],
    )


def _from_zero(labels: NDArray[np.intp]) -> NDArray[np.intp]:
    index: NDArray[np.intp] = np.unique(labels, return_inverse=True)[1]
    return index
