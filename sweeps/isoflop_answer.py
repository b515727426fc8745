"""What isoFLOP runs say: their parabolas, the surface that corrects them, and the frontier L(C).

surface    a law of N and D searched on every point, which says how far each parabola is off
frontier   E + K / C^alpha_C fitted to the minima that were measured
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sweeps.errors import InputError
from sweeps.fits.compare import search
from sweeps.fits.fit import fit
from sweeps.fits.forms import BASES, form
from sweeps.fits.identifiability import carries
from sweeps.fits.isoflop import IsoFlop, Surface, frontier_points, isoflop
from sweeps.fits.points import Points
from sweeps.fits.result import Fit
from sweeps.fits.settings import Settings
from sweeps.laws.chinchilla import Chinchilla
from sweeps.laws.frontier import Frontier
from sweeps.plain import plain
from sweeps.wording import plural

SURFACE = Chinchilla.name


@dataclass(frozen=True, slots=True, kw_only=True)
class IsoFlopAnswer:
    """Parabolas, surface and frontier of one set of points.

    Attributes:
        curves: The parabolas.
        surface: Name of the law that they are held against; empty if the points carry none.
        frontier: The fit to the minima.
        sentences: For people, most important first.
    """

    curves: IsoFlop
    surface: str
    frontier: Fit
    sentences: tuple[str, ...]


def isoflop_answer(points: Points, *, label: str, law: str = SURFACE) -> IsoFlopAnswer:
    """Parabolas, surface and frontier; the same arguments give the same value.

    Args:
        points: Of one arm, several sizes at each of some budgets.
        label: What they are.
        law: Of the surface: one with a best size at each budget.

    Raises:
        InputError: If the law is none of those.
    """
    if law not in BASES:
        raise InputError(f"law = {law}: a surface for isoFLOP runs is one of {', '.join(BASES)}")
    surface = _surface(points, law)
    curves = isoflop(points, surface)
    settings = Settings(law=Frontier.name)
    return IsoFlopAnswer(
        curves=curves,
        surface=law if surface is not None else "",
        frontier=fit(frontier_points(curves), label=f"the frontier of {label}", settings=settings),
        sentences=_sentences(curves, law),
    )


def to_json(found: IsoFlopAnswer) -> dict[str, Any]:
    """The answer as JSON values."""
    return {
        "budgets": plain(found.curves.valleys),
        "exponents": plain(found.curves.exponents),
        "surface": found.surface or None,
        "frontier": {"law": found.frontier.law_name, "constants": plain(found.frontier.estimates)},
        "sentences": [*found.sentences, *found.frontier.verdict],
    }


def _surface(points: Points, name: str) -> Surface | None:
    law = form(name, points, ())
    if not carries(points, law):
        return None
    return Surface(law=law, theta=search(law, points, Settings()).optimum.theta)


def _sentences(curves: IsoFlop, law: str) -> tuple[str, ...]:
    said = [
        f"{plural(len(curves.minima), 'budget')} of {len(curves.valleys)} with a measured minimum."
    ]
    for one, counted in zip(curves.exponents, ("N_opt ~ C^a", "D_opt ~ C^b"), strict=True):
        if one.value is not None:
            said.append(
                f"{counted}: {one.name} = {one.value:.3f} ({one.low:.3f} to {one.high:.3f}), 95 % "
                f"t interval over {len(curves.minima)} budgets."
            )
        else:
            said.append(f"{counted} is not fitted: {one.reason}.")
    biases = [valley.bias for valley, _ in curves.minima if valley.bias is not None]
    if biases:
        worst = max(biases, key=lambda bias: abs(np.log(bias)))
        said.append(
            "A parabola in ln N is symmetric and the valley is not: by the "
            f"{law} law fitted to all points, N_opt of the parabolas is {worst:.3f} times that of "
            "the surface where it is furthest off. Take the surface for numbers."
        )
    else:
        said.append(
            "A parabola in ln N is biased where the exponents of N and D differ or the sizes are "
            "off the minimum; by how much, these points do not say."
        )
    return tuple(said)
