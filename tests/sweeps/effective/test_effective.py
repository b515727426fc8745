"""Effective numbers of whole designs: known multipliers, coverage, and honest silence."""

from collections.abc import Sequence

import numpy as np
import pytest

from sweeps.effective.effective import effective, reference_of, two_arms
from sweeps.effective.joint_fit import JointFit, fit_joint, log_multipliers
from sweeps.effective.result import Effective, Method
from sweeps.fits.fit import fit
from sweeps.fits.points import Points, make_points
from sweeps.fits.settings import Settings
from sweeps.laws.chinchilla import Chinchilla
from sweeps.laws.joint import by_arm, joint
from sweeps.laws.law import Array
from tests.sweeps.fits.made_points import grid, surface

QUICK = Settings(law="chinchilla", resamples=200)


def design(
    multipliers: dict[str, tuple[float, float]],
    *,
    noise: float = 0.0,
    shared: float = 0.0,
    cells: tuple[Array, Array] | None = None,
    seeds: Sequence[int] = (0,),
    start: int = 0,
) -> Points:
    """BF16 and formats with these (eff_N, eff_D), noise of each run, noise that a seed shares."""
    random = np.random.default_rng(start)
    N, D = grid(4, 6) if cells is None else cells
    arms = {"bf16": (1.0, 1.0)} | multipliers
    rows = []
    for seed in seeds:
        common = random.normal(0, shared, len(N)) if shared else np.zeros(len(N))
        for arm, (m_N, m_D) in arms.items():
            own = random.normal(0, noise, len(N)) if noise else np.zeros(len(N))
            losses = surface(m_N * N, m_D * D) * np.exp(common + own)
            rows += [
                (*place, arm, f"{place[0]} {place[1]} {seed}")
                for place in zip(N, D, losses, strict=True)
            ]
    rows.sort(key=lambda row: row[3] != "bf16")
    columns = list(zip(*rows, strict=True))
    return make_points(*columns[:3], arms=columns[3], groups=columns[4])


def found_in(points: Points, settings: Settings = QUICK, **options: bool) -> dict[str, Effective]:
    bf16 = fit(reference_of(points), label="bf16", settings=settings)
    return {one.label: one for one in effective(points, bf16, settings, **options)}


def test_a_law_without_draws_carries_no_multiplier_and_no_slope() -> None:
    N, D = grid(3, 3)
    points = design({"fp4": (0.9, 0.9)}, noise=1e-4, cells=(N, D), seeds=(0, 1))
    bf16 = fit(reference_of(points), label="bf16", settings=QUICK)
    assert bf16.solution is not None
    assert not bf16.solution.samples.rows
    (one,) = effective(points, bf16, QUICK)
    assert one.C_mult.value is None
    assert "no law of N and D" in one.C_mult.reason
    assert {cell.slope_D.value for cell in one.cells} == {None}


def test_multipliers_are_recovered_each_beside_bf16_alone() -> None:
    made = {"fp4": (0.64, 0.9), "fp8": (0.98, 0.99), "better": (1.1, 1.0)}
    found = found_in(design(made, noise=1e-5))
    for label, (m_N, m_D) in made.items():
        one = found[label]
        assert one.eff_N.value == pytest.approx(m_N, rel=3e-3)
        assert one.eff_D.value == pytest.approx(m_D, rel=3e-3)
        assert one.C_mult.value == pytest.approx(m_N * m_D, rel=3e-3)
        assert one.break_even.value == pytest.approx(1 / (m_N * m_D), rel=3e-3)
        assert one.C_mult.method is Method.JOINT
        assert one.C_mult.n == one.n_cells == 24
    alone = found_in(design({"fp4": (0.64, 0.9)}, noise=1e-5))
    assert alone["fp4"].n_points == found["fp4"].n_points == 48


def test_other_formats_of_a_sweep_change_nothing() -> None:
    both = design({"fp4": (0.7, 0.9), "fp8": (0.98, 0.99)}, noise=0.002)
    apart = two_arms(both, "fp4")
    assert found_in(both)["fp4"] == found_in(apart)["fp4"]


def test_break_even_is_the_inverse_with_its_ends_turned() -> None:
    one = found_in(design({"fp4": (0.7, 0.9)}, noise=0.002))["fp4"]
    worth, speed = one.C_mult, one.break_even
    assert worth.value is not None
    assert worth.low is not None
    assert worth.high is not None
    assert speed.value == pytest.approx(1 / worth.value)
    assert speed.low == pytest.approx(1 / worth.high, rel=1e-6)
    assert speed.high == pytest.approx(1 / worth.low, rel=1e-6)


def test_the_chance_to_win_rises_with_speed_and_is_even_at_break_even() -> None:
    one = found_in(design({"fp4": (0.7, 0.9)}, noise=0.002))["fp4"]
    assert one.break_even.value is not None
    chances = [one.wins(speed) for speed in (1.0, one.break_even.value, 4.0)]
    assert chances[0] == 0
    assert chances[2] == 1
    assert chances[1] is not None
    assert 0.3 < chances[1] < 0.7


