import pytest
import torch
from torch import Tensor

from tests.workers.layers.paths import drawn
from workers.layers.norm import rms_norm
from workers.layers.rotary import rotations


def test_scores_of_turned_vectors_depend_on_their_distance_alone() -> None:
    q, k = drawn(2, 32).double()
    turns, ones = rotations(64, 32, 1e4), torch.ones(32).double()

    def everywhere(x: Tensor) -> Tensor:
        return rms_norm(x.expand(1, 64, 1, 32), ones, turns)[0, :, 0]

    scores = everywhere(q) @ everywhere(k).T
    for distance in (-40, -3, 0, 1, 17):
        diagonal = scores.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), atol=1e-5, rtol=0)
    assert scores.diagonal(1)[0] != pytest.approx(scores.diagonal(2)[0].item(), abs=1e-3)


def test_turning_keeps_lengths_and_leaves_position_zero() -> None:
    x, ones = drawn(1, 8, 3, 16).double(), torch.ones(16).double()
    plain, turned = rms_norm(x, ones), rms_norm(x, ones, rotations(8, 16, 1e4))
    torch.testing.assert_close(turned.norm(dim=-1), plain.norm(dim=-1), rtol=1e-6, atol=0)
    torch.testing.assert_close(turned[:, 0], plain[:, 0])


def test_a_smaller_base_turns_later_pairs_further() -> None:
    near, far = rotations(4, 8, 1e4)[1], rotations(4, 8, 1e2)[1]
    assert torch.equal(near[:, :2], far[:, :2])
    assert (far[1, 3::2] > near[1, 3::2]).all()
