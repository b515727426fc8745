"""What a plan is told before it runs: what its design cannot identify, and what it can resolve.

    exponents   asked of (N, D) of the BF16 runs, by the rules that a fit of them will follow
    intervals   two seeds at least for a claim, whose interval is over seeds
    power       the smallest gap, with the noise that was seen at such sizes

A sweep of one model or one budget asks for no law, and is told nothing about one.
"""

from collections.abc import Iterator

import numpy as np

from sweeps.counts import non_embedding_parameters
from sweeps.design.noise_level import stated
from sweeps.design.resolving import Resolution, resolve
from sweeps.fits.identifiability import Design, Support, examine
from sweeps.fits.points import make_points
from sweeps.laws.chinchilla import Chinchilla
from sweeps.plan import Plan, Role
from sweeps.spec import SweepSpec
from sweeps.wording import listed, plural


def design_notes(plan: Plan) -> tuple[str, ...]:
    """What the design cannot tell, then which gap it resolves; a sentence each."""
    return tuple(note for note in (*plan_warnings(plan), power_line(plan)) if note)


def plan_warnings(plan: Plan) -> tuple[str, ...]:
    """What the design cannot tell although it asks for it; a sentence each."""
    return (*_of_law(plan), *_of_claims(plan.spec))


def power_line(plan: Plan) -> str:
    """Which gap the plan will resolve, in one sentence; empty where it has no gap."""
    if not any(cell.role is Role.QUANTIZED for cell in plan.cells):
        return ""
    sizes = map(non_embedding_parameters, plan.spec.shapes())
    return resolution_line(resolve(plan.spec, stated(sizes)))


def resolution_line(found: Resolution) -> str:
    """The sentence of a resolution."""
    if found.at_one is None:
        return (
            "One seed: a gap is measured once at each model and budget, without an interval over "
            "seeds."
        )
    mean = (
        f", and {found.at_mean:.2g} for the mean over {plural(len(found.models), 'model')}"
        if found.at_mean is not None and len(found.models) > 1
        else ""
    )
    return (
        f"{plural(found.seeds, 'seed')} tell a gap of {found.at_one:.2g} nats from none at one "
        f"model and budget{mean} ({100 * found.power:g} % power, {100 * found.level:g} % "
        f"two-sided, s.d. of a pair {found.noise.sd:.2g}: {found.noise.source})."
    )


def _of_law(plan: Plan) -> Iterator[str]:
    cells = {(run.N, tokens) for run in plan.runs for tokens in run.horizons}
    sizes, ratios = {N for N, _ in cells}, {round(D / N, 1) for N, D in cells}
    if len(sizes) < 2 or len({D for _, D in cells}) < 2:
        return
    design = _design(plan)
    match design.support:
        case Support.FULL:
            return
        case Support.LOCAL:
            yield (
                f"The design carries no scaling law beyond its own range: {_reasons(design)}. "
                "Inside it losses and gaps are compared as they are."
            )
        case _:
            few = len(ratios) < 3 and len(sizes) > 2
            remedy = " A second D/N, four times the first, would do." if few else ""
            yield f"The design identifies no exponent, E or multiplier: {_reasons(design)}.{remedy}"


def _design(plan: Plan) -> Design:
    rows = [
        (float(run.N), float(tokens), run.run_id)
        for run in plan.runs
        if run.spec.recipe.is_bf16
        for tokens in run.horizons
    ]
    N, D, runs = zip(*rows, strict=True)
    points = make_points(N, D, np.ones(len(rows)), groups=runs)
    return examine(points, Chinchilla.about(points.where))


def _reasons(design: Design) -> str:
    return "; ".join(design.reasons)


def _of_claims(spec: SweepSpec) -> Iterator[str]:
    if spec.claims and len(spec.all_seeds()) < 2:
        names = listed([claim.name for claim in spec.claims])
        yield f"One seed decides no claim, as intervals are over seeds; left open: {names}."
