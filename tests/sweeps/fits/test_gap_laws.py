"""Laws of a gap on paired differences: recovery, standard errors, coverage, refusals, choice."""

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import curve_fit

from sweeps.fits.differences import Differences, differences
from sweeps.fits.gap_choice import GapCriteria, choose_form, gap_laws
from sweeps.fits.gap_laws import Held, fit_gap
from sweeps.fits.gap_result import GapFit, GapForm, gap_at
from sweeps.fits.points import Points, make_points
from sweeps.fits.settings import Settings
from sweeps.laws.chinchilla import Chinchilla
from sweeps.laws.law import Array, at, loss
from tests.sweeps.fits.made_points import grid, surface

LAW = Chinchilla(x0=float(np.log(1.7e8)), y0=float(np.log(5.5e9)))
THETA = np.array([1.8, *np.log([480 / 1.7e8**0.35, 2100 / 5.5e9**0.366]), 0.35, 0.366])
BASE = Held(law=LAW, theta=THETA)
CENTER = (1e8, 5e9)


def pairs_of(gap: Array, noise: float = 0.0, seed: int = 0) -> Differences:
    """Differences with these gaps on a 4 x 6 grid."""
    return differences(two_arms(gap, noise, seed), "fp4")


def two_arms(gap: Array, noise: float = 0.0, seed: int = 0) -> Points:
    """BF16 without noise, and the gap with it."""
    N, D = grid(4, 6)
    errors = np.random.default_rng(seed).normal(0, noise, len(N))
    losses = np.concatenate([surface(N, D), surface(N, D) + gap + errors])
    arms = ["bf16"] * len(N) + ["fp4"] * len(N)
    return make_points(np.tile(N, 2), np.tile(D, 2), losses, arms=arms)


def fitted(pairs: Differences, form: GapForm, resamples: int = 400) -> GapFit:
    found = fit_gap(pairs, form, base=BASE, resamples=resamples, seed=0, center=CENTER)
    assert isinstance(found, GapFit), found
    return found


def power(c: float, a: float, b: float) -> Array:
    N, D = grid(4, 6)
    value: Array = c * (N / CENTER[0]) ** a * (D / CENTER[1]) ** b
    return value


