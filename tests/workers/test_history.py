import math

import pytest
import torch

from sweeps.training import Health
from workers.history import History, NonFiniteError, is_report_step, report_step_before


def scheduled(last: int) -> list[int]:
    return [step for step in range(1, last + 1) if is_report_step(step)]


def filled(rows: list[tuple[float, float]]) -> History:
    history = History(Health())
    for loss, norm in rows:
        history.append(torch.tensor(loss), torch.tensor(norm))
    return history


def test_every_early_step_is_reported_and_later_64_in_each_doubling():
    assert scheduled(128) == list(range(1, 129))
    for octave in (128, 256, 4096, 65536):
        assert len(scheduled(2 * octave)) - len(scheduled(octave)) == 64


def test_the_report_before_is_the_one_that_the_schedule_has():
    steps = scheduled(2000)
    for step in range(1, 2001):
        assert report_step_before(step) == max([0, *(one for one in steps if one < step)])


def test_means_are_over_the_steps_asked_for():
    history = filled([(1.0, 10.0), (2.0, 20.0), (4.0, 60.0)])
    history.settle()
    means = history.means(1, 3)
    assert (means.loss, means.gradient_norm) == (3.0, 40.0)


def test_a_skipped_step_counts_for_the_loss_and_not_for_the_norm():
    history = filled([(1.0, 10.0), (2.0, 0.0), (3.0, 20.0), (4.0, 0.0)])
    history.settle()
    means = history.means(0, 4)
    assert (means.loss, means.gradient_norm) == (2.5, 15.0)
    assert history.means(3, 4).gradient_norm == 0.0


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ((math.nan, 1.0), "training loss became nan at step 3"),
        ((1.0, math.inf), "gradient norm became inf at step 3"),
    ],
)
def test_the_first_step_that_is_not_finite_is_named(row, what):
    history = filled([(1.0, 1.0)])
    history.settle()
    for loss, norm in ((1.0, 1.0), row, (math.nan, math.nan)):
        history.append(torch.tensor(loss), torch.tensor(norm))
    with pytest.raises(NonFiniteError) as caught:
        history.settle()
    assert str(caught.value) == what
    assert caught.value.step == 3
    assert str(caught.value.at("head, dgrad operand dy is not finite")) == (
        f"{what}: head, dgrad operand dy is not finite"
    )


def test_a_restored_history_is_the_same_to_the_bit():
    history = filled([(1 / 3, 2 / 7), (3.3e-7, 1e20)])
    history.settle()
    restored = History(Health(), history.tensor())
    assert torch.equal(restored.tensor(), history.tensor())
    assert restored.means(0, 2) == history.means(0, 2)


def test_an_empty_history_can_be_kept():
    assert History(Health(), History(Health()).tensor()).tensor().shape == (0, 2)
