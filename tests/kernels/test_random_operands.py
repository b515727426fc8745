"""Operands of any kind, on tensors of any size, have the bits of the scalar oracle."""

from collections.abc import Callable

import numpy as np
import torch
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from kernels.blocks import ROW, TENSOR, Block
from kernels.formats import GRIDS, Grid
from kernels.hadamard import Rotation
from kernels.operands import Operand, Rounding, Scale
from kernels.recipes import RHT_SIZES, Rht, Signs
from kernels.reference import FakeQuantized
from tests.kernels.golden.oracle import Stream, filled, quantized, signs

NAMED = st.sampled_from(list(GRIDS.values()))
FREE = st.sets(
    st.floats(2.0**-20, 2.0**20, width=32, allow_subnormal=False), min_size=1, max_size=12
).map(lambda steps: Grid("free", (0.0, *sorted(steps))))
EVEN = st.builds(
    lambda step, levels: Grid("even", tuple(step * level for level in range(levels + 1))),
    st.sampled_from([3.0, 0.1, 0.5, 1 / 3, 2.0**-30]),
    st.integers(1, 20),
)
SPARSE = st.builds(
    lambda grid, kept: Grid("sparse", (0.0, *(grid.magnitudes[i + 1] for i in sorted(kept)))),
    st.sampled_from([GRIDS["e4m3"], GRIDS["e3m2"], GRIDS["e2m3"]]),
    st.sets(st.integers(0, 30), min_size=1, max_size=12),
)
BLOCKS = st.one_of(
    st.sampled_from([ROW, TENSOR]),
    st.builds(
        lambda across, runs: Block(across=across, along=16 * runs),
        st.sampled_from([1, 1, 2, 3, 16]),
        st.sampled_from([1, 2, 4, 8]),
    ),
)


@st.composite
def operands(draw: st.DrawFn) -> Operand:
    """Any operand that can be written."""
    grid, block = draw(NAMED | FREE | EVEN | SPARSE), draw(BLOCKS)
    alternate = draw(st.none() | st.sampled_from([0.3, 0.5, 2 / 3]))
    outer = draw(st.none() | st.sampled_from([1, 2, 4]))
    try:
        return Operand(
            grid=grid,
            block=block,
            scale=draw(st.sampled_from(Scale)),
            rounding=draw(st.sampled_from(Rounding)),
            random_bits=draw(st.sampled_from([8, 16, 24])),
            half_offset=draw(st.booleans()),
            headroom=draw(st.sampled_from([1.0, 17 / 16, 4 / 3]) | st.floats(1, 16)),
            alternate=None if alternate is None else alternate * grid.maximum,
            scale_maximum=draw(st.sampled_from([448.0, 256.0]) | st.floats(1, 448)),
            outer=None if outer is None or block.along is None else outer * block.along,
        )
    except ValueError:
        assume(False)
        raise


@st.composite
def tensors(draw: st.DrawFn) -> list[list[float]]:
    """Normal numbers of some size, some of them small, zero, Inf or NaN; FP32."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    x = generator.standard_normal((draw(st.integers(1, 5)), draw(st.integers(1, 90))))
    x **= draw(st.sampled_from([1, 3]))
    x *= np.exp2(draw(st.sampled_from([0, 0, 0, -149, -130, -125, -60, 60, 120])))
    x *= generator.choice([1.0, 1.0, 1.0, 2.0**-5, 2.0**-12, 0.0], x.shape)
    special = draw(st.sampled_from([None] * 8 + [np.inf, -np.inf, np.nan]))
    if special is not None:
        x.flat[draw(st.integers(0, x.size - 1))] = special
    with np.errstate(over="ignore"):
        rows: list[list[float]] = x.astype(np.float32).tolist()
    return rows


RHTS = st.builds(
    Rht, size=st.sampled_from(RHT_SIZES), signs=st.sampled_from(Signs), to_bf16=st.booleans()
)


@settings(
    max_examples=30,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(
    x=tensors(),
    operand=operands(),
    rht=st.none() | RHTS,
    key=st.integers(0, 2**64 - 1),
    axis=st.sampled_from([0, 1]),
)
def test_any_operand_has_the_bits_of_the_oracle(
    quantize: Callable[..., FakeQuantized],
    x: list[list[float]],
    operand: Operand,
    rht: Rht | None,
    key: int,
    axis: int,
) -> None:
    at = Stream(seed=1, step=2, microbatch=0, layer="blocks.1.mlp.up", gemm="dgrad")
    expected = quantized(filled(x, rht, at), operand, key)
    rotation = None if rht is None else Rotation(signs(rht.signs, at, rht.size), rht.to_bf16)
    given_x = torch.tensor(x, dtype=torch.float32)
    given_x = given_x if axis == 1 else given_x.t().contiguous()
    found = quantize(given_x, operand, key, rotation=rotation, axis=axis)
    values = (found.values if axis == 1 else found.values.t()).contiguous().numpy()
    alike = values.view(np.int32) == expected.values.view(np.int32)
    assert (alike | (np.isnan(values) & np.isnan(expected.values))).all()
    assert (found.factor is None) == (expected.factor is None)
    if found.factor is not None:
        np.testing.assert_equal(found.factor.numpy(), np.float32(expected.factor))
