"""Fitting the Chinchilla law and refitting it to resamples: ours, scipy and a package, in one run.

What a way would take altogether is the time of its part, times the parts that there are. Everything
is timed in turn on one core; ratios are within a round.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.fit_ways import (
    PACKAGE,
    Way,
    bootstraps,
    fits,
    made_points,
    objective,
    our_fit,
    package,
)
from benchmarks.machine import machine
from benchmarks.peers_quantizer import installed, not_installed
from benchmarks.peers_rows import CPU
from benchmarks.results import SPREAD_LEGEND, Column, Result, Row, Setting, Table, spread_fields
from benchmarks.timing import Comparison, compare
from sweeps.fits.bootstrap import draw_weights
from sweeps.fits.points import Points
from sweeps.fits.search import HOFFMANN_DELTA
from sweeps.fits.target import loss_target
from sweeps.laws.chinchilla import Chinchilla

SAME = 1e-6
OURS = "ours"
RESAMPLES = 4000

LEGEND = {
    "way": "who fits, and how; `benchmarks.fit_ways` says more",
    "rows": "runs that are fitted",
    "searches": "starts of a fit, or resamples",
    "timed": "of these searches, how many were timed",
    "seconds": "of all searches: those of the timed part, times searches / timed",
    "times": "seconds over those of ours in the same round",
    "excess": "objective of the best search over that of the optimum, less 1; of a resample, the "
    "largest of those timed, the lower of the two ways being its optimum",
    "hit": f"share of the searches timed that ended within {SAME:g} of the optimum; null where the "
    "way tells its best search alone",
    **SPREAD_LEGEND,
}
COLUMNS = (
    Column("way", "way"),
    Column("rows", "runs", "d"),
    Column("searches", "searches", ",d"),
    Column("timed", "timed", ",d"),
    Column("seconds.median", "seconds", ".3g"),
    Column("times.median", "x ours", ".3g"),
    Column("times.interval.0", "95 % low", ".3g"),
    Column("times.interval.1", "95 % high", ".3g"),
    Column("excess", "excess", ".1e"),
    Column("hit", "hit", ".2f"),
    Column("seconds.rounds", "rounds", "d"),
)
READING = (
    "seconds: of all searches, one core; where fewer were timed, their time in proportion. x ours: "
    "in the same round, median and 95 % interval. excess: share by which the objective lies above "
    f"the optimum. hit: share of searches that ended within {SAME:g} of it."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much is timed.

    Attributes:
        rounds: Turns of each way.
        grid_part: Starts of the published grid.
        refits: Resamples that scipy refits.
        resamples: That ours refits.
    """

    rounds: int
    grid_part: int
    refits: int
    resamples: int


def run(setting: Setting) -> Result:
    """A fit of 240 runs, and resamples of 240 and of 48 runs, on a CPU."""
    scale = Scale(rounds=9, grid_part=90, refits=40, resamples=RESAMPLES)
    if setting.quick:
        scale = Scale(rounds=3, grid_part=8, refits=4, resamples=200)
    many, few = made_points(240), made_points(48)
    # scipy takes tens of times as long where OpenBLAS shares its small systems among threads.
    with threadpool_limits(1):
        tables = (_fits(many, scale), _bootstraps(many, scale), _bootstraps(few, scale))
    return Result(
        benchmark="fits",
        machine=machine(CPU),
        quick=setting.quick,
        tables=tables,
        reading=READING,
        legend=LEGEND,
    )


def _fits(points: Points, scale: Scale) -> Table:
    ways = fits(points, grid_part=scale.grid_part)
    note = ""
    if installed(PACKAGE) is None:
        note = f"The package {PACKAGE} is {not_installed(PACKAGE)}."
    else:
        ways = (*ways, package(points))
    best = our_fit(points).objective
    timed = _compared(ways, scale.rounds)
    rows = []
    for way in ways:
        excess = objective(points, way.call()) / best - 1
        # The package returns its best search alone.
        hit = float(np.mean(excess <= SAME)) if len(excess) == way.part else None
        rows.append(row_of(way, points, timed, excess=float(excess.min()), hit=hit))
    title = f"One fit of {len(points)} runs, Huber at {HOFFMANN_DELTA:g} of ln L"
    return Table(title=title, columns=COLUMNS, rows=tuple(rows), note=note)


def _bootstraps(points: Points, scale: Scale) -> Table:
    law = Chinchilla.about(points.where)
    jacobian = loss_target(law, points).jacobian(our_fit(points).theta)
    # Of the same seed and number: the first rows are those that ours refits first.
    weights = draw_weights(points.cluster, jacobian, resamples=scale.resamples, seed=0)
    drawn = weights[: scale.refits]
    ways = bootstraps(points, drawn, resamples=scale.resamples)
    timed = _compared(ways, scale.rounds)
    reached = [objective(points, way.call()[: scale.refits], drawn) for way in ways]
    least = np.min(reached, axis=0)
    rows = [
        row_of(way, points, timed, excess=float(excess.max()), hit=float(np.mean(excess <= SAME)))
        for way, excess in zip(ways, (each / least - 1 for each in reached), strict=True)
    ]
    title = f"{scale.resamples:,d} refits of {len(points)} runs to resamples of them"
    return Table(title=title, columns=COLUMNS, rows=tuple(rows))


def _compared(ways: Sequence[Way], rounds: int) -> Comparison:
    calls = {way.name: way.call for way in ways}
    return compare(calls, baseline=OURS, rounds=rounds, min_seconds=0.0, device=CPU)


def row_of(way: Way, points: Points, timed: Comparison, *, excess: float, hit: float | None) -> Row:
    """All about a way, its time in proportion to its searches."""
    parts = way.whole / way.part
    scaled = Comparison(
        baseline=OURS,
        by_round={
            OURS: timed.by_round[OURS],
            way.name: tuple(parts * seconds for seconds in timed.by_round[way.name]),
        },
        calls=timed.calls,
    )
    return {
        "way": way.name,
        "rows": len(points),
        "searches": way.whole,
        "timed": way.part,
        "seconds": spread_fields(scaled.seconds(way.name)),
        "times": spread_fields(scaled.ratio(way.name)),
        "excess": float(f"{max(0.0, excess):.2g}"),
        "hit": hit,
    }
