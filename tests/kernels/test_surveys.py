"""The survey against published simulations of the same distributions.

Tensors agree within 0.1 dB and 0.001. Products are published for one draw each, so they are held to
that or to what one draw scatters by, whichever is larger.
"""

import pytest
import torch

from kernels.quality import Survey, Surveyed
from kernels.surveys import product_rows, survey, tensor_rows
from kernels.synthetic import DISTRIBUTIONS

pytestmark = pytest.mark.slow

# data: without and with an RHT of 16 under E2M1, then under the uniform grid; dB.
TENSORS = {
    "gaussian": (20.53, 20.53, 21.39, 21.39),
    "laplace": (20.80, 20.43, 19.91, 21.71),
    "student-t3": (21.09, 20.21, 18.98, 22.33),
    "swiglu": (21.13, 20.05, 18.69, 22.74),
    "channels": (21.23, 18.85, 18.64, 25.13),
    "entries": (28.64, 23.58, 28.39, 26.99),
}
GAINS = {
    ("gaussian", "e2m1", None): 0.9959,
    ("gaussian", "e2m1", 16): 0.9959,
    ("gaussian", "int4", None): 1.0006,
    ("gaussian", "int4", 16): 1.0006,
    ("channels", "e2m1", 16): 1.0068,
    ("entries", "e2m1", 16): 1.042,
    ("entries", "int4", 16): 1.017,
}
UTILISATION = {
    ("gaussian", "e2m1", None): 0.994,
    ("gaussian", "int4", None): 0.892,
    ("swiglu", "int4", None): 0.518,
    ("swiglu", "int4", 16): 0.962,
}
# What is published as a ceil rule rounds amax / maximum up, which is e8m0-rceil here.
SCALES = {
    ("e2m1", "1x16", "fp32"): 20.53,
    ("e2m1", "1x16", "e8m0-floor"): 18.58,
    ("e2m1", "1x16", "e8m0-even"): 19.16,
    ("e2m1", "1x16", "e8m0-rceil"): 18.96,
    ("e2m1", "1x32", "fp32"): 19.90,
    ("e2m1", "1x32", "e8m0-floor"): 18.79,
    ("e2m1", "1x32", "e8m0-even"): 19.03,
    ("e2m1", "1x32", "e8m0-rceil"): 18.76,
    ("int4", "1x16", "fp32"): 21.39,
    ("int4", "1x16", "e8m0-floor"): 18.63,
    ("int4", "1x16", "e8m0-even"): 17.64,
    ("int4", "1x16", "e8m0-rceil"): 17.64,
    ("int4", "1x32", "fp32"): 20.26,
    ("int4", "1x32", "e8m0-floor"): 17.56,
    ("int4", "1x32", "e8m0-even"): 16.84,
    ("int4", "1x32", "e8m0-rceil"): 16.84,
    # Not published; simulated apart from this project's quantizers.
    ("e2m1", "1x16", "e8m0-ceil"): 17.46,
    ("e2m1", "1x32", "e8m0-ceil"): 16.82,
    ("int4", "1x16", "e8m0-ceil"): 12.70,
    ("int4", "1x32", "e8m0-ceil"): 11.57,
}
# (data, rht): SQNR and output gain under E2M1 with FP32 and E4M3 scales, then the uniform grid.
PRODUCTS = {
    ("gaussian", None): ((17.47, 0.9917), (17.45, 0.9914), (18.39, 1.0011), (18.27, 1.0006)),
    ("swiglu", None): ((17.81, 0.9951), (17.63, 0.9937), (16.80, 0.9988), (16.67, 0.9977)),
    ("swiglu", 16): ((17.28, 0.9929), (17.20, 0.9921), (18.96, 1.0012), (18.87, 1.0003)),
    ("channels", None): ((17.79, 0.9942), (17.63, 0.9923), (16.78, 0.9945), (16.60, 0.9953)),
    ("channels", 16): ((16.60, 1.0049), (16.59, 1.0041), (19.76, 1.0018), (19.66, 1.0006)),
}
ROUGH: dict[tuple[str, str, int | None], float] = {("entries", "e2m1", None): 0.15}
"""Held less closely: pairs of such entries in a block are rare, and a draw scatters by 0.05 dB."""


@pytest.fixture(scope="module")
def found() -> Survey:
    return survey(1 << 21)


def spread(found: Survey) -> dict[tuple[str, str, int | None], Surveyed]:
    """What each distribution gives under 1x16 blocks, an FP32 scale and RTNE."""
    return {
        (row.data, row.format, row.rht): row
        for row in found.tensors
        if (row.block, row.scale, row.rounding) == ("1x16", "fp32", "rtne")
    }


