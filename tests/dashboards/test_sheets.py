from dataclasses import replace
from math import log, nan

import pytest

from dashboards.how_run import models_sheet, recipes_used_sheet, settings_sheets
from dashboards.repeats_sheet import repeats_sheet
from dashboards.sheets import (
    Sheet,
    cells_sheet,
    fits_sheet,
    not_beaten_sheet,
    recipes_sheet,
    runs_sheet,
    unpaired_sheet,
)
from dashboards.wording import MISSING, interval, nats, scientific
from kernels.formats import INT4
from kernels.presets import PRESETS, compose
from kernels.recipes import BF16_RECIPE, NUMERICS_VERSION, Precision, Rule
from sweeps.answer import answer
from sweeps.gaps.pair import pair
from sweeps.shapes import Experts
from tests.dashboards.records import BUDGETS, diverged, finished, sweep

UFP4 = PRESETS["ufp4"]


def column(sheet: Sheet, head: str) -> list[str]:
    return [row[sheet.columns.index(head)] for row in sheet.rows]


@pytest.fixture(scope="module")
def found():
    return answer((*sweep(models=["tiny", "small"]), diverged(PRESETS["e4m3"])), resamples=100)


def test_every_row_is_as_long_as_the_heads(found):
    for sheet in (
        recipes_sheet(found.gaps.summaries),
        cells_sheet(found),
        fits_sheet(found.fits),
        not_beaten_sheet(found.gaps.gaps),
        unpaired_sheet(found.gaps.unpaired),
        runs_sheet(found.records),
        recipes_used_sheet(found.records),
        models_sheet(found.records),
        *settings_sheets(found.records),
    ):
        assert sheet.rows
        assert {len(row) for row in sheet.rows} == {len(sheet.columns)}
        assert sheet.csv.count("\r\n") >= len(sheet.rows) + 1


def test_a_recipe_says_what_its_interval_is_over_and_where_its_gap_lies_beside_the_margin():
    for seeds, over in (((0,), "models"), ((0, 1, 2), "seeds")):
        summaries = pair(sweep(seeds=seeds), margin=0.5).summaries
        sheet = recipes_sheet(summaries)
        assert set(column(sheet, "Over")) == {over}
        assert set(column(sheet, "Beside the margin")) == {"within 0.5"}
        assert column(sheet, "#95 % interval") == [
            interval(summary.low, summary.high) for summary in summaries
        ]


def test_repeated_seeds_are_told_with_their_noise_and_what_more_would_show():
    summaries = pair(sweep(seeds=(0, 1, 2))).summaries
    sheet = repeats_sheet(summaries)
    assert {len(row) for row in sheet.rows} == {len(sheet.columns)}
    for row, summary in zip(sheet.rows, summaries, strict=True):
        told = dict(zip(sheet.columns, row, strict=True))
        assert summary.noise is not None
        assert summary.certainty is not None
        assert told["#Pair s.d."] == nats(summary.noise.pair_sd)
        assert told["#Detects"] == nats(summary.certainty.detectable)
        assert told["#Seeds"] == "3"
        assert (told["#Runs"], told["#Degrees"]) == ("9", "6")
    assert repeats_sheet(pair(sweep()).summaries).rows == ()


def test_every_planned_endpoint_has_a_row(found):
    sheet = cells_sheet(found)
    assert len(sheet.rows) == sum(len(record.horizons) for record in found.records)
    assert column(sheet, "Outcome").count("diverged") == len(BUDGETS)
    assert column(sheet, "#Gap").count("baseline") == 2 * len(BUDGETS)


def test_bits_per_byte_are_nats_over_ln_2_and_bytes_per_token():
    record = finished()
    ends = tuple(replace(end, loss=3.0, bytes_per_token=2.5) for end in record.endpoints)
    sheet = cells_sheet(answer([replace(record, endpoints=ends)]))
    assert column(sheet, "#Bits per byte")[0] == f"{3.0 / log(2) / 2.5:.4f}"
    unknown = tuple(replace(end, bytes_per_token=None) for end in record.endpoints)
    sheet = cells_sheet(answer([replace(record, endpoints=unknown)]))
    assert set(column(sheet, "#Bits per byte")) == {MISSING}


def test_a_loss_that_is_not_finite_is_shown_as_such():
    record = finished()
    ends = (replace(record.endpoints[0], loss=nan), record.endpoints[1])
    sheet = cells_sheet(answer([replace(record, endpoints=ends)]))
    assert column(sheet, "#Loss ± s.e.")[0].startswith("not finite")
    assert column(sheet, "#Bits per byte")[0] == "not finite"


def test_constants_that_are_not_identified_share_a_row_with_the_reason(found):
    sheet = fits_sheet([found.fits[0]])
    notes = column(sheet, "What it means")
    assert notes[0].startswith("not identified: ")
    assert column(sheet, "Constant")[0] == "E, A, B, alpha, beta"


def test_the_operands_of_every_gemm_are_listed():
    exempt = replace(UFP4, rules=(Rule(pattern="blocks.0.*", quantize=False),))
    sheet = recipes_used_sheet([finished(exempt), finished(BF16_RECIPE)])
    assert sheet.rows[0] == ("bf16", "fprop", "x · w", "bf16", "bf16", "–", "none", "–")
    assert sheet.rows[5] == (
        "ufp4",
        "wgrad",
        "dy · x",
        "int4, 1×16 fp32, SR",
        "int4, 1×16 fp32, RTNE",
        "16 × 16, signs by layer and GEMM",
        "blocks.0.*: bf16",
        "–",
    )


