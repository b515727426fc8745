import time
from itertools import count

import pytest
import torch

from sweeps.counts import flops_per_token
from tests.sweeps.made_runs import made_spec
from workers import pace as module
from workers.pace import Pace

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _clock(monkeypatch):
    """Every reading is half a second later."""
    readings = (0.5 * reading for reading in count())
    monkeypatch.setattr(time, "perf_counter", lambda: next(readings))
    monkeypatch.setattr(module, "peak_flops", lambda _: 1e9)


def test_seconds_go_on_and_count_what_ran_alone():
    pace = Pace(made_spec(), CPU, 7.0)
    for _ in range(3):
        with pace.running():
            pass
        time.perf_counter()
    assert pace.seconds == 8.5


def test_what_failed_is_not_counted():
    pace = Pace(made_spec(), CPU, 0.0)
    with pytest.raises(KeyError), pace.running():
        raise KeyError
    assert pace.seconds == 0.0


def test_speed_is_tokens_and_flops_since_the_report_before():
    spec = made_spec()
    pace = Pace(spec, CPU, 0.0)
    pace.stand_at(10)
    told = []
    for step in (14, 15):
        with pace.running():
            pass
        told.append(pace.speed(step))
    batch = spec.training.batch_tokens
    assert [one.tokens_per_second for one in told] == [4 * batch / 0.5, batch / 0.5]
    flops = flops_per_token(spec.model, vocab_size=257, context=spec.training.context)
    assert [one.mfu for one in told] == [flops * 8 * batch / 1e9, flops * 2 * batch / 1e9]
    assert all(one.memory_bytes > 2**20 for one in told)


def test_an_unknown_device_has_a_speed_and_no_mfu(monkeypatch):
    monkeypatch.setattr(module, "peak_flops", lambda _: None)
    pace = Pace(made_spec(), CPU, 0.0)
    with pace.running():
        pass
    told = pace.speed(1)
    assert told.mfu is None
    assert told.tokens_per_second > 0
