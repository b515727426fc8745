"""A fit as JSON and back: nothing is lost, and its id says what was asked."""

import json
from dataclasses import replace

import numpy as np
import pytest

from sweeps.fits.evidence import Absence, Excluded
from sweeps.fits.fit import fit
from sweeps.fits.points import Points, make_points
from sweeps.fits.result import Fit, curve
from sweeps.fits.settings import Diverged, Settings
from sweeps.fits.target import Residual
from sweeps.laws.registry import LAWS
from sweeps.tables.kept_fit import fit_id, kept_fit, kept_json

GONE = Excluded(label="run", N=1e8, tokens=1e9, arm="x", reason=Absence.DIVERGED)


def points(*, arms: int = 1, seed: int = 0) -> Points:
    random = np.random.default_rng(seed)
    grid = np.meshgrid(np.geomspace(3e7, 1e9, 4), [10, 30, 100, 300], range(arms))
    N, ratio, arm = (axis.ravel() for axis in grid)
    D = N * ratio
    loss = 1.7 + 400 / (N * 0.7**arm) ** 0.34 + 1000 / D**0.33
    noise = np.exp(random.normal(0, 0.002, N.size))
    return make_points(N, D, loss * noise, arms=[f"arm {index}" for index in arm])


def round_trip(found: Fit) -> Fit:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return kept_fit(
        json.loads(json.dumps(kept_json(found), allow_nan=False), parse_constant=refuse)
    )


@pytest.mark.parametrize("law", ["auto", *LAWS])
def test_a_fit_of_every_law_comes_back_whole(law):
    found = fit(points(), label="x", settings=Settings(law=law, resamples=100), excluded=[GONE])
    assert round_trip(found) == found


@pytest.mark.parametrize(
    "settings",
    [
        Settings(delta=float("inf"), resamples=100),
        Settings(delta=1e-3, residual=Residual.LINEAR, resamples=100, seed=7),
        Settings(diverged=Diverged.REFUSE, resamples=100),
    ],
)
def test_settings_come_back_also_an_infinite_delta(settings):
    found = fit(points(), label="x", settings=settings, excluded=[GONE])
    assert round_trip(found) == found


def test_a_joint_fit_comes_back_with_its_arms():
    settings = Settings(law="chinchilla", resamples=100)
    found = fit(points(arms=2), label="x", settings=settings)
    assert found.arms == ("arm 0", "arm 1")
    assert round_trip(found) == found


def test_a_fit_that_was_refused_comes_back_with_its_reason():
    found = fit(make_points([1e8], [1e9], [3.0]), label="x")
    assert found.solution is None
    assert round_trip(found) == found


def test_the_json_alone_draws_the_same_curve_and_band():
    found = fit(points(), label="x", settings=Settings(resamples=200))
    tokens = np.geomspace(1e9, 1e11, 9).tolist()
    drawn = curve(round_trip(found), 1e8, tokens)
    assert len(drawn.low) == 9
    assert drawn == curve(found, 1e8, tokens)


def test_the_same_question_has_the_same_id_and_any_other_question_another():
    base = fit(points(), label="x", settings=Settings(resamples=100))
    again = fit(points(), label="x", settings=Settings(resamples=100))
    assert fit_id(base) == fit_id(again) == kept_json(base)["fit_id"]
    others = [
        replace(base, label="y"),
        replace(base, settings=Settings(resamples=101)),
        replace(base, settings=Settings(resamples=100, seed=1)),
        replace(base, settings=Settings(resamples=100, delta=float("inf"))),
        replace(base, settings=Settings(resamples=100, law="gamma")),
        replace(base, excluded=(GONE,)),
        replace(base, method_version=base.method_version + 1),
        fit(points(seed=1), label="x", settings=Settings(resamples=100)),
    ]
    assert len({fit_id(one) for one in (base, *others)}) == 1 + len(others)