def test_what_is_unusual_about_an_operand_is_said():
    presets = ["nvfp4", "quartet2", "tetrajet2", "fp8-tensor", "int8", "fp16"]
    sheet = recipes_used_sheet([finished(PRESETS[name]) for name in presets])
    rows = {(row[0], row[1]): row[3:] for row in sheet.rows}
    first_and_last = "first 0.032 of the blocks: bf16; last 0.13 of the blocks: bf16"
    assert rows["nvfp4", "fprop"] == (
        *("e2m1, 1×16 e4m3, RTNE", "e2m1, 16×16 e4m3, RTNE", "–", first_and_last, "–"),
    )
    assert rows["nvfp4", "wgrad"][0] == "e2m1, 1×16 e4m3, SR"
    assert rows["nvfp4", "wgrad"][2] == "16 × 16, fixed signs, to BF16"
    assert rows["quartet2", "fprop"][0] == (
        "e2m1, 1×16 e4m3, RTNE, maximum onto 6 or 4, scales up to 256"
    )
    assert rows["quartet2", "dgrad"][1:] == (
        "e2m1, 1×16 e4m3, EDEN, headroom 0.988125, scales up to 256, from fprop’s values",
        *("128 × 128, signs by step", "none", "tails padded"),
    )
    assert rows["tetrajet2", "fprop"][0] == "e2m1, 1×16 e4m3, RTNE, FP32 scale by 1×128"
    assert rows["fp8-tensor", "dgrad"][:2] == ("e5m2, tensor fp32, RTNE", "e4m3, tensor fp32, RTNE")
    assert rows["int8", "fprop"][:2] == ("int8, row fp32, RTNE", "int8, tensor fp32, RTNE")
    assert rows["fp16", "fprop"] == (
        *("fp16", "fp16", "–", "none", "dynamic loss scaling from 65,536"),
    )


@pytest.mark.parametrize("gemm", Precision)
def test_a_precision_of_products_that_rounds_is_said(gemm):
    rows = recipes_used_sheet([finished(replace(PRESETS["quartet2"], gemm=gemm))]).rows
    said = "tails padded"
    if gemm is not Precision.FP32:
        said += f"; operands rounded to {gemm} for the product"
    assert {row[-1] for row in rows} == {said}


def test_draws_that_are_not_the_usual_ones_are_said():
    rare = compose(INT4, name="rare", sr=["dy"], random_bits=16, half_offset=False)
    rows = recipes_used_sheet([finished(rare)]).rows
    assert rows[1][3] == "int4, 1×16 fp32, SR of 16 bits without half-offset"


def test_the_settings_name_every_field_of_the_training():
    (sheet,) = settings_sheets(sweep())
    settings = {row[0]: row[1] for row in sheet.rows}
    assert settings["Learning rate"] == "0.004"
    assert settings["Batch tokens"] == "8,192"
    assert settings["Corpus fingerprint"] == finished().spec.corpus.fingerprint
    assert settings["Numerics version"] == str(NUMERICS_VERSION)
    assert sheet.caption.endswith("of all runs.")


def test_runs_with_other_settings_have_a_sheet_of_their_own():
    one, other = finished(model="tiny"), finished(model="small")
    faster = replace(other.spec, training=replace(other.spec.training, learning_rate=0.01))
    sheets = settings_sheets([one, replace(other, spec=faster)])
    assert [sheet.caption.split("of ")[-1] for sheet in sheets] == ["tiny.", "small."]


def test_a_run_is_listed_with_its_identity_and_seeds():
    record = finished(UFP4, seed=3)
    (row,) = runs_sheet([record]).rows
    assert row[0] == record.run_id
    assert "3 / 3 / 3 / 3" in row


def test_a_mixture_of_experts_is_told_with_its_experts_and_6_n_of_what_a_token_passes():
    experts = Experts(count=8, active=2, width=32, shared_width=16, dense_layers=1)
    dense = finished()
    shape = replace(dense.spec.model, name="mixed", experts=experts, num_kv_heads=1)
    record = replace(dense, spec=replace(dense.spec, model=shape))
    sheet = models_sheet([dense, record])
    rows = dict(zip(column(sheet, "Model"), sheet.rows, strict=True))
    told = dict(zip(sheet.columns, rows["mixed"], strict=True))
    assert told["Experts"] == "8 of width 32, 2 a token by sigmoid, 16 shared, from block 1"
    assert told["#KV heads"] == "1"
    d, head = shape.width, shape.head_width
    attention = 2 * d * d + 2 * d * head
    mixed = 3 * d * (2 * 32 + 16) + 8 * d
    dense_mlp = 3 * d * shape.mlp_width
    norms = 2 * (d + head) * shape.num_layers + d
    active = attention * shape.num_layers + dense_mlp + mixed * (shape.num_layers - 1) + norms
    assert told["#6 N"] == scientific(6.0 * active)
    assert dict(zip(sheet.columns, rows["small"], strict=True))["Experts"] == MISSING
