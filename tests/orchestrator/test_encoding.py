import json
import struct
import zlib
from dataclasses import astuple, replace

import pytest
from hypothesis import given, strategies as st

from kernels.presets import PRESETS
from kernels.recipes import Precision, Rule
from kernels.verdict import Preflight
from orchestrator.encoding import (
    NUM_COLUMNS,
    pack,
    pack_layers,
    preflight_from_text,
    preflight_to_text,
    run_from_text,
    run_to_text,
    unpack,
    unpack_layers,
)
from sweeps.metrics import StepMetrics
from tests.orchestrator.values import diagnosis, plan_of, preflight

COUNT = st.integers(0, 2**62)
REAL = st.floats(allow_nan=True, allow_infinity=True)
NUMBER_OR_NONE = st.none() | st.floats(allow_nan=False)


@st.composite
def points(draw):
    return StepMetrics(
        horizon=None,
        step=draw(COUNT),
        tokens=draw(COUNT),
        loss=draw(REAL),
        learning_rate=draw(REAL),
        gradient_norm=draw(REAL),
        tokens_per_second=draw(REAL),
        seconds=draw(REAL),
        update_ratio=draw(NUMBER_OR_NONE),
        mfu=draw(NUMBER_OR_NONE),
        memory_bytes=draw(st.none() | st.integers(0, 2**53)),
        imbalance=draw(NUMBER_OR_NONE),
    )


@given(st.lists(points(), max_size=20), st.none() | COUNT)
def test_packed_points_come_back_exactly_nan_and_infinities_included(batch, horizon):
    batch = [replace(point, horizon=horizon) for point in batch]
    found = unpack(pack(batch), horizon, NUM_COLUMNS)
    assert [list(map(repr, astuple(point))) for point in found] == [
        list(map(repr, astuple(point))) for point in batch
    ]


def test_points_that_were_stored_before_there_were_eleven_columns_lack_the_rest():
    integers, reals = (
        (7, 9, 1792, 2304),
        (2.5, 2.25, 0.01, 0.009, 1.5, 1.25, 900.0, 950.0, 3.0, 4.0),
    )
    (first, second) = unpack(zlib.compress(struct.pack("<4q10d", *integers, *reals)), 4096, 7)
    assert first == StepMetrics(
        horizon=4096,
        step=7,
        tokens=1792,
        loss=2.5,
        learning_rate=0.01,
        gradient_norm=1.5,
        tokens_per_second=900.0,
        seconds=3.0,
    )
    assert (second.step, second.tokens, second.loss, second.seconds) == (9, 2304, 2.25, 4.0)
    assert (second.mfu, second.memory_bytes) == (None, None)


def test_a_spec_comes_back_equal_for_every_preset():
    base = plan_of().runs[0].spec
    for recipe in PRESETS.values():
        ruled = replace(recipe, rules=(Rule(pattern="blocks.0.*", quantize=False),))
        spec = replace(base, recipe=ruled)
        found = run_from_text(run_to_text(spec))
        assert found == spec
        assert found.run_id == spec.run_id


def test_a_spec_that_was_stored_before_products_had_a_precision_means_fp32():
    spec = plan_of().runs[-1].spec
    told = json.loads(run_to_text(spec))
    assert told["recipe"].pop("gemm") == "fp32"
    found = run_from_text(json.dumps(told))
    assert found == spec
    assert found.run_id == spec.run_id


@pytest.mark.parametrize("gemm", Precision)
def test_the_precision_of_products_comes_back(gemm):
    spec = plan_of().runs[-1].spec
    spec = replace(spec, recipe=replace(spec.recipe, gemm=gemm))
    found = run_from_text(run_to_text(spec))
    assert found.recipe.gemm is gemm
    assert found.run_id == spec.run_id


@given(st.floats(min_value=1e-8, max_value=1e2))
def test_a_learning_rate_survives_to_the_last_bit(rate):
    base = plan_of().runs[0].spec
    spec = replace(base, training=replace(base.training, learning_rate=rate))
    assert run_from_text(run_to_text(spec)).run_id == spec.run_id


@given(REAL)
def test_layers_come_back_exactly_nan_infinities_and_absences_included(sqnr):
    for layers in (diagnosis(1024, sqnr=sqnr).layers, diagnosis(1024, sqnr=None).layers, ()):
        assert repr(unpack_layers(pack_layers(layers))) == repr(layers)


@given(st.text(), st.booleans(), st.floats(min_value=0, max_value=1e9))
def test_a_preflight_comes_back_equal_whatever_its_sentences(text, passed, seconds):
    check = replace(preflight().checks[0], passed=passed, detail=text)
    found = Preflight(device=text, seconds=seconds, checks=(check,))
    assert preflight_from_text(preflight_to_text(found)) == found