def test_sqnr_of_each_distribution_without_and_with_the_transform(found: Survey) -> None:
    measured = spread(found)
    columns = [("e2m1", None), ("e2m1", 16), ("int4", None), ("int4", 16)]
    for data, published in TENSORS.items():
        for (grid, rht), sqnr in zip(columns, published, strict=True):
            row = measured[data, grid, rht]
            tolerance = ROUGH.get((data, grid, rht), 0.1)
            assert row.quality.sqnr == pytest.approx(sqnr, abs=tolerance), row


def test_gains_and_bucket_utilisation(found: Survey) -> None:
    measured = spread(found)
    for case, gain in GAINS.items():
        assert measured[case].quality.gain == pytest.approx(gain, abs=0.001), case
    for case, utilisation in UTILISATION.items():
        assert measured[case].quality.utilisation == pytest.approx(utilisation, abs=0.001), case


def test_a_transform_changes_nothing_on_gaussian_blocks_and_turns_the_grids_over_on_others(
    found: Survey,
) -> None:
    sqnr = {case: row.quality.sqnr or 0.0 for case, row in spread(found).items()}
    assert sqnr["gaussian", "int4", 16] == pytest.approx(sqnr["gaussian", "int4", None], abs=0.03)
    for data in ("laplace", "student-t3", "swiglu", "channels"):
        assert sqnr[data, "e2m1", None] > sqnr[data, "int4", None]
        assert sqnr[data, "e2m1", 16] < sqnr[data, "int4", 16]


def test_sqnr_under_each_kind_of_scale(found: Survey) -> None:
    measured = {
        (row.format, row.block, row.scale): row.quality
        for row in found.tensors
        if row.data == "gaussian" and row.rht is None and row.rounding == "rtne"
    }
    for case, sqnr in SCALES.items():
        assert measured[case].sqnr == pytest.approx(sqnr, abs=0.1), case
    assert measured["e2m1", "1x16", "e8m0-floor"].gain == pytest.approx(0.972, abs=0.001)
    assert measured["e3m0", "1x16", "fp32"].sqnr == pytest.approx(15.49, abs=0.1)
    assert measured["e3m0", "1x16", "fp32"].gain == pytest.approx(0.9866, abs=0.001)


def test_stochastic_rounding_costs_three_decibels_and_no_gain(found: Survey) -> None:
    drawn = {row.format: row.quality for row in found.tensors if row.rounding == "sr"}
    for grid, sqnr in {"e2m1": 17.49, "int4": 18.38}.items():
        assert drawn[grid].sqnr == pytest.approx(sqnr, abs=0.1)
        assert drawn[grid].gain == pytest.approx(1.0, abs=0.0005)


def test_products_with_gaussian_weights(found: Survey) -> None:
    measured = {(row.data, row.rht, row.format, row.scale): row for row in found.products}
    columns = [(grid, scale) for grid in ("e2m1", "int4") for scale in ("fp32", "e4m3")]
    for (data, rht), published in PRODUCTS.items():
        for (grid, scale), (sqnr, gain) in zip(columns, published, strict=True):
            row = measured[data, rht, grid, scale]
            assert row.sqnr == pytest.approx(sqnr, abs=max(0.1, 3 * row.sqnr_sd)), row
            assert row.gain == pytest.approx(gain, abs=max(0.001, 3 * row.gain_sd)), row


def test_products_but_for_outliers_need_no_allowance_for_chance(found: Survey) -> None:
    smooth = [row for row in found.products if row.data != "channels"]
    assert all(row.sqnr_sd < 0.06 and row.gain_sd < 0.001 for row in smooth)


def test_the_same_survey_gives_the_same_numbers(found: Survey) -> None:
    again = [row for data in DISTRIBUTIONS for row in tensor_rows(data, 1 << 16)]
    assert again == [row for data in DISTRIBUTIONS for row in tensor_rows(data, 1 << 16)]
    assert [(row.data, row.format) for row in again] == [
        (row.data, row.format) for row in found.tensors
    ]
    assert list(product_rows("channels", 2)) == list(product_rows("channels", 2))


@pytest.mark.parametrize("data", DISTRIBUTIONS)
def test_a_distribution_is_symmetric_and_of_the_shape_that_was_asked_for(data: str) -> None:
    x = DISTRIBUTIONS[data](256, 1024, torch.Generator().manual_seed(1))
    assert x.shape == (256, 1024)
    assert x.dtype is torch.float32
    assert bool(x.isfinite().all())
    assert abs(float((x > 0).double().mean()) - 0.5) < 0.004


def test_outliers_are_as_many_and_as_large_as_said() -> None:
    generator = torch.Generator().manual_seed(2)
    channels = DISTRIBUTIONS["channels"](4096, 1024, generator)
    spread = channels.double().std(0)
    assert int((spread > 10).sum()) == 20
    assert float(spread[spread > 10].mean()) == pytest.approx(20, rel=0.02)
    entries = DISTRIBUTIONS["entries"](4096, 1024, generator)
    share = float((entries.abs() > 8).double().mean())
    assert share == pytest.approx(0.005 * 0.936, rel=0.05)  # P(|N(0, 1)| > 0.08) = 0.936
