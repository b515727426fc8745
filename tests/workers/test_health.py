"""Divergence by finite losses: the rule against its definition, whenever it is looked at."""

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings, strategies as st

from sweeps.training import Health
from workers.health import DivergenceError
from workers.history import History

LOSSES = st.lists(st.floats(0.0, 12.0, width=32), max_size=40)
HEALTHS = st.builds(
    Health,
    loss_bound=st.none() | st.floats(6.0, 13.0),
    spike=st.none() | st.floats(0.0, 4.0),
    spike_steps=st.integers(1, 6),
)


def verdict(
    losses: Sequence[float], history: History, looks: Sequence[int] = ()
) -> tuple[int, str] | None:
    """What a history says of further losses that are looked at after so many, and at the end."""
    try:
        for step, loss in enumerate(losses, start=1):
            history.append(torch.tensor(loss), torch.tensor(1.0))
            if step in looks:
                history.settle()
        history.settle()
    except DivergenceError as error:
        return error.step, str(error)
    return None


def step_of(losses: Sequence[float], health: Health) -> int | None:
    found = verdict(losses, History(health))
    return None if found is None else found[0]


def step_by_definition(losses: Sequence[float], health: Health) -> int | None:
    length = health.spike_steps

    def lowest(step: int) -> float:
        means = (math.fsum(losses[end - length : end]) / length for end in range(length, step + 1))
        return min(means, default=math.inf)

    def above(step: int) -> bool:
        if step < 1 or health.spike is None:
            return False
        return losses[step - 1] > lowest(step - 1) + health.spike

    for step, loss in enumerate(losses, start=1):
        if health.loss_bound is not None and loss > health.loss_bound:
            return step
        if all(above(step - back) for back in range(length)):
            return step
    return None


@settings(deadline=None)
@given(LOSSES, HEALTHS)
def test_the_verdict_is_the_one_of_the_definition(losses, health):
    assert step_of(losses, health) == step_by_definition(losses, health)


@settings(deadline=None)
@given(LOSSES, HEALTHS, st.sets(st.integers(1, 40)))
def test_it_does_not_matter_when_the_losses_are_looked_at(losses, health, looks):
    at_the_end = verdict(losses, History(health))
    assert verdict(losses, History(health), sorted(looks)) == at_the_end


@settings(deadline=None)
@given(LOSSES, HEALTHS, st.integers(0, 40))
def test_a_resumed_run_is_judged_as_if_it_had_not_stopped(losses, health, stop):
    whole = verdict(losses, History(health))
    first = History(health)
    before = verdict(losses[:stop], first)
    if before is not None:
        assert before == whole
    else:
        assert verdict(losses[stop:], History(health, first.tensor())) == whole


@settings(deadline=None)
@given(LOSSES, st.integers(1, 6))
def test_a_run_is_healthy_where_nothing_is_asked(losses, length):
    assert step_of(losses, Health(spike_steps=length)) is None


@settings(deadline=None)
@given(LOSSES, HEALTHS)
def test_losses_that_only_fall_are_no_spike(losses, health):
    falling = sorted((loss for loss in losses if loss < 6.0), reverse=True)
    assert step_of(falling, health) is None


CALM = [2.0, 2.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("losses", "step"),
    [
        ([*CALM, 3.1, 3.1, 3.1], 7),
        ([*CALM, 3.1, 3.1, 2.9, 3.1, 3.1], None),  # it came back
        ([*CALM, 3.1, 3.1, 2.9, 3.1, 3.1, 3.1], 10),
        ([*CALM, 3.0, 3.0, 3.0], None),  # not more than the spike
        ([9.0, 9.0, 9.0, 9.0], None),
        ([2.0, 2.0, 9.0, 9.0, 9.0, 9.0], 6),  # held against 13 / 3 from step 4 on
    ],
)
def test_a_spike_must_last_as_long_as_the_mean_that_it_is_held_against(losses, step):
    assert step_of(losses, Health(spike=1.0, spike_steps=3)) == step


def test_the_sentences_say_what_was_exceeded_and_where():
    assert verdict([2.0, 9.0, 2.0], History(Health(loss_bound=8.0))) == (
        2,
        "training loss was 9 at step 2, above health.loss_bound = 8",
    )
    assert verdict([*CALM, 3.5, 3.5], History(Health(spike=1.0, spike_steps=2))) == (
        6,
        "training loss stayed more than health.spike = 1 above its lowest mean of 2 for 2 steps "
        "in a row, up to step 6",
    )


def test_a_loss_that_is_not_finite_is_said_to_be_so_before_any_bound():
    found = verdict([2.0, math.inf], History(Health(loss_bound=8.0)))
    assert found == (2, "training loss became inf at step 2")