def test_parameters_and_data_trade_against_each_other_and_the_verdict_says_so() -> None:
    one = found_in(design({"fp4": (0.7, 0.9)}, noise=0.002))["fp4"]
    assert one.correlation is not None
    assert one.correlation < -0.5
    assert one.verdict[0].startswith("Its compute is worth 0.")
    assert f"correlation {one.correlation:+.2f}" in one.verdict[1]


@pytest.mark.slow
def test_the_interval_of_compute_covers_where_seeds_share_noise() -> None:
    covered = 0
    for start in range(100):
        points = design({"fp4": (0.65, 1.0)}, noise=0.001, shared=0.002, start=start)
        law = joint(Chinchilla.about(points.where), by_arm(points.arms))
        found = fit_joint(points, law, QUICK)
        assert isinstance(found, JointFit)
        ln_N, ln_D = log_multipliers(law, found.draws)
        low, high = np.exp(np.quantile((ln_N + ln_D)[:, 1], (0.025, 0.975)))
        covered += low <= 0.65 <= high
    # Nominal 95; the Monte Carlo error of 100 data sets is 2.2.
    assert 90 <= covered <= 99


def test_a_design_that_carries_a_tangent_reads_the_gap_in_two_ways_and_no_compute() -> None:
    N, D = grid(3, 2)
    points = design({"fp8": (1.0, 0.95)}, noise=1e-4, cells=(N, D), seeds=(0, 1, 2))
    one = found_in(points, Settings(resamples=200))["fp8"]
    assert one.eff_D.method is Method.SLOPE
    assert one.eff_D.value is not None
    assert one.eff_D.value == pytest.approx(0.95, abs=0.03)
    assert one.eff_D.low is not None
    assert one.eff_D.high is not None
    assert one.eff_D.low < one.eff_D.value < one.eff_D.high
    assert one.C_mult.value is None
    assert "no law" in one.C_mult.reason
    assert one.wins(2.0) is None
    assert "two readings" in one.verdict[0]


def test_one_ratio_of_tokens_to_parameters_identifies_nothing_but_the_gap() -> None:
    N = np.geomspace(3e7, 1e9, 6)
    one = found_in(
        design({"fp4": (0.7, 0.9)}, noise=0.001, cells=(N, 20 * N)), Settings(resamples=200)
    )["fp4"]
    for number in (one.eff_N, one.eff_D, one.C_mult, one.break_even):
        assert number.value is None
        assert number.reason
    assert one.gap is not None
    assert one.gap.fit.n_pairs == 6
    assert "No effective number is identified" in one.verdict[0]


def test_a_format_without_a_partner_is_silent() -> None:
    points = make_points(
        [1e8, 2e8, 4e8], [1e9, 2e9, 4e9], [3.0, 2.9, 3.1], arms=["bf16", "bf16", "fp4"]
    )
    one = found_in(points)["fp4"]
    assert one.gap is None
    assert one.cells == ()
    assert one.C_mult.reason == "no run of it has a BF16 partner"


def test_few_clusters_are_said_to_cover_less() -> None:
    few = found_in(design({"fp4": (0.7, 0.9)}, noise=0.002, cells=grid(3, 4)))["fp4"]
    many = found_in(design({"fp4": (0.7, 0.9)}, noise=0.002))["fp4"]
    assert any("12 clusters" in line for line in few.verdict)
    assert not any("clusters, fewer" in line for line in many.verdict)


def test_a_floor_of_its_own_is_found_where_there_is_one() -> None:
    plain = design({"fp4": (0.7, 0.9)}, noise=0.0005, start=4)
    raised = make_points(
        plain.N,
        plain.D,
        plain.loss + 0.05 * (plain.arm == 1),
        arms=[plain.arms[arm] for arm in plain.arm],
    )
    floors = [found_in(points, QUICK, floors=True)["fp4"].floor for points in (plain, raised)]
    assert floors[0] is not None
    assert not floors[0].own_is_supported
    assert floors[1] is not None
    assert floors[1].own_is_supported
    assert found_in(plain)["fp4"].floor is None


def test_the_gap_law_agrees_with_the_joint_law_on_the_frontier() -> None:
    N = np.repeat(np.geomspace(3e7, 1e9, 5), 6)
    D = N * np.tile(np.geomspace(5, 160, 6), 5)
    one = found_in(design({"fp4": (0.75, 0.9)}, noise=0.0005, cells=(N, D)))["fp4"]
    assert one.frontier is not None
    assert one.frontier.flops is not None
    assert one.C_mult.value is not None
    assert one.frontier.C_mult.value == pytest.approx(one.C_mult.value, abs=0.03)
    assert one.frontier.critical_tokens.value is None


def test_the_same_seed_gives_the_same_numbers() -> None:
    points = design({"fp4": (0.7, 0.9)}, noise=0.002)
    assert found_in(points) == found_in(points)
