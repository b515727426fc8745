"""IsoFLOP parabolas against surfaces whose optimum has a closed form."""

import numpy as np
import pytest
from scipy.optimize import brentq

from sweeps.fits.isoflop import Surface, frontier_points, isoflop
from sweeps.fits.points import Points, make_points
from sweeps.fits.search import optimize
from sweeps.fits.target import loss_target
from sweeps.laws.chinchilla import Chinchilla
from sweeps.laws.frontier import Frontier
from sweeps.laws.law import Array, loss

BUDGETS = (1e17, 1e18, 1e19, 1e20)
SPAN = np.geomspace(0.25, 4, 7)


def surface(alpha: float, beta: float) -> Surface:
    """E = 1.8; both terms are 0.5 nats at 1e8 parameters and 2e9 tokens."""
    theta = np.array([1.8, np.log(0.5), np.log(0.5), alpha, beta])
    return Surface(law=Chinchilla(x0=np.log(1e8), y0=np.log(2e9)), theta=theta)


def optimum(of: Surface, C: float) -> float:
    """Where alpha A / N^alpha = beta B / D^beta (Hoffmann et al. 2022, equation 4)."""
    _, A, B, alpha, beta = of.law.constants(of.theta)
    scale = (alpha * A / (beta * B)) ** (1 / (alpha + beta))
    return float(scale * (C / 6) ** (beta / (alpha + beta)))


def curves(
    of: Surface, *, budgets: tuple[float, ...] = BUDGETS, span: Array = SPAN, off: float = 1.0
) -> Points:
    """Losses without noise at sizes around the optimum of each budget, or `off` times it."""
    N = np.concatenate([off * optimum(of, C) * span for C in budgets])
    D = np.repeat(budgets, len(span)) / (6 * N)
    flat = make_points(N, D, np.ones_like(N))
    return make_points(N, D, loss(of.law, of.theta, flat.where)[np.argsort(flat.row)])


def with_noise(points: Points, sigma: float, seed: int) -> Points:
    noise = np.random.default_rng(seed).normal(0, sigma, len(points))
    return make_points(points.N, points.D, points.loss + noise)


def test_on_a_symmetric_valley_the_parabola_finds_the_optimum() -> None:
    even = surface(0.3, 0.3)
    found = isoflop(curves(even), even)
    for C, (valley, minimum) in zip(BUDGETS, found.minima, strict=True):
        assert valley.C == pytest.approx(C, rel=1e-9)
        assert minimum.N == pytest.approx(optimum(even, C), rel=1e-6)
        assert minimum.D == pytest.approx(C / 6 / minimum.N, rel=1e-9)
        assert valley.bias == pytest.approx(1, rel=1e-6)
    assert [one.value for one in found.exponents] == pytest.approx([0.5, 0.5], abs=1e-6)


def test_with_unequal_exponents_the_parabola_is_biased_and_says_by_how_much() -> None:
    skew = surface(0.2, 0.5)
    found = isoflop(curves(skew), skew)
    assert len(found.minima) == len(BUDGETS)
    for C, (valley, minimum) in zip(BUDGETS, found.minima, strict=True):
        assert valley.bias is not None
        assert abs(valley.bias - 1) > 0.05
        assert minimum.N / valley.bias == pytest.approx(optimum(skew, C), rel=1e-5)


def test_sizes_off_the_centre_bias_even_a_valley_of_equal_exponents() -> None:
    even = surface(0.5, 0.5)
    centred, off = (isoflop(curves(even, off=off), even).valleys[0].bias for off in (1.0, 3.0))
    assert centred == pytest.approx(1, rel=1e-6)
    assert off is not None
    assert off > 1.05


@pytest.mark.parametrize(("off", "edge"), [(0.2, "largest"), (5.0, "smallest")])
def test_a_minimum_at_the_edge_of_the_sizes_is_refused(off: float, edge: str) -> None:
    found = isoflop(curves(surface(0.3, 0.3), off=off))
    assert found.minima == ()
    assert all(f"at the {edge} size" in valley.reason for valley in found.valleys)
    assert all("fewer than the 3 needed" in one.reason for one in found.exponents)


