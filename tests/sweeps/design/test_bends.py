"""What laws miss at sizes that they were not fitted to, in public runs, is as large as is said.

A miss over its expected standard deviation must have a root mean square near 1: each size of the
data is predicted by the sizes below it, which is how a plan looks ahead.
"""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pytest

from sweeps.design.guess import gradient, of_gaps, of_losses, value
from sweeps.design.information import Assumed, Point, variance
from sweeps.design.noise_level import GAP_BEND, LOSS_BEND, NoiseLevel
from sweeps.design.wanted import Place, Term, Wanted
from sweeps.laws.law import Array, at
from tests.sweeps.fits.public_data import public_rows

Row = tuple[float, float, float]

LEAST_ROWS = 8


def look_ahead(rows: list[Row], recipe: str, noise: NoiseLevel) -> Iterator[float]:
    """Misses of each size by the smaller ones, over their expected deviations."""
    for size in sorted({N for N, _, _ in rows}):
        below = [row for row in rows if row[0] < size]
        if len(below) < LEAST_ROWS or len({N for N, _, _ in below}) < 2:
            continue
        for N, D, observed in (row for row in rows if row[0] == size):
            place = Place(N=N, D=D)
            plan, wanted = reckoned(below, place, recipe, noise)
            told = sum(
                (of_size(plan, below, M) for M in {row[0] for row in below}), np.zeros((1, 1))
            )
            expected = variance(told, gradient(plan, wanted)) ** 0.5
            yield (observed - value(plan, wanted)) / expected


def reckoned(
    rows: list[Row], place: Place, recipe: str, noise: NoiseLevel
) -> tuple[Assumed, Wanted]:
    N, D, observed = np.array(rows).T
    if recipe == "bf16":
        wanted = Wanted(text="", what=Term.LOSS, recipe=recipe, place=place)
        return of_losses(wanted, place, at(N, D), observed, noise)[0], wanted
    wanted = Wanted(text="", what=Term.GAP, recipe=recipe, place=place)
    return of_gaps(place, at(N, D, 1), observed, noise)[0], wanted


def of_size(plan: Assumed, rows: list[Row], size: float) -> Array:
    arms = (0, 1) if plan.is_of_gaps else (0,)
    return plan.of_model(size, [Point(arm, 0, D) for N, D, _ in rows if N == size for arm in arms])


def quartet() -> dict[tuple[str, str], list[Row]]:
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in public_rows("quartet_formats.csv"):
        if row["loss"] != "3.38471":  # the run that its own longer one contradicts
            key = row["fwd_format"], row["bwd_format"]
            found[key].append((float(row["N"]), float(row["D"]), float(row["loss"])))
    return found


def losses() -> Iterator[list[Row]]:
    yield quartet()["BF16", "BF16"]
    yield [
        (float(row["N"]), float(row["D"]), float(row["c4_en_ma5"]))
        for row in public_rows("olmo_ladder_losses.csv")
        if row["role"] == "ladder"
    ]
    runs = public_rows("openlm_overtrain.csv")
    for train_set in ("c4_original", "rpj", "rw_original"):
        yield [
            (float(row["N"]), float(row["D"]), float(row["loss_c4_val"]))
            for row in runs
            if row["train_set"] == train_set
        ]


def gaps() -> Iterator[list[Row]]:
    formats = quartet()
    reference = {(N, D): loss for N, D, loss in formats.pop(("BF16", "BF16"))}
    for rows in formats.values():
        yield [(N, D, loss - reference[N, D]) for N, D, loss in rows if (N, D) in reference]


@pytest.mark.slow
def test_losses_of_held_out_sizes_miss_by_what_is_expected() -> None:
    noise = NoiseLevel(sd=0.00125, source="", loss_bend=LOSS_BEND)
    misses = np.array([miss for rows in losses() for miss in look_ahead(rows, "bf16", noise)])
    assert len(misses) > 30
    assert 0.7 < np.sqrt(np.mean(misses**2)) < 1.3
    assert np.mean(np.abs(misses) < 1.96) > 0.9


def test_gaps_of_held_out_sizes_miss_by_what_is_expected() -> None:
    noise = NoiseLevel(sd=0.00125, source="", gap_bend=GAP_BEND)
    misses = np.array([miss for rows in gaps() for miss in look_ahead(rows, "fp4", noise)])
    assert len(misses) > 30
    assert 0.7 < np.sqrt(np.mean(misses**2)) < 1.3
    assert np.mean(np.abs(misses) < 1.96) > 0.9


@pytest.mark.slow
def test_without_what_a_law_misses_intervals_would_be_too_narrow() -> None:
    noise = NoiseLevel(sd=0.00125, source="", loss_bend=0.0, gap_bend=0.0)
    of_losses_ = [miss for rows in losses() for miss in look_ahead(rows, "bf16", noise)]
    of_gaps_ = [miss for rows in gaps() for miss in look_ahead(rows, "fp4", noise)]
    assert np.sqrt(np.mean(np.square(of_losses_))) > 4
    assert np.sqrt(np.mean(np.square(of_gaps_))) > 1.5
