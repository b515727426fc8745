"""Effective data and size off the BF16 losses: a known law, and all that is not identified."""

import numpy as np
import pytest

from sweeps.effective.horizontal import Baseline
from sweeps.fits.points import make_points
from tests.sweeps.fits.made_points import grid, surface


def baseline(sizes: int = 6, budgets: int = 8) -> Baseline:
    """BF16 on a grid of a known law."""
    N, D = grid(sizes, budgets)
    return Baseline.of(make_points(N, D, surface(N, D)))


@pytest.mark.parametrize("multiplier", [0.9, 0.7, 0.5])
def test_a_multiplier_of_data_is_read_off(multiplier: float) -> None:
    N, D = np.geomspace(3e7, 1e9, 6)[2], np.geomspace(1e9, 3e10, 8)[5]
    one = np.array([1.0])
    gap = float((surface(N * one, multiplier * D * one) - surface(N * one, D * one))[0])
    found = baseline().effective_data(float(N), float(D), gap)
    assert not isinstance(found, str)
    assert np.exp(found) == pytest.approx(multiplier, rel=0.01)


def test_a_multiplier_of_size_is_read_off_across_sizes() -> None:
    N, D = np.geomspace(3e7, 1e9, 6)[3], np.geomspace(1e9, 3e10, 8)[4]
    one = np.array([1.0])
    gap = float((surface(0.6 * N * one, D * one) - surface(N * one, D * one))[0])
    found = baseline().effective_size(float(N), float(D), gap)
    assert not isinstance(found, str)
    assert np.exp(found) == pytest.approx(0.6, rel=0.015)


def test_sizes_trained_on_other_tokens_are_met_on_their_own_curves() -> None:
    sizes = np.geomspace(3e7, 1e9, 6)
    N = np.repeat(sizes, 6)
    D = np.concatenate([size * np.geomspace(20, 640, 6) for size in sizes])
    made = Baseline.of(make_points(N, D, surface(N, D)))
    one, size, tokens = np.array([1.0]), sizes[2], 40 * sizes[2]
    gap = float((surface(0.7 * size * one, tokens * one) - surface(size * one, tokens * one))[0])
    found = made.effective_size(float(size), float(D[2 * 6 + 1]), gap)
    assert not isinstance(found, str)
    assert np.exp(found) == pytest.approx(0.7, rel=0.02)


def test_no_gap_is_a_multiplier_of_1() -> None:
    N, D = (float(axis[9]) for axis in grid(6, 8))
    assert baseline().effective_data(N, D, 0.0) == pytest.approx(0.0, abs=1e-9)
    assert baseline().effective_size(N, D, 0.0) == pytest.approx(0.0, abs=1e-9)


def test_a_format_that_beats_bf16_is_worth_more_data() -> None:
    N, D = (float(axis[10]) for axis in grid(6, 8))
    found = baseline().effective_data(N, D, -0.02)
    assert not isinstance(found, str)
    assert found > 0


def test_nothing_is_said_beyond_the_bf16_losses() -> None:
    made = baseline()
    N, D = grid(6, 8)
    shortest = made.effective_data(float(N[0]), float(D[0]), 0.01)
    longest = made.effective_data(float(N[0]), float(D[7]), -0.01)
    smallest = made.effective_size(float(N[0]), float(D[3]), 0.01)
    assert "leads out of the BF16 losses of 3e+07 parameters" in str(shortest)
    assert "leads out" in str(longest)
    assert "leads out" in str(smallest)


def test_losses_that_rise_or_stand_alone_are_no_curve() -> None:
    rising = Baseline.of(make_points([1e8] * 3, [1e9, 2e9, 4e9], [3.0, 3.1, 2.9]))
    assert "do not fall" in str(rising.effective_data(1e8, 2e9, 0.01))
    alone = Baseline.of(make_points([1e8], [1e9], [3.0]))
    assert "there is one" in str(alone.effective_data(1e8, 1e9, 0.01))
    assert "no other size" in str(alone.effective_size(1e8, 1e9, 0.01))


def test_seeds_of_a_cell_are_averaged() -> None:
    D = np.array([1e9, 2e9, 4e9, 8e9])
    loss = np.array([3.2, 3.0, 2.85, 2.75])
    once = Baseline.of(make_points([1e8] * 4, D, loss))
    twice = Baseline.of(
        make_points([1e8] * 8, np.tile(D, 2), np.concatenate([loss - 0.01, loss + 0.01]))
    )
    for tokens in (4e9, 8e9):
        assert once.effective_data(1e8, tokens, 0.05) == pytest.approx(
            twice.effective_data(1e8, tokens, 0.05)
        )
