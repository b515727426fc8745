"""Candidates are cells of the ladder by the sweep's own rules, none below the floors."""

from itertools import pairwise
from math import log
from typing import Any

import pytest

from sweeps.counts import non_embedding_parameters
from sweeps.design.candidates import SPACING, candidates
from sweeps.design.wanted import Place
from sweeps.families import dense, moe
from tests.sweeps.design.made_sweeps import TRAIN, planned

PLACE = Place(N=1.6e6, D=32e6)


def test_models_are_those_of_the_sweep_and_the_ladder_up_to_the_size_asked_about() -> None:
    found = candidates(planned().spec, PLACE)
    names = list(dict.fromkeys(one.shape.name for one in found))
    assert names == ["50k", "100k", "200k", "400k", "800k", "1.6m"]


def test_a_ladder_is_not_carried_below_30m_unless_the_sweep_is() -> None:
    large: dict[str, Any] = {
        "models": ["200m"],
        "train": TRAIN | {"batch": "524288tok", "warmup": "10Mtok"},
    }
    found = candidates(planned(**large).spec, Place(N=4e8, D=8e9))
    assert min(one.N for one in found) == non_embedding_parameters(dense.LADDER[10])
    assert dense.LADDER[10].name == "50m"


def test_experts_follow_their_own_ladder() -> None:
    spec = planned(models=["moe-1m"]).spec
    names = {one.shape.name for one in candidates(spec, Place(N=20e6, D=400e6))}
    assert names == {shape.name for shape in moe.LADDER[:3]}


def test_no_candidate_lies_below_ten_tokens_a_parameter_or_within_ten_warmups() -> None:
    spec = planned(budgets=["6tpp", "40tpp"], train=TRAIN | {"warmup": "200ktok"}).spec
    found = candidates(spec, PLACE)
    assert found
    for one in found:
        assert one.D >= 10 * one.N * 0.999
        assert one.D >= 10 * one.training.warmup_tokens


def test_horizons_are_whole_steps_of_the_batch_that_the_rules_give() -> None:
    spec = planned(train=TRAIN | {"batch": "power-lines"}).spec
    for one in candidates(spec, PLACE):
        assert one.D % one.training.batch_tokens == 0
    assert len({one.training.batch_tokens for one in candidates(spec, PLACE)}) > 1


def test_the_budgets_of_the_sweep_and_the_ratio_asked_about_are_among_them() -> None:
    spec = planned(budgets=["17tpp", "53tpp"]).spec
    of_model = [one for one in candidates(spec, Place(N=1e6, D=11.3e6)) if one.shape.name == "200k"]
    ratios = [round(one.D / one.N, 1) for one in of_model]
    assert {17.0, 53.0} <= set(ratios)
    assert min(ratios) == pytest.approx(11.3, rel=0.01)


def test_cells_of_a_model_are_spaced_so_that_none_is_its_neighbour_again() -> None:
    found = candidates(planned(budgets=["17tpp", "37tpp"]).spec, Place(N=1e6, D=18e6))
    assert len({(one.N, one.D) for one in found}) == len(found)
    assert [(one.N, one.D) for one in found] == sorted((one.N, one.D) for one in found)
    for first, second in pairwise(found):
        if first.N == second.N:
            assert log(second.D / first.D) >= log(SPACING)
