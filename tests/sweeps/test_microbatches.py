from dataclasses import replace

import pytest

from kernels.presets import PRESETS
from sweeps import microbatches as rule
from sweeps.errors import InputError
from sweeps.microbatches import microbatch_sequences, microbatches
from sweeps.runspec import RunSpec
from tests.sweeps.made_runs import made_spec


def spec_of(
    *, context: int, sequences: int, named: int | None = None, pad: bool = False
) -> RunSpec:
    """A run whose wgrad has blocks of 16 tokens."""
    spec = made_spec()
    training = replace(
        spec.training, context=context, batch_tokens=context * sequences, microbatch_tokens=named
    )
    return replace(spec, recipe=replace(PRESETS["e2m1-ref"], pad=pad), training=training)


@pytest.mark.parametrize(
    ("pad", "context", "sequences", "expected"),
    [(False, 32, 8, 4), (True, 32, 8, 4), (False, 24, 4, 4), (True, 24, 4, 4), (True, 40, 9, 3),
     (False, 40, 9, 9)],
)  # fmt: skip
def test_a_batch_is_split_into_whole_blocks_where_it_can_be(
    monkeypatch, pad, context, sequences, expected
):
    monkeypatch.setattr(rule, "MICROBATCH_TOKENS", 128)
    spec = spec_of(context=context, sequences=sequences, pad=pad)
    assert spec.recipe.wgrad.block == 16
    assert microbatch_sequences(spec) == expected
    assert microbatches(spec) == sequences // expected


@pytest.mark.parametrize(("named", "expected"), [(32, 1), (64, 2), (128, 4), (256, 8)])
def test_a_named_part_is_taken_as_it_is(named, expected):
    spec = spec_of(context=32, sequences=8, named=named)
    assert microbatch_sequences(spec) == expected
    assert microbatches(spec) == 8 // expected


@pytest.mark.parametrize("named", [0, -32, 48, 96, 512])
def test_a_part_that_does_not_fit_is_refused_with_both_numbers(named):
    with pytest.raises(InputError) as caught:
        microbatch_sequences(spec_of(context=32, sequences=8, named=named))
    assert str(caught.value) == (
        f"training.microbatch_tokens = {named}: must be a multiple of training.context = 32 that "
        "divides training.batch_tokens = 256"
    )
