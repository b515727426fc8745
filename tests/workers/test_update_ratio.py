import pytest
import torch
from torch import nn

from workers.update_ratio import UpdateRatio


def test_the_ratio_is_of_all_matrices_together_and_of_no_vector():
    first, second = nn.Linear(2, 2), nn.Linear(2, 1, bias=False)
    ratio = UpdateRatio(nn.Sequential(first, second))
    with torch.no_grad():
        first.weight.copy_(torch.tensor([[3.0, 0.0], [0.0, 0.0]]))
        second.weight.copy_(torch.tensor([[0.0, 4.0]]))
        with ratio.watching(wanted=True):
            first.weight[0, 0] += 0.3
            second.weight[0, 0] -= 0.4
            first.bias.add_(100.0)
    assert ratio.last is not None
    assert ratio.last.item() == pytest.approx(0.5 / 5.0)


def test_an_update_that_is_not_wanted_is_not_measured_and_leaves_none():
    model = nn.Linear(2, 2)
    ratio = UpdateRatio(model)
    assert ratio.last is None
    for wanted in (True, False):
        with torch.no_grad(), ratio.watching(wanted=wanted):
            model.weight.mul_(1.5)
    assert ratio.last is None


def test_a_step_that_changes_nothing_has_the_ratio_zero():
    ratio = UpdateRatio(nn.Linear(2, 2))
    with ratio.watching(wanted=True):
        pass
    assert ratio.last == 0
