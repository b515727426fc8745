"""The part of a GPU that a run is given."""

from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from kernels.presets import PRESETS
from sweeps.memory import estimate
from sweeps.runspec import Evaluation, Resources, RunSpec
from sweeps.shapes import ModelShape
from sweeps.sources import CorpusKind, CorpusRef, TokenizerRef
from sweeps.training import Training
from workers.packing import CONTEXT_BYTES, PARTS, share_of, tensor_fraction

H200 = 143771 * 2**20


def spec(width: int = 64, *, pack: bool = True, gpus: int = 1) -> RunSpec:
    return RunSpec(
        model=ModelShape(name="m", num_layers=4, width=width, num_heads=2, mlp_width=4 * width),
        recipe=PRESETS["ufp4"],
        corpus=CorpusRef(
            name="stdlib",
            kind=CorpusKind.STDLIB,
            fingerprint="0" * 16,
            num_bytes=10**9,
            num_documents=10**5,
        ),
        tokenizer=TokenizerRef(),
        training=Training(context=128, batch_tokens=32768, learning_rate=0.01, warmup_tokens=32768),
        evaluation=Evaluation(held_out=0.1, tokens=1024),
        resources=Resources(gpus=gpus, pack=pack),
    )


def test_a_small_run_takes_an_eighth_and_a_larger_one_more():
    shares = [share_of(spec(width), H200) for width in (64, 4096, 8192)]
    assert shares == [0.125, 0.5, 1.0]


@pytest.mark.parametrize(
    ("run", "gpu_bytes", "share"),
    [
        (spec(pack=False), H200, 1.0),
        (spec(), None, 1.0),
        (spec(gpus=4), H200, 4.0),
        (spec(gpus=4, pack=False), None, 4.0),
    ],
)
def test_a_gpu_is_shared_only_where_it_may_be_and_its_memory_is_known(run, gpu_bytes, share):
    assert share_of(run, gpu_bytes) == share


def test_what_fits_nowhere_takes_a_whole_gpu_where_its_training_is_refused():
    assert share_of(spec(width=8192), 2**30) == 1.0


@settings(max_examples=60, deadline=None)
@given(width=st.sampled_from([32, 128, 512, 1024, 2048]), gib=st.integers(4, 192))
def test_a_part_holds_the_run_and_no_smaller_part_would(width, gib):
    run, memory = spec(width), gib * 2**30
    needed = estimate(run).total_bytes

    def holds(parts: int) -> bool:
        return bool(needed <= 0.9 * (memory // parts - CONTEXT_BYTES))

    share = share_of(run, memory)
    parts = round(1 / share)
    assert parts in PARTS
    assert share * parts == 1.0
    assert parts == 1 or holds(parts)
    assert not any(holds(more) for more in PARTS if more > parts)


@given(share=st.sampled_from([1 / parts for parts in PARTS]), gib=st.integers(1, 192))
def test_the_tensors_and_contexts_of_all_parts_fit_on_the_gpu_together(share, gib):
    memory = gib * 2**30
    fraction = tensor_fraction(share, memory)
    assert 0 <= fraction < 1
    if fraction:
        assert (fraction * memory + CONTEXT_BYTES) / share == pytest.approx(memory)


def test_sharing_is_no_part_of_what_a_run_is():
    alone, packed = spec(pack=False), spec()
    assert alone.run_id == packed.run_id == replace(alone, resources=Resources(gpus=8)).run_id