@pytest.mark.parametrize("truth", [(0.08, -0.2, 0.1), (-0.01, 0.4, -0.3), (0.005, 0.0, 0.6)])
def test_a_power_law_without_noise_is_recovered(truth: tuple[float, float, float]) -> None:
    found = fitted(pairs_of(power(*truth)), GapForm.POWER)
    assert [item.value for item in found.estimates] == pytest.approx(truth, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(
    ("form", "multipliers"),
    [
        (GapForm.EFF_N, {"eff_N": 0.64}),
        (GapForm.EFF_D, {"eff_D": 0.5}),
        (GapForm.EFF_C, {"eff_C": 1.2}),
        (GapForm.EFF_BOTH, {"eff_N": 0.7, "eff_D": 0.9}),
    ],
)
def test_multipliers_without_noise_are_recovered(
    form: GapForm, multipliers: dict[str, float]
) -> None:
    N, D = grid(4, 6)
    m_C = multipliers.get("eff_C", 1.0)
    m_N, m_D = multipliers.get("eff_N", m_C), multipliers.get("eff_D", m_C)
    found = fitted(pairs_of(surface(m_N * N, m_D * D) - surface(N, D)), form)
    values = {item.name: item.value for item in found.estimates}
    assert values == pytest.approx(multipliers, rel=1e-6)


def test_standard_errors_are_those_of_curve_fit() -> None:
    pairs = pairs_of(power(0.05, -0.2, 0.1), noise=0.002)
    found = fitted(pairs, GapForm.POWER)

    def law(where: Array, c: float, a: float, b: float) -> Array:
        value: Array = c * (where[0] / CENTER[0]) ** a * (where[1] / CENTER[1]) ** b
        return value

    best, covariance = curve_fit(law, np.stack([pairs.N, pairs.D]), pairs.gap, p0=(0.05, 0, 0))
    assert [item.value for item in found.estimates] == pytest.approx(best, rel=1e-4)
    assert found.errors == pytest.approx(np.sqrt(np.diag(covariance)), rel=1e-3)


@pytest.mark.slow
def test_the_intervals_cover_a_known_gap_law() -> None:
    truth = (0.05, -0.2, 0.1)
    covered = np.zeros(3)
    for seed in range(150):
        found = fitted(pairs_of(power(*truth), noise=0.002, seed=seed), GapForm.POWER, 200)
        covered += [
            item.low is not None and item.high is not None and item.low <= value <= item.high
            for item, value in zip(found.estimates, truth, strict=True)
        ]
    # Nominal 0.95; the Monte Carlo error of 150 data sets is 0.018.
    assert covered.min() / 150 >= 0.91
    assert covered.max() / 150 <= 0.99


def test_few_clusters_get_t_intervals_that_are_wider_than_normal_ones() -> None:
    pairs = pairs_of(power(0.05, 0, 0), noise=0.002).chosen(np.arange(24) < 4)
    found = fitted(pairs, GapForm.CONSTANT)
    (c,) = found.estimates
    assert found.over == "4 clusters (t, 3 degrees)"
    assert c.low is not None
    assert c.high is not None
    # t with 3 degrees: 3.182 standard errors on either side.
    assert (c.high - c.low) / 2 == pytest.approx(3.182 * found.errors[0], rel=1e-3)


def clustered(seed: int, sizes: int, horizons: int) -> Differences:
    """Horizons of one run to a size, which share most of the noise of their gap."""
    random = np.random.default_rng(seed)
    N, D = grid(sizes, horizons)
    noise = 0.002 * random.normal(size=sizes).repeat(horizons) + 0.001 * random.normal(size=len(N))
    loss = np.concatenate([surface(N, D), surface(N, D) + 0.05 + noise])
    arms, groups = ["bf16"] * len(N) + ["fp4"] * len(N), [f"{n}" for n in np.tile(N, 2)]
    points = make_points(np.tile(N, 2), np.tile(D, 2), loss, arms=arms, groups=groups)
    return differences(points, "fp4")


def test_the_mean_of_clusters_has_the_t_interval_of_their_means() -> None:
    pairs = clustered(0, sizes=4, horizons=3)
    found = fitted(pairs, GapForm.CONSTANT)
    means = pairs.gap.reshape(4, 3).mean(axis=1)
    expected = stats.t.interval(0.95, 3, means.mean(), stats.sem(means))
    (c,) = found.estimates
    assert found.errors[0] == pytest.approx(stats.sem(means))
    assert c.low == pytest.approx(expected[0])
    assert c.high == pytest.approx(expected[1])


@pytest.mark.slow
@pytest.mark.parametrize(("sizes", "horizons"), [(3, 2), (4, 4), (8, 4)])
def test_horizons_of_one_run_are_no_independent_evidence(sizes: int, horizons: int) -> None:
    covered = np.zeros(2)
    for seed in range(200):
        found = fitted(clustered(seed, sizes, horizons), GapForm.RATIO, 200)
        covered += [
            item.low is not None and item.high is not None and item.low <= value <= item.high
            for item, value in zip(found.estimates, (0.05, 0.0), strict=True)
        ]
    # Nominal 0.95; the Monte Carlo error of 200 data sets is 0.015.
    assert covered.min() / 200 >= 0.92


def test_as_many_constants_as_clusters_have_no_interval() -> None:
    found = fitted(clustered(0, sizes=3, horizons=3), GapForm.POWER)
    assert found.samples is None
    assert found.errors == ()
    for item in found.estimates:
        assert item.value is not None
        assert item.low is None
        assert item.reason == "there are no more clusters than constants"


def test_the_gap_at_a_target_has_a_band_and_the_distance_from_the_data() -> None:
    found = fitted(pairs_of(power(0.05, -0.2, 0.1), noise=0.001), GapForm.POWER)
    inside, far = gap_at(found, 1e8, 5e9), gap_at(found, 1e10, 3e12)
    assert inside.gap == pytest.approx(0.05, abs=0.002)
    assert (inside.decades_N, inside.decades_D) == (0, 0)
    assert far.decades_N == pytest.approx(1.0)
    assert far.decades_D == pytest.approx(2.0)
    assert inside.low is not None
    assert inside.high is not None
    assert far.low is not None
    assert far.high is not None
    assert inside.low < inside.gap < inside.high
    assert far.high - far.low > 3 * (inside.high - inside.low)


def test_one_size_leaves_its_exponent_open_and_says_so() -> None:
    pairs = pairs_of(power(0.05, 0, 0.1), noise=0.001)
    one = pairs.chosen(pairs.N == pairs.N.min())
    for form, word in ((GapForm.POWER, "apart"), (GapForm.EFF_BOTH, "")):
        found = fit_gap(one, form, base=BASE, resamples=200, seed=0)
        assert isinstance(found, str) == bool(word), found
        assert word in str(found)
    assert isinstance(fit_gap(one, GapForm.RATIO, base=None, resamples=200, seed=0), GapFit)


def test_without_a_law_of_bf16_the_multipliers_are_refused() -> None:
    pairs = pairs_of(power(0.05, 0, 0.1))
    for form in (GapForm.EFF_N, GapForm.EFF_D, GapForm.EFF_C, GapForm.EFF_BOTH):
        found = fit_gap(pairs, form, base=None, resamples=200, seed=0)
        assert "law of BF16" in str(found)


def test_fewer_pairs_than_constants_are_refused() -> None:
    pairs = pairs_of(power(0.05, 0, 0.1)).chosen(np.arange(24) < 2)
    found = fit_gap(pairs, GapForm.POWER, base=BASE, resamples=200, seed=0)
    assert found == "2 pairs are fewer than its 3 constants"


@pytest.mark.parametrize("seed", range(4))
def test_the_form_that_made_the_gaps_is_chosen(seed: int) -> None:
    N, D = grid(4, 6)
    made = {
        GapForm.CONSTANT: np.full(24, 0.05),
        GapForm.EFF_N: surface(0.6 * N, D) - surface(N, D),
        GapForm.POWER: power(0.05, 0.5, -0.3),
        GapForm.NONE: np.zeros(24),
    }
    for form, gap in made.items():
        points = two_arms(gap, noise=0.0003, seed=seed)
        rows = points.arm == 0
        reference = make_points(points.N[rows], points.D[rows], points.loss[rows])
        found = gap_laws(
            differences(points, "fp4"), reference, "chinchilla", Settings(resamples=100)
        )
        assert found.chosen is form, [(one.form, one.held_out) for one in found.criteria]


def test_held_out_errors_are_those_of_a_fit_without_the_largest_size() -> None:
    pairs = pairs_of(power(0.05, -0.3, 0.1), noise=0.002)
    (criteria,) = [
        one
        for one in gap_laws(pairs, make_points([], [], []), None, Settings()).criteria
        if one.form is GapForm.CONSTANT
    ]
    largest = pairs.N == pairs.N.max()
    errors = pairs.gap[~largest].mean() - pairs.gap[largest]
    assert criteria.held_out == pytest.approx(np.sqrt(np.mean(errors**2)))


def test_ties_within_one_standard_error_go_to_fewer_constants() -> None:
    def one(form: GapForm, constants: int, error: float, se: float) -> GapCriteria:
        return GapCriteria(
            form=form, n_constants=constants, n_pairs=20, held_out=error, held_out_se=se
        )

    near = (one(GapForm.EFF_N, 1, 0.0029, 0.001), one(GapForm.POWER, 3, 0.0022, 0.0009))
    assert choose_form(near)[0] is GapForm.EFF_N
    apart = (one(GapForm.EFF_N, 1, 0.0035, 0.001), one(GapForm.POWER, 3, 0.0022, 0.0009))
    assert choose_form(apart)[0] is GapForm.POWER


def test_one_size_lets_aicc_choose() -> None:
    pairs = pairs_of(power(0.05, 0, 0.6), noise=0.0005)
    found = gap_laws(
        pairs.chosen(pairs.N == pairs.N.min()), make_points([], [], []), None, Settings()
    )
    assert found.chosen is GapForm.RATIO
    assert "AICc" in found.how
    assert all(one.held_out is None for one in found.criteria)


def test_one_pair_tells_nothing_but_itself() -> None:
    pairs = pairs_of(power(0.05, 0, 0)).chosen(np.arange(24) < 1)
    found = gap_laws(pairs, make_points([], [], []), None, Settings())
    assert found.chosen is GapForm.NONE
    assert found.power is None
    assert "no law" in found.how


def test_the_same_seed_gives_the_same_draws() -> None:
    pairs = pairs_of(power(0.05, -0.2, 0.1), noise=0.002)
    one, two = (fitted(pairs, GapForm.POWER) for _ in range(2))
    assert one == two


def test_the_law_of_bf16_serves_at_its_own_constants() -> None:
    N, D = grid(4, 6)
    assert loss(LAW, THETA, at(N, D)) == pytest.approx(surface(N, D))
