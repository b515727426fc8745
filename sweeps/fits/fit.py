"""One fit of one recipe: examine the design, then fit the law that it can carry.

design carries five constants   -> Chinchilla, Huber on ln L, cell bootstrap
it carries a tangent            -> local power law, t intervals, inside the data range alone
it carries neither              -> no law, and the reason
"""

from sweeps.errors import InputError
from sweeps.fits.identifiability import Support, examine
from sweeps.fits.local import fit_local
from sweeps.fits.parametric import fit_law
from sweeps.fits.points import Points
from sweeps.fits.result import Estimate, Fit, Status
from sweeps.laws.chinchilla import Chinchilla

RESAMPLES = 1000


def fit(
    points: Points,
    *,
    recipe: str,
    delta: float | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Fit:
    """Fits the law that the design can carry; the same arguments give the same value.

    Args:
        points: Endpoints of one recipe, losses on one text with one tokenizer.
        recipe: Its name.
        delta: Huber threshold on ln L; taken from the data if not given
            (`search.HOFFMANN_DELTA` is the published choice).
        resamples: Draws behind the intervals.
        seed: Of the draws.

    Raises:
        InputError: If delta is not positive or fewer than 100 draws are asked for.
    """
    if delta is not None and not delta > 0:
        raise InputError(f"delta = {delta}: the Huber threshold must be positive")
    if resamples < 100:
        raise InputError(f"resamples = {resamples}: a 95 % interval needs at least 100 draws")
    design = examine(points)
    match design.support:
        case Support.FULL:
            return fit_law(
                Chinchilla.about(points.where),
                points,
                design,
                recipe=recipe,
                delta=delta,
                resamples=resamples,
                seed=seed,
            )
        case Support.LOCAL:
            return fit_local(points, design, recipe=recipe, resamples=resamples, seed=seed)
        case Support.NONE:
            return refuse(points, "; ".join(design.reasons), recipe=recipe, seed=seed)


def refuse(points: Points, reason: str, *, recipe: str, seed: int) -> Fit:
    """The fit that is none, and why."""
    return Fit(
        recipe=recipe,
        status=Status.NOT_IDENTIFIED,
        estimates=tuple(Estimate(name=name, reason=reason) for name in Chinchilla.parameters),
        verdict=(f"No law is fitted: {reason}.",),
        solution=None,
        n_points=len(points),
        n_cells=points.n_cells,
        N_range=(float(points.N.min()), float(points.N.max())) if len(points) else None,
        D_range=(float(points.D.min()), float(points.D.max())) if len(points) else None,
        seed=seed,
        input_hash=points.digest,
    )
