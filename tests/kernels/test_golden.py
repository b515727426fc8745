"""The quantizers have the bits that docs/numerics.md asks for, as golden vectors hold them."""

import operator
import random
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from math import inf, isinf

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from kernels.blocks import Block
from kernels.formats import GRIDS
from kernels.hadamard import Rotation, random_signs, rotation
from kernels.operands import Operand, Scale
from kernels.philox import stream_key
from kernels.presets import PRESETS
from kernels.recipes import RHT_SIZES, Signs
from kernels.reference import FakeQuantized
from tests.kernels.golden.arithmetic import (
    KNOWN_PHILOX,
    LARGEST,
    bf16,
    divide,
    e4m3,
    f32,
    fp16,
    philox,
)
from tests.kernels.golden.cases import AT, GROUPS, Case, inputs
from tests.kernels.golden.make_golden import FOLDER, Arrays, arrays
from tests.kernels.golden.oracle import SIGN, key, magnitudes, signs, transform
from tests.kernels.golden.published import ELEMENTS, mxfp, nvfp4

CASES = [
    pytest.param(group, case, id=f"{group}-{case.name}")
    for group, cases in GROUPS.items()
    for case in cases
]
FakeQuantize = Callable[..., FakeQuantized]


@cache
def stored(group: str) -> Arrays:
    """A file of golden vectors."""
    with np.load(FOLDER / f"{group}.npz") as file:
        return dict(file)


def assert_same_bits(found: Tensor, expected: NDArray[np.generic]) -> None:
    """Equal bit for bit, and NaN in the same places."""
    values = found.numpy()
    assert values.dtype == expected.dtype == np.float32
    assert values.shape == expected.shape
    nan = np.isnan(expected)
    assert np.array_equal(np.isnan(values), nan)
    wrong = np.argwhere((values.view(np.int32) != expected.view(np.int32)) & ~nan)
    assert not len(wrong), [
        (tuple(place), values[tuple(place)], expected[tuple(place)]) for place in wrong[:4]
    ]


def assert_case(quantized: FakeQuantized, values: Tensor, case: Case, group: str) -> None:
    expected = stored(group)
    if f"{case.name}/values" not in expected:
        # A grid or a preset that is newer than the files.
        expected = arrays(case)
    assert_same_bits(values, expected[f"{case.name}/values"])
    factor = expected.get(f"{case.name}/factor", np.empty(0))
    if not factor.shape:
        assert quantized.factor is not None
        assert_same_bits(quantized.factor, factor)
    else:
        assert quantized.factor is None


def turn(case: Case) -> dict[str, object]:
    """The arguments after the operand, but for the axis."""
    found = rotation(
        case.rht,
        seed=AT.seed,
        layer=AT.layer,
        gemm=AT.gemm,
        step=AT.step,
        microbatch=AT.microbatch,
    )
    return {"key": key(AT, case.word), "rotation": found, "precision": case.precision}


@pytest.mark.parametrize(("group", "case"), CASES)
def test_a_golden_vector_is_met_along_rows_and_down_columns(
    group: str, case: Case, quantize: FakeQuantize
) -> None:
    x = torch.from_numpy(stored("inputs")[case.source])
    found = quantize(x, case.operand, **turn(case))
    assert_case(found, found.values, case, group)
    # Down columns it is given in BF16 if BF16 holds it.
    narrow = x.to(torch.bfloat16)
    given = narrow if torch.equal(narrow.float().nan_to_num(), x.nan_to_num()) else x
    found = quantize(given.t().contiguous(), case.operand, axis=0, **turn(case))
    assert_case(found, found.values.t().contiguous(), case, group)


@pytest.mark.parametrize("group", GROUPS)
def test_the_script_makes_what_is_stored(group: str) -> None:
    kept = stored(group)
    names = {name.partition("/")[0] for name in kept}
    assert names <= {case.name for case in GROUPS[group]}, "run the script again"
    for case in [case for case in GROUPS[group] if case.name in names][::5]:
        for name, array in arrays(case).items():
            assert array.dtype == kept[name].dtype, name
            assert np.array_equal(array, kept[name], equal_nan=array.dtype != np.uint16), name
            assert np.array_equal(np.signbit(array), np.signbit(kept[name])), name


def test_the_inputs_are_what_the_script_makes() -> None:
    kept = stored("inputs")
    assert kept.keys() == inputs().keys()
    for name, x in inputs().items():
        assert_same_bits(torch.tensor(x, dtype=torch.float32), kept[name])


def test_stored_values_are_the_magnitudes_of_their_codes_times_their_scales() -> None:
    case = next(case for case in GROUPS["presets"] if case.name.startswith("nvfp4-fprop-x"))
    kept = {part: stored("presets")[f"{case.name}/{part}"] for part in ("codes", "scales")}
    assert case.operand.grid is not None
    codes = kept["codes"].astype(np.int64)
    grid = np.array(magnitudes(case.operand.grid), np.float32)
    scales = np.repeat(kept["scales"].reshape(5, 5), 16, axis=1)[:, :75].astype(np.float32)
    values = np.where(codes & SIGN, -1, 1) * grid[codes % SIGN] * scales
    assert np.array_equal(values, stored("presets")[f"{case.name}/values"])


@pytest.mark.parametrize(("counter", "words", "expected"), KNOWN_PHILOX)
def test_the_oracles_philox_has_the_published_answers(counter, words, expected) -> None:
    assert philox(counter, words) == expected