def test_a_valley_flatter_than_its_noise_is_refused() -> None:
    flat = curves(surface(0.02, 0.02), budgets=(1e18,))
    found = isoflop(with_noise(flat, 0.02, seed=4))
    (valley,) = found.valleys
    assert valley.minimum is None
    assert "within its noise" in valley.reason or "at the" in valley.reason


def test_an_interval_that_leaves_the_sizes_is_refused() -> None:
    points = curves(surface(0.3, 0.3), budgets=(1e18,), span=np.geomspace(0.5, 2, 5))
    reasons = [isoflop(with_noise(points, 0.004, seed)).valleys[0].reason for seed in range(20)]
    assert any("leaves the sizes" in reason for reason in reasons)


def test_three_sizes_are_too_few_and_the_same_size_twice_is_one() -> None:
    even = surface(0.3, 0.3)
    three = curves(even, budgets=(1e18,), span=np.array([0.5, 1.0, 2.0]))
    twice = make_points(*(np.repeat(a, 2) for a in (three.N, three.D, three.loss)))
    (valley,) = isoflop(twice).valleys
    assert (valley.n_points, valley.n_sizes, valley.minimum) == (6, 3, None)
    assert "3 sizes are fewer than the 4" in valley.reason


def test_budgets_a_percent_apart_are_one_and_ten_percent_apart_are_two() -> None:
    even = surface(0.3, 0.3)
    for factor, budgets in ((1.01, 1), (1.1, 2)):
        both = [curves(even, budgets=(C,)) for C in (1e18, factor * 1e18)]
        columns = (np.concatenate([getattr(p, name) for p in both]) for name in ("N", "D", "loss"))
        assert len(isoflop(make_points(*columns)).valleys) == budgets


def test_the_minima_lie_on_the_frontier_of_the_surface() -> None:
    even = surface(0.3, 0.3)
    found = isoflop(curves(even, span=np.geomspace(0.7, 1.4, 7)))
    points = frontier_points(found)
    law = Frontier.about(points.where)
    best = optimize(loss_target(law, points), law.starts(points.where, points.loss))
    E, _, alpha_C = law.constants(best.theta)
    assert (E, alpha_C) == pytest.approx((1.8, 0.15), abs=2e-3)


def test_the_ends_of_the_interval_are_where_the_slope_is_t_errors_from_zero() -> None:
    """Fieller by its definition: the t statistic of the slope at each end, found by bisection."""
    points = with_noise(curves(surface(0.3, 0.3), budgets=(1e18,)), 0.002, seed=1)
    ((_, minimum),) = isoflop(points).minima
    x = np.log(points.N)
    design = np.stack([np.ones_like(x), x - x.mean(), (x - x.mean()) ** 2], axis=1)
    theta, (squares,), _, _ = np.linalg.lstsq(design, points.loss, rcond=None)
    covariance = squares / 4 * np.linalg.inv(design.T @ design)

    def beyond(N: float) -> float:
        slope = np.array([0.0, 1.0, 2 * (np.log(N) - x.mean())])
        statistic = abs(slope @ theta) / np.sqrt(slope @ covariance @ slope)
        return float(statistic - 2.7764451)

    ends = [brentq(beyond, minimum.N, edge) for edge in (points.N.min(), points.N.max())]
    assert minimum.N_range == pytest.approx(ends, rel=1e-6)


def test_the_intervals_hold_the_optimum_as_often_as_they_say() -> None:
    even = surface(0.3, 0.3)
    clean = curves(even, budgets=(1e18,))
    valleys = [isoflop(with_noise(clean, 0.002, seed)).valleys[0] for seed in range(400)]
    found = [one.minimum for one in valleys if one.minimum is not None]
    assert len(found) > 390
    truth = optimum(even, 1e18)
    held = np.mean([low <= truth <= high for low, high in (one.N_range for one in found)])
    assert 0.92 <= held <= 0.98
