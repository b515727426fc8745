"""Points of all recipes of a sweep, BF16 first, paired by construction.

    reference   every measured BF16 endpoint
    arm         every measured endpoint of a recipe that has a BF16 partner
    cluster     what shares noise: all recipes and horizons of one model under one set of seeds

N non-embedding parameters, D tokens, losses in nats per token. Horizons of a run share its trunk,
so a cluster holds them all.
"""

from collections.abc import Iterable
from dataclasses import replace

from sweeps.fits.points import Points, make_points
from sweeps.gaps.pair import baseline_id, pair
from sweeps.measured import distinct, measured
from sweeps.records import RunRecord
from sweeps.runspec import RunSpec, Seeds


def arm_points(records: Iterable[RunRecord]) -> Points:
    """Points of the runs, the BF16 rows first; without a BF16 run there are none.

    Raises:
        InputError: If two different recipes carry one name.
    """
    runs = distinct(records)
    by_id = {run.run_id: run for run in runs}
    order = list(dict.fromkeys(run.spec.recipe.name for run in runs))
    reference = [
        run for run in runs if run.spec.recipe.is_bf16 and run.run_id == baseline_id(run.spec)
    ]
    rows = [
        (float(run.N), float(tokens), point.loss, run.spec.recipe.name, _cluster(run.spec))
        for run in reference
        for tokens in sorted(set(run.horizons))
        if (point := measured(run, tokens)) is not None
    ]
    if not rows:
        return make_points([], [], [])
    rows += [
        (float(gap.N), float(gap.tokens), gap.loss, gap.recipe, _cluster(by_id[gap.run_id].spec))
        for gap in sorted(pair(runs).gaps, key=lambda gap: order.index(gap.recipe))
    ]
    N, D, loss, arms, groups = zip(*rows, strict=True)
    return make_points(N, D, loss, arms=arms, groups=groups)


def _cluster(spec: RunSpec) -> str:
    return f"{baseline_id(replace(spec, seeds=Seeds()))} {spec.seeds.label}"
