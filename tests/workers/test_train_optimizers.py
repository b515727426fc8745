"""Whole trainings under each schedule and optimizer: their rates, their ends, and resuming."""

from dataclasses import replace
from itertools import islice

import pytest
import torch

from sweeps.errors import InputError
from sweeps.runspec import RunSpec
from sweeps.training import OptimizerKind, Schedule
from tests.workers.tiny import (
    BATCH,
    after_preflight,
    curve,
    endpoints,
    run,
    start,
    tiny_spec,
    write_corpus,
)
from workers.schedule import learning_rate


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def cosine_of(spec: RunSpec, steps: int) -> RunSpec:
    training = replace(spec.training, schedule=Schedule.COSINE, horizon=steps * BATCH)
    return replace(spec, training=training)


def test_a_cosine_takes_its_rates_from_the_first_step_to_its_one_horizon(corpus, tmp_path):
    spec = cosine_of(tiny_spec(corpus), 12)
    events = run(spec, [12], tmp_path / "run")
    (point,) = endpoints(events)
    assert point.tokens == 12 * BATCH
    reports = curve(events)
    assert {horizon for horizon, _ in reports} == {12 * BATCH}
    for (horizon, step), report in reports.items():
        assert report.learning_rate == learning_rate(spec, (step - 1) * BATCH, horizon)
    falling = [reports[12 * BATCH, step].learning_rate for step in range(5, 13)]
    assert falling == sorted(falling, reverse=True)
    assert falling[0] > 2 * falling[-1] > 0


def test_a_cosine_has_no_other_horizon_than_its_own(corpus, tmp_path):
    spec = cosine_of(tiny_spec(corpus), 12)
    with pytest.raises(InputError, match=r"horizon = 2048: under a cosine .*horizon = 3072"):
        next(start(spec, [8], tmp_path / "run"))


@pytest.mark.parametrize("recipe", ["bf16", "fp16", "ufp4"])
@pytest.mark.parametrize("schedule", Schedule)
def test_muon_goes_on_from_a_stop_bit_for_bit(corpus, tmp_path, recipe, schedule):
    spec = tiny_spec(corpus, recipe, optimizer=OptimizerKind.MUON)
    spec = cosine_of(spec, 12) if schedule is Schedule.COSINE else spec
    whole = run(spec, [12], tmp_path / "whole")
    stopped = start(spec, [12], tmp_path / "stopped")
    first = after_preflight(islice(stopped, 6))
    stopped.close()
    rest = run(spec, [12], tmp_path / "stopped", attempt=2)
    assert endpoints(rest) == endpoints(whole)
    assert curve(first) | curve(rest) == curve(whole)


def test_muon_trains_at_the_rate_of_adamw(corpus, tmp_path):
    def loss(kind: OptimizerKind) -> float:
        spec = tiny_spec(corpus, optimizer=kind)
        return endpoints(run(spec, [40], tmp_path / kind))[0].loss

    adamw, muon = map(loss, OptimizerKind)
    assert adamw < 4.0
    assert abs(muon - adamw) < 0.5
