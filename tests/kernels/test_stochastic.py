"""Stochastic rounding: unbiased, of the right variance, and independent of all it should be.

The check of independence is a function of a generator of draws, so that it can be shown to reject
generators that are wrong. Bounds are four standard deviations; all is seeded.
"""

from math import sqrt

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from kernels.blocks import TENSOR
from kernels.formats import E2M1, GRIDS, Grid
from kernels.operands import Operand, Rounding, Scale
from kernels.ops import fake_quantize
from kernels.philox import RUN, uniforms
from kernels.rounding import round_stochastic_
from tests.kernels.broken_generators import (
    At,
    Draws,
    always_up,
    forgets,
    forgets_the_row,
    forgets_the_run,
    linear_counter,
    remembers,
)

FP64 = NDArray[np.float64]
SIGMAS = 4
ELSEWHERE = {
    "seed": At(seed=2),
    "step": At(step=11),
    "microbatch": At(microbatch=1),
    "layer": At(layer="blocks.1.mlp.up"),
    "gemm": At(gemm="wgrad"),
    "operand": At(operand="x"),
}
"""What differs from `At()` in one field alone."""


def philox_draws(at: At, rows: int, columns: int) -> FP64:
    """The project's generator, laid out as docs/numerics.md says; columns a multiple of 16."""
    runs = torch.arange(rows * columns // RUN)
    return uniforms(runs, at.key).t().reshape(rows, columns).double().numpy()


def quantizer_draws(at: At, rows: int, columns: int) -> FP64:
    """What can be seen of the draws in a rounded tensor: on which side of 1/2 each lies."""
    x = torch.full((rows, columns), 0.25)
    x[0, 0] = 6
    operand = Operand(grid=E2M1, block=TENSOR, rounding=Rounding.SR)
    rounded = fake_quantize(x, operand, at.key).values
    return np.where(rounded.numpy() > 0, 0.25, 0.75)


def correlated(a: FP64, b: FP64) -> bool:
    """Whether two samples correlate beyond chance, or do not vary at all."""
    a, b = a - a.mean(), b - b.mean()
    spread = sqrt(float((a * a).sum() * (b * b).sum()))
    return spread == 0 or abs(float((a * b).sum())) / spread > SIGMAS / sqrt(a.size)


def defects(draws: Draws, rows: int = 256, columns: int = 1024) -> set[str]:
    """What is wrong with a generator of draws whose mean should be 1/2."""
    at = At()
    u = draws(at, rows, columns)
    found = set()
    if abs(u.mean() - 0.5) > SIGMAS * sqrt(1 / 12 / u.size) * (u.std() * sqrt(12)) or u.std() == 0:
        found.add("mean")
    if not np.array_equal(draws(at, rows, columns), u):
        found.add("repetition")
    if any(correlated(u[:, :-lag], u[:, lag:]) for lag in range(1, RUN)):
        found.add("neighbours")
    if any(correlated(u[:, :-lag], u[:, lag:]) for lag in (RUN, 2 * RUN, 8 * RUN)):
        found.add("tiles")
    if any(correlated(u[:-lag], u[lag:]) for lag in (1, 2, 16)):
        found.add("rows")
    for field, elsewhere in ELSEWHERE.items():
        other = draws(elsewhere, rows, columns)
        if correlated(u, other) or correlated(u[:, 1:], other[:, :-1]):
            found.add(field)
    return found


def test_the_generator_has_no_defect_in_a_million_draws() -> None:
    assert defects(philox_draws, 512, 2048) == set()


def test_what_quantizers_round_has_no_defect() -> None:
    assert defects(quantizer_draws, 512, 2048) == set()


@pytest.mark.parametrize(
    ("broken", "defect"),
    [
        pytest.param(linear_counter, "neighbours", id="a linear counter"),
        pytest.param(forgets_the_run, "tiles", id="no tile index"),
        pytest.param(forgets_the_row, "rows", id="no row index"),
        pytest.param(remembers(philox_draws), "repetition", id="a state"),
        pytest.param(always_up, "mean", id="a constant"),
        *[
            pytest.param(forgets(field, philox_draws), field, id=f"no {field}")
            for field in ELSEWHERE
        ],
    ],
)
def test_a_broken_generator_is_rejected(broken: Draws, defect: str) -> None:
    assert defect in defects(broken)


def test_a_generator_that_ignores_the_step_has_no_other_defect() -> None:
    assert defects(forgets("step", philox_draws)) == {"step"}


@pytest.mark.parametrize("bits", [8, 16, 24])
def test_draws_fill_their_range_evenly_alone_and_in_pairs(bits: int) -> None:
    runs = torch.arange(2**16)
    u = uniforms(runs, At().key, bits=bits).t().reshape(-1).numpy().astype(np.float64)
    # The last of 2**24 draws is rounded to 1.
    counts = np.bincount(np.minimum(u * 256, 255).astype(np.int64), minlength=256)
    pairs = np.histogram2d(u[:-1], u[1:], bins=16, range=[[0, 1], [0, 1]])[0]
    for found in (counts, pairs.ravel()):
        expected = found.sum() / found.size
        chi_square = float(((found - expected) ** 2 / expected).sum())
        assert abs(chi_square - (found.size - 1)) < SIGMAS * sqrt(2 * found.size)


def between(grid: Grid, rows: int, columns: int, seed: int) -> tuple[FP64, FP64, FP64]:
    """Neighbours lo and hi of random bins, and random positions f between them."""
    generator = np.random.default_rng(seed)
    values = np.array(grid.magnitudes, np.float32).astype(np.float64)
    codes = generator.integers(0, len(values) - 1, (rows, columns))
    return values[codes], values[codes + 1], generator.random((rows, columns))


def ups(grid: Grid, f: FP64, lo: FP64, hi: FP64, operand: Operand) -> tuple[FP64, FP64]:
    """Whether elements at positions f were rounded up, and the positions in FP32 themselves."""
    x = (lo + f * (hi - lo)).astype(np.float32)
    x[:, 0] = grid.maximum
    values = fake_quantize(torch.from_numpy(x), operand, At().key).values.numpy()[:, 1:]
    lo, hi, x = lo[:, 1:], hi[:, 1:], x[:, 1:]
    assert ((values == lo) | (values == hi)).all()
    return (values == hi).astype(np.float64), (x - lo) / (hi - lo)


@pytest.mark.parametrize("name", GRIDS)
def test_the_mean_is_unbiased_and_the_variance_that_of_a_coin_over_a_million_draws(
    name: str,
) -> None:
    grid = GRIDS[name]
    operand = Operand(grid=grid, block=TENSOR, rounding=Rounding.SR, random_bits=16)
    lo, hi, f = between(grid, 1024, 1024, seed=1)
    up, position = ups(grid, f, lo, hi, operand)
    variance = position * (1 - position)
    assert abs((up - position).sum()) < SIGMAS * sqrt(variance.sum())
    excess = (up - position) ** 2 - variance
    assert abs(excess.sum()) < SIGMAS * sqrt((variance * (1 - 2 * position) ** 2).sum())
    for tenth in range(10):
        here = (position >= tenth / 10) & (position < (tenth + 1) / 10)
        assert abs((up - position)[here].sum()) < SIGMAS * sqrt(variance[here].sum())


@pytest.mark.parametrize("half_offset", [True, False])
def test_eight_bits_without_the_half_are_biased_by_half_a_unit(half_offset: bool) -> None:
    operand = Operand(
        grid=E2M1, block=TENSOR, rounding=Rounding.SR, random_bits=8, half_offset=half_offset
    )
    lo, hi, f = between(E2M1, 1024, 2048, seed=2)
    up, position = ups(E2M1, f, lo, hi, operand)
    deviation = sqrt(float((position * (1 - position)).mean()) / up.size)
    bias = float((up - position).mean())
    expected = 0.0 if half_offset else -1 / 512
    assert abs(bias - expected) < SIGMAS * deviation
    assert half_offset or bias < -SIGMAS * deviation


@pytest.mark.parametrize("half_offset", [True, False])
def test_of_all_256_draws_as_many_go_up_as_the_page_says(half_offset: bool) -> None:
    u = (torch.arange(256) + (0.5 if half_offset else 1.0)) / 256
    for f in [*np.arange(0, 1, 1 / 1024), 1 / 3, 0.999]:
        size = torch.full((256,), 4 + 2 * float(f))
        position = (float(size[0]) - 4) / 2
        rounded = round_stochastic_(size, u, torch.empty(256), E2M1)
        expected = int(256 * position + (0.5 if half_offset else 0.0))
        assert int((rounded == 6).sum()) == expected


@pytest.mark.parametrize("scale", Scale)
def test_another_step_differs_and_the_same_step_repeats(scale: Scale) -> None:
    operand = Operand(grid=E2M1, scale=scale, rounding=Rounding.SR)
    x = torch.randn(32, 128, generator=torch.Generator().manual_seed(3))
    first, again = (fake_quantize(x, operand, At().key).values for _ in range(2))
    later = fake_quantize(x, operand, At(step=11).key).values
    assert torch.equal(first, again)
    assert 0.1 < (first != later).double().mean() < 0.9


@pytest.mark.parametrize("name", GRIDS)
def test_a_tensor_far_below_its_grids_first_step_does_not_vanish(name: str) -> None:
    grid = GRIDS[name]
    step = grid.magnitudes[1]
    x = torch.full((64, 64), step / 8)
    x[:, 0] = grid.maximum
    operand = Operand(grid=grid, block=TENSOR, rounding=Rounding.SR)
    values = fake_quantize(x, operand, At().key).values[:, 1:]
    share = float((values == step).double().mean())
    assert abs(share - 1 / 8) < SIGMAS * sqrt(7 / 64 / values.numel())
    assert float((values == 0).double().mean()) == 1 - share