def exactly_rounded(exact: Fraction) -> float:
    """A rational to FP32 in one step."""
    if exact == 0:
        return 0.0
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    exponent -= abs(exact) < Fraction(2) ** exponent
    unit = Fraction(2) ** max(exponent - 23, -149)
    rounded = round(exact / unit) * unit
    return inf if rounded > LARGEST else -inf if rounded < -LARGEST else float(rounded)


@pytest.mark.parametrize("span", [5, 60, 149], ids=["near", "middle", "subnormal"])
def test_the_oracles_fp32_operations_round_once(span: int) -> None:
    generator = random.Random(3)

    def number() -> float:
        return f32(
            generator.choice((-1, 1)) * generator.random() * 2.0 ** generator.randint(-span, 20)
        )

    for _ in range(800):
        a, b = number(), number()
        for operate in (operator.add, operator.sub, operator.mul):
            assert f32(operate(a, b)) == exactly_rounded(operate(Fraction(a), Fraction(b)))
        if b:
            assert divide(a, b) == exactly_rounded(Fraction(a) / Fraction(b))


@pytest.mark.parametrize(
    ("rounded", "dtype", "most"),
    [(bf16, torch.bfloat16, inf), (fp16, torch.float16, inf), (e4m3, torch.float8_e4m3fn, 448)],
)
def test_the_oracles_narrow_types_are_torchs(rounded, dtype: torch.dtype, most: float) -> None:
    bits = torch.arange(-(2**31), 2**31, 2**31 // 7919)
    x = bits.to(torch.int32).view(torch.float32)
    x = x[~x.isnan()]
    expected = x.clamp(-most, most).to(dtype).float()
    assert_same_bits(torch.tensor([rounded(e) for e in x.tolist()]), expected.numpy())


def test_an_operand_without_a_grid_is_rounded_to_the_carrier_that_is_asked(
    quantize: FakeQuantize,
) -> None:
    x = torch.from_numpy(stored("inputs")["fine"]) * 9000
    turned = Rotation(signs(Signs.LAYER, AT, 16))
    found = quantize(x, Operand(), 1, rotation=turned, carrier=torch.float16)
    rows = [transform(row, turned.signs, to_bf16=False) for row in x.tolist()]
    assert any(isinf(fp16(element)) for row in rows for element in row)
    expected = [[fp16(element) for element in row] for row in rows]
    assert_same_bits(found.values, np.array(expected, np.float32))
    assert found.factor is None


@pytest.mark.parametrize("kind", Signs)
@pytest.mark.parametrize("size", RHT_SIZES)
def test_signs_are_the_bits_of_the_digest(kind: Signs, size: int) -> None:
    found = random_signs(
        kind,
        seed=AT.seed,
        layer=AT.layer,
        gemm=AT.gemm,
        step=AT.step,
        microbatch=AT.microbatch,
        size=size,
    )
    assert found == signs(kind, AT, size)


@pytest.mark.parametrize("operand", ["x", "w", "dy"])
def test_keys_are_the_digests_of_their_text(operand: str) -> None:
    found = stream_key(
        seed=AT.seed,
        step=AT.step,
        microbatch=AT.microbatch,
        layer=AT.layer,
        gemm=AT.gemm,
        operand=operand,
    )
    assert found == key(AT, operand)


def every_binade() -> NDArray[np.float32]:
    """Blocks of 32 whose maxima walk over all exponents and over the edges of significands."""
    generator = np.random.default_rng(5)
    fractions = np.array([0, 1, 2**19, 2**21 - 1, 2**21, 3 * 2**21 - 1, 3 * 2**21, 3 * 2**21 + 1])
    fractions = np.concatenate([fractions, [7 * 2**20, 15 * 2**19, 2**23 - 1]])
    exponents = np.arange(0, 253)
    maxima = (exponents[:, None] << 23 | fractions).astype(np.int32).view(np.float32)
    x = generator.uniform(-1, 1, (maxima.size, 32)).astype(np.float32) * maxima.reshape(-1, 1)
    x[:, 7] = maxima.ravel()
    return np.ascontiguousarray(x, np.float32)


def test_nvfp4_is_transformer_engines_chain(quantize: FakeQuantize) -> None:
    operand = Operand(grid=GRIDS["e2m1"], scale=Scale.E4M3)
    generator = np.random.default_rng(4)
    wide = np.exp2(generator.uniform(-24, 4, (64, 1)))
    for size in (1.0, 2.0**-140, 2.0**120, 0.0):
        x = (generator.standard_normal((64, 256)) * wide * size).astype(np.float32)
        values, factor = nvfp4(x)
        found = quantize(torch.from_numpy(x), operand, key=0)
        assert found.factor is not None
        assert_same_bits(found.values, values)
        assert_same_bits(found.factor, np.asarray(factor))


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("mode", ["floor", "ceil", "even", "rceil"])
def test_e8m0_scales_are_torchaos(mode: str, element: str, quantize: FakeQuantize) -> None:
    x = every_binade()
    operand = Operand(grid=GRIDS[element], scale=Scale(f"e8m0-{mode}"), block=Block(along=32))
    found = quantize(torch.from_numpy(x), operand, key=0)
    assert found.factor is None
    assert_same_bits(found.values, mxfp(x, mode, ELEMENTS[element]))


def test_the_golden_cases_reach_every_preset_that_quantizes() -> None:
    reached = {(case.operand, case.rht) for case in GROUPS["presets"]}
    for recipe in PRESETS.values():
        for gemm, _, operand in recipe.operands():
            assert operand.grid is None or (operand, getattr(recipe, gemm).rht) in reached
