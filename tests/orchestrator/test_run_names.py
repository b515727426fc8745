"""Which run a word names."""

from dataclasses import replace

import pytest

from orchestrator.run_names import named_run
from sweeps.errors import InputError, NotFoundError
from tests.orchestrator.values import START, plan_of


@pytest.fixture
def runs(store):
    return store.runs(store.submit(plan_of(seeds=(0, 1)), START).sweep_id)


def test_a_run_is_named_by_its_id_its_label_and_the_start_of_its_id(runs):
    for run in runs:
        for word in (run.run_id, run.spec.label, run.run_id[:12]):
            assert named_run([*runs, *runs], word) == run


def test_a_word_that_names_none_is_not_found(runs):
    for word in ("", "feed" * 4, runs[0].spec.label + "0"):
        with pytest.raises(NotFoundError, match=f"there is no run '{word}'; `gridlaw show SWEEP`"):
            named_run(runs, word)


def test_a_word_that_names_several_is_refused_with_their_ids(runs):
    one, two, *_ = runs
    twins = [one, replace(two, spec=one.spec), replace(two, run_id=one.run_id[:8] + "00000000")]
    with pytest.raises(InputError, match=f"may be any of {one.run_id} .*, {two.run_id} .*give the"):
        named_run(twins[:2], one.spec.label)
    with pytest.raises(InputError, match="may be any of"):
        named_run(twins, one.run_id[:8])


def test_an_id_in_full_is_never_in_doubt(runs):
    one, two, *_ = runs
    short = replace(two, run_id=one.run_id[:8])
    assert named_run([one, short], short.run_id) == short
