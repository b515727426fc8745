import math
from dataclasses import replace

import pytest

from sweeps.training import Schedule
from tests.workers.tiny import BATCH, tiny_spec, write_corpus
from workers.schedule import learning_rate

PEAK = 0.01
HORIZON = 100 * BATCH


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    corpus = write_corpus(tmp_path_factory.mktemp("corpus"))
    return tiny_spec(corpus, learning_rate=PEAK, warmup_tokens=10 * BATCH, cooldown=0.2)


def rates(spec, horizon: int | None, steps: range) -> list[float]:
    return [learning_rate(spec, step * BATCH, horizon) for step in steps]


def test_warm_up_rises_linearly_to_the_peak(spec):
    assert rates(spec, None, range(10)) == pytest.approx([PEAK * n / 10 for n in range(1, 11)])


def test_the_stable_phase_holds_the_peak_for_ever(spec):
    assert set(rates(spec, None, range(9, 1000))) == {PEAK}


def test_cooldown_falls_linearly_from_the_peak_to_one_step_above_zero(spec):
    assert spec.branch_tokens(HORIZON) == 80 * BATCH
    expected = [PEAK * (20 - n) / 20 for n in range(20)]
    assert rates(spec, HORIZON, range(80, 100)) == pytest.approx(expected)
    assert learning_rate(spec, HORIZON, HORIZON) == 0


def test_the_trunk_does_not_know_of_horizons(spec):
    assert learning_rate(spec, 90 * BATCH, None) == PEAK
    assert learning_rate(spec, 90 * BATCH, HORIZON) == pytest.approx(PEAK / 2)


def test_a_cooldown_that_begins_within_the_warm_up_has_both_factors(spec):
    horizon = 5 * BATCH  # branches at step 4, while the warm-up lasts to step 10
    assert learning_rate(spec, 4 * BATCH, horizon) == pytest.approx(PEAK * 5 / 10)


def test_no_warm_up_starts_at_the_peak(tmp_path):
    spec = tiny_spec(write_corpus(tmp_path), warmup_tokens=0, learning_rate=PEAK)
    assert learning_rate(spec, 0, None) == PEAK


def test_the_mean_rate_of_a_cooldown_is_half_the_peak(spec):
    cooldown = rates(spec, HORIZON, range(80, 100))
    assert math.fsum(cooldown) / 20 == pytest.approx(PEAK * (0.5 + 0.5 / 20))


@pytest.fixture(scope="module")
def cosine(spec):
    training = replace(spec.training, schedule=Schedule.COSINE, horizon=HORIZON, final_rate=0.1)
    return replace(spec, training=training)


def test_a_cosine_falls_from_the_peak_at_the_end_of_warm_up_to_one_step_above_the_final_rate(
    cosine,
):
    warm = rates(cosine, HORIZON, range(10))
    assert warm == pytest.approx([PEAK * n / 10 for n in range(1, 11)])
    expected = [PEAK * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * n / 90))) for n in range(90)]
    assert rates(cosine, HORIZON, range(10, 100)) == pytest.approx(expected)
    assert learning_rate(cosine, HORIZON, HORIZON) == pytest.approx(0.1 * PEAK)
    assert learning_rate(cosine, 55 * BATCH, HORIZON) == pytest.approx(PEAK * 0.55)


def test_a_cosine_stays_at_its_final_rate_beyond_the_horizon(cosine):
    assert rates(cosine, HORIZON, range(100, 103)) == pytest.approx([0.1 * PEAK] * 3)


def test_a_cooldown_ends_at_the_final_rate(spec):
    spec = replace(spec, training=replace(spec.training, final_rate=0.25))
    expected = [PEAK * (0.25 + 0.75 * (20 - n) / 20) for n in range(20)]
    assert rates(spec, HORIZON, range(80, 100)) == pytest.approx(expected)
    assert learning_rate(spec, HORIZON, HORIZON) == pytest.approx(0.25 * PEAK)
    assert learning_rate(spec, 90 * BATCH, None) == PEAK


@pytest.mark.parametrize("schedule", Schedule)
def test_a_final_rate_of_one_is_a_constant_rate(spec, schedule):
    training = replace(spec.training, schedule=schedule, horizon=HORIZON, final_rate=1.0)
    constant = replace(spec, training=training)
    assert rates(constant, HORIZON, range(9, 100)) == pytest.approx([PEAK] * 91)
