"""Sums of parts: what is made of what, and the excess of a whole over them."""

from dataclasses import replace

import numpy as np
import pytest

from kernels.formats import E2M1, INT4
from kernels.operands import Operand, Rounding, Scale, Source
from kernels.presets import PRESETS, compose
from kernels.recipes import GEMMS, Gemm, Recipe
from sweeps.effective.additivity import additivity, decompositions
from sweeps.fits.points import make_points
from tests.sweeps.fits.made_points import grid, surface


def only(whole: Recipe, *gemms: str) -> Recipe:
    """The whole with all but these GEMMs in BF16."""
    fprop, dgrad, wgrad = (getattr(whole, name) if name in gemms else Gemm() for name in GEMMS)
    return replace(whole, name="+".join(gemms), fprop=fprop, dgrad=dgrad, wgrad=wgrad)


def test_a_recipe_is_found_to_be_its_forward_and_its_backward() -> None:
    whole = compose(E2M1, name="fp4", sr=["dy"])
    recipes = {
        one.name: one
        for one in (whole, only(whole, "fprop"), only(whole, "dgrad", "wgrad"), PRESETS["ufp4"])
    }
    assert decompositions(recipes) == [("fp4", ("fprop", "dgrad+wgrad"))]


def test_every_way_to_put_it_together_is_found() -> None:
    whole = compose(E2M1, name="fp4")
    parts = [only(whole, name) for name in GEMMS]
    backward = only(whole, "dgrad", "wgrad")
    recipes = {one.name: one for one in (whole, *parts, backward)}
    assert sorted(decompositions(recipes)) == [
        ("dgrad+wgrad", ("dgrad", "wgrad")),
        ("fp4", ("fprop", "dgrad", "wgrad")),
        ("fp4", ("fprop", "dgrad+wgrad")),
    ]


def test_a_part_of_another_grid_or_rounding_is_none() -> None:
    whole = compose(E2M1, name="fp4")
    other = only(compose(INT4, name="int4"), "fprop")
    rounded = only(compose(E2M1, name="sr", sr=["x", "w"]), "fprop")
    backward = only(whole, "dgrad", "wgrad")
    for part in (other, rounded):
        assert decompositions({one.name: one for one in (whole, part, backward)}) == []


def test_backward_values_taken_from_the_forward_have_no_backward_part() -> None:
    operand = Operand(grid=E2M1, scale=Scale.FP32, rounding=Rounding.RTNE)
    reused = replace(operand, source=Source.FORWARD)
    whole = Recipe(
        name="reuse",
        fprop=Gemm(left=operand, right=operand),
        wgrad=Gemm(left=operand, right=reused),
    )
    forward = only(whole, "fprop")
    plain = Recipe(name="wgrad", wgrad=Gemm(left=operand, right=operand))
    assert decompositions({one.name: one for one in (whole, forward, plain)}) == []


def test_the_excess_is_that_of_the_whole_over_its_parts() -> None:
    N, D = grid(3, 4)
    base = surface(N, D)
    random = np.random.default_rng(0)
    shared = random.normal(0, 0.05, 12)
    gaps = {"bf16": 0.0, "forward": 0.08, "backward": 0.01, "both": 0.088}
    noise = random.normal(0, 0.0005, 12)
    rows = [
        (n, d, loss + gap + (noise[row] if arm == "both" else 0) + shared[row], arm)
        for arm, gap in gaps.items()
        for row, (n, d, loss) in enumerate(zip(N, D, base, strict=True))
    ]
    columns = list(zip(*rows, strict=True))
    points = make_points(*columns[:3], arms=columns[3])
    found = additivity(points, "both", ("forward", "backward"))
    assert found is not None
    assert found.interval is not None
    assert found.mean == pytest.approx(-0.002 + noise.mean())
    assert found.sd == pytest.approx(noise.std(ddof=1))
    assert found.interval[0] < -0.002 < found.interval[1]
    assert (found.n_pairs, found.n_clusters) == (12, 12)


def test_horizons_of_one_cluster_count_once() -> None:
    N, D = grid(3, 4)
    arms = ["bf16", "a", "b", "whole"]
    losses = np.concatenate([surface(N, D) + gap for gap in (0, 0.02, 0.03, 0.05)])
    points = make_points(
        np.tile(N, 4),
        np.tile(D, 4),
        losses,
        arms=np.repeat(arms, 12).tolist(),
        groups=[f"{n}" for n in np.tile(N, 4)],
    )
    found = additivity(points, "whole", ("a", "b"))
    assert found is not None
    assert (found.n_pairs, found.n_clusters) == (12, 3)
    assert found.mean == pytest.approx(0.0, abs=1e-12)


def test_without_a_shared_pair_there_is_no_sum() -> None:
    points = make_points(
        [1e8, 1e8, 1e8, 2e8, 2e8],
        [1e9] * 5,
        [3.0, 3.1, 3.2, 2.9, 3.0],
        arms=["bf16", "a", "whole", "bf16", "b"],
    )
    assert additivity(points, "whole", ("a", "b")) is None
