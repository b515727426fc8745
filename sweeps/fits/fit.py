"""One fit: decide about diverged runs, examine the design, fit what it can carry.

design carries the law          -> the law, Huber on ln L, cluster bootstrap
it carries a plane              -> local power law, t intervals, inside the data range alone
it is a ladder of one D/N       -> loss as a power of C along that ladder
it carries none of them         -> no law, and the reason

`auto` asks for the Chinchilla law, and where the design carries it reports the one among tied,
Chinchilla and gamma that predicts the largest size best when that is left out. A law asked for by
name on a design that determines it, but carries no interval, is given as its bare optimum.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sweeps.fits.compare import Compared, choose, judged, search
from sweeps.fits.evidence import Absence, Excluded
from sweeps.fits.forms import BASES, form, part
from sweeps.fits.identifiability import Design, Support, carries, examine
from sweeps.fits.lines import plane_obstacle
from sweeps.fits.local import fit_ladder, fit_local, refused
from sweeps.fits.parametric import fit_bare, fit_law
from sweeps.fits.points import Points
from sweeps.fits.result import Fit
from sweeps.fits.settings import AUTO, Diverged, Settings
from sweeps.fits.verdict import absent_sentence
from sweeps.laws.chinchilla import Chinchilla
from sweeps.laws.ladder import Ladder
from sweeps.laws.law import Law
from sweeps.laws.local_power import LocalPower

DEFAULT = Settings()


def fit(
    points: Points,
    *,
    label: str,
    settings: Settings = DEFAULT,
    excluded: Sequence[Excluded] = (),
) -> Fit:
    """Fits the law that the design can carry; the same arguments give the same value.

    Args:
        points: Endpoints with losses on one text with one tokenizer.
        label: What they are: a recipe, a group of a file.
        settings: How they are fitted.
        excluded: Endpoints that are not among the points, and why.

    Raises:
        InputError: If there is no law of the name asked for.
    """
    absent = tuple(excluded)
    diverged = [one for one in absent if one.is_diverged]
    match settings.diverged:
        case Diverged.REFUSE if diverged:
            why = f"{len(diverged)} of its runs diverged, and the policy is to refuse"
            found = refuse(points, why, label=label, settings=settings, excluded=absent)
        case Diverged.DROP_CELL if diverged:
            points, absent = _without_cells(points, diverged, absent)
            bare = Fit.unfitted(points, label=label, settings=settings, excluded=absent)
            found = _fit(points, bare)
        case _:
            bare = Fit.unfitted(points, label=label, settings=settings, excluded=absent)
            found = _fit(points, bare)
    if not absent:
        return found
    return replace(found, verdict=(*found.verdict, absent_sentence(absent, settings.diverged)))


def refuse(
    points: Points,
    reason: str,
    *,
    label: str,
    settings: Settings = DEFAULT,
    excluded: Sequence[Excluded] = (),
) -> Fit:
    """The fit that is none, and why."""
    bare = Fit.unfitted(points, label=label, settings=settings, excluded=tuple(excluded))
    return _refused(bare, _asked(points, settings), reason)


def _asked(points: Points, settings: Settings) -> Law:
    """The law that is examined first; of no points, about the origin."""
    if not len(points):
        return Chinchilla(x0=0.0, y0=0.0)
    name = settings.law
    if name in (AUTO, LocalPower.name):
        name = Chinchilla.name
    return form(name, points, settings.effects)


def _refused(bare: Fit, asked: Law, reason: str) -> Fit:
    return replace(
        bare, estimates=refused(asked, reason), verdict=(f"No law is fitted: {reason}.",)
    )


def _fit(points: Points, bare: Fit) -> Fit:
    settings = bare.settings
    asked = _asked(points, settings)
    design = examine(points, asked)
    why = "; ".join(design.reasons)
    by_name = settings.law not in (AUTO, LocalPower.name)
    if design.support is Support.LOCAL and by_name and carries(points, asked):
        return fit_bare(bare, _compared(settings.law, points, settings), points, design)
    if design.support is not Support.FULL and len(points.arms) > 1:
        return _refused(bare, asked, f"{why}; fit each arm by itself")
    match _support(settings, design):
        case Support.NONE:
            return _refused(bare, asked, why)
        case Support.LADDER:
            return fit_ladder(bare, points, design, asked)
        case Support.LOCAL:
            if obstacle := plane_obstacle(points):
                return _refused(bare, asked, "; ".join(filter(None, (why, obstacle))))
            return fit_local(bare, points, design, asked)
        case Support.FULL:
            return _full(bare, points, design)


def _support(settings: Settings, design: Design) -> Support:
    """That of the design, or less where less was asked for."""
    if design.support is Support.FULL:
        match settings.law:
            case LocalPower.name:
                return Support.LOCAL
            case Ladder.name:
                return Support.LADDER
            case _:
                return Support.FULL
    return design.support


def _full(bare: Fit, points: Points, design: Design) -> Fit:
    settings = bare.settings
    names = [
        name
        for name in BASES
        if examine(points, form(name, points, settings.effects)).support is Support.FULL
    ]
    if settings.law not in (AUTO, *names):
        chosen = _compared(settings.law, points, settings)
        return fit_law(bare, chosen, (), points, design)
    tried = {name: _compared(name, points, settings) for name in names}
    name = settings.law
    if name == AUTO:
        name = choose([one.criteria for one in tried.values()])
    chosen = tried.pop(name)
    return fit_law(bare, chosen, tuple(tried.values()), points, design)


def _compared(name: str, points: Points, settings: Settings) -> Compared:
    law = form(name, points, settings.effects)
    return judged(name, search(law, points, settings), points, settings)


def _without_cells(
    points: Points, diverged: Sequence[Excluded], absent: tuple[Excluded, ...]
) -> tuple[Points, tuple[Excluded, ...]]:
    """Points and absences when the cells of diverged runs are left out of every arm."""
    cells = {(one.N, one.tokens) for one in diverged}
    inside = [cell in cells for cell in zip(points.N.tolist(), points.D.tolist(), strict=True)]
    dropped = tuple(
        Excluded(
            label=f"N = {points.N[row]:.3g}, loss {points.loss[row]:.5g}",
            N=float(points.N[row]),
            tokens=float(points.D[row]),
            arm=points.arms[points.arm[row]],
            reason=Absence.DIVERGED_CELL,
        )
        for row in np.flatnonzero(inside).tolist()
    )
    return part(points, ~np.array(inside, dtype=bool)), (*absent, *dropped)
