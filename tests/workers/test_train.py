import re
from dataclasses import replace
from itertools import islice

import pytest
import torch

from kernels.verdict import Preflight
from sweeps.errors import ConflictError, InputError
from sweeps.metrics import Diverged, StepMetrics
from tests.workers.tiny import (
    BATCH,
    after_preflight,
    curve,
    endpoints,
    run,
    start,
    tiny_spec,
    write_corpus,
)
from workers.train import train


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory):
    """A ufp4 run to two horizons in one go."""
    torch.set_num_threads(1)
    return run(tiny_spec(corpus, "ufp4"), [10, 20], tmp_path_factory.mktemp("whole") / "run")


def test_events_come_in_order_and_end_exactly_at_the_horizons(whole):
    assert [point.tokens for point in endpoints(whole)] == [10 * BATCH, 20 * BATCH]
    positions = [(e.horizon, e.step) for e in whole if isinstance(e, StepMetrics)]
    short, long = 10 * BATCH, 20 * BATCH
    assert positions == (
        [(None, step) for step in range(1, 9)]
        + [(short, 9), (short, 10)]
        + [(None, step) for step in range(9, 17)]
        + [(long, step) for step in range(17, 21)]
    )
    assert all(e.tokens == e.step * BATCH for e in whole if isinstance(e, StepMetrics))
    seconds = [e.seconds for e in whole if isinstance(e, StepMetrics)]
    assert seconds == sorted(seconds)
    assert whole[10] is endpoints(whole)[0]


def test_an_endpoint_has_the_losses_that_its_words_promise(whole, corpus):
    point = endpoints(whole)[1]
    assert point.eval_tokens == 512
    assert point.bytes_per_token == pytest.approx(1.0, abs=0.01)
    assert point.loss_se > 0
    assert 0 < abs(point.loss - point.loss_bf16) < 0.1
    last = curve(whole)[20 * BATCH, 20]
    assert point.train_loss == last.loss  # 5 % of 20 steps is the last one


def test_a_bf16_run_measures_the_same_both_ways(corpus, tmp_path):
    point = endpoints(run(tiny_spec(corpus), [2], tmp_path / "run"))[0]
    assert point.loss == point.loss_bf16


def test_training_again_repeats_every_number(whole, corpus, tmp_path):
    again = run(tiny_spec(corpus, "ufp4"), [10, 20], tmp_path / "run")
    assert endpoints(again) == endpoints(whole)
    assert curve(again) == curve(whole)


@pytest.mark.parametrize("stop_after", [1, 5, 9, 11, 17, 24])
def test_closing_and_going_on_repeats_the_uninterrupted_run(whole, corpus, tmp_path, stop_after):
    spec, folder = tiny_spec(corpus, "ufp4"), tmp_path / "run"
    events = start(spec, [10, 20], folder)
    before = after_preflight(islice(events, 1 + stop_after))
    events.close()
    after = run(spec, [10, 20], folder, attempt=2)
    assert len(before) + len(after) <= len(whole) + len(endpoints(before))  # nothing done twice
    assert {**curve(before), **curve(after)} == curve(whole)
    assert endpoints(after) == endpoints(whole)


def test_a_longer_horizon_later_equals_both_at_once(whole, corpus, tmp_path):
    spec, folder = tiny_spec(corpus, "ufp4"), tmp_path / "run"
    first = run(spec, [10], folder)
    second = run(spec, [10, 20], folder, attempt=2)
    assert second[0] == endpoints(first)[0] == endpoints(whole)[0]
    assert endpoints(second) == endpoints(whole)
    assert {**curve(first), **curve(second)} == curve(whole)
    assert (None, 8) not in curve(second)  # the trunk went on from its kept state


def test_a_shorter_horizon_later_equals_both_at_once(whole, corpus, tmp_path):
    spec, folder = tiny_spec(corpus, "ufp4"), tmp_path / "run"
    run(spec, [20], folder)
    assert endpoints(run(spec, [10, 20], folder, attempt=2))[::-1] == endpoints(whole)


def test_what_is_measured_is_told_again_and_not_trained_again(whole, corpus, tmp_path):
    spec, folder = tiny_spec(corpus, "ufp4"), tmp_path / "run"
    run(spec, [10], folder)
    assert run(spec, [10], folder, attempt=2) == endpoints(whole)[:1]
    no_corpus = replace(spec, corpus=replace(spec.corpus, path="/nowhere"))
    assert run(no_corpus, [10], folder, attempt=3) == endpoints(whole)[:1]


def test_a_clock_adds_reports_and_changes_none(whole, corpus, tmp_path):
    """Every step of a run this short is scheduled, so that no report may be added or changed."""
    spec, folder = tiny_spec(corpus, "ufp4"), tmp_path / "run"
    hasty = start(spec, [10, 20], folder, report_every_seconds=0, checkpoint_every_seconds=0)
    assert curve(list(hasty)) == curve(whole)


def test_seconds_count_over_attempts(corpus, tmp_path):
    spec, folder = tiny_spec(corpus), tmp_path / "run"
    first = [event for event in run(spec, [10], folder) if isinstance(event, StepMetrics)]
    second = [
        event for event in run(spec, [20], folder, attempt=2) if isinstance(event, StepMetrics)
    ]
    assert second[0].seconds > first[-1].seconds > 0


@pytest.mark.parametrize("rate", [1e9, float("inf")])
def test_a_run_that_explodes_is_diverged_and_nothing_else(corpus, tmp_path, rate):
    spec = tiny_spec(corpus, "ufp4", learning_rate=rate, warmup_tokens=0)
    *before, last = run(spec, [100], tmp_path / "run")
    assert isinstance(last, Diverged)
    assert all(isinstance(event, StepMetrics) for event in before)
    assert (last.horizon, last.tokens) == (None, last.step * BATCH)
    assert last.step == len(before) + 1
    assert re.fullmatch(
        rf"(training loss|gradient norm) became \w+ at step {last.step}: .* is not finite",
        last.detail,
    )


def test_an_older_attempt_stops_when_a_newer_one_begins(corpus, tmp_path):
    spec, folder = tiny_spec(corpus), tmp_path / "run"
    old = start(spec, [8], folder)
    assert isinstance(next(old), Preflight)
    next(old)
    new = run(spec, [8], folder, attempt=2)
    with pytest.raises(ConflictError, match=r"attempt 1 of run .* is superseded by attempt 2"):
        list(old)
    assert run(spec, [8], folder, attempt=3) == endpoints(new)


@pytest.mark.parametrize("horizon", [0, -BATCH, BATCH + 1])
def test_a_horizon_off_the_steps_is_refused(corpus, tmp_path, horizon):
    with pytest.raises(InputError, match=f"horizon = {horizon}: must be a positive multiple of"):
        next(train(tiny_spec(corpus), [horizon], tmp_path, cache=tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_microbatches_sum_to_the_batch_and_have_random_streams_of_their_own(corpus, tmp_path):
    def loss(recipe: str, **training: int) -> float:
        spec = tiny_spec(corpus, recipe, **training)
        return endpoints(run(spec, [3], tmp_path / f"{recipe} {training}"))[0].loss

    whole = {recipe: loss(recipe) for recipe in ("bf16", "ufp4")}
    parts = {recipe: loss(recipe, microbatch_tokens=BATCH // 4) for recipe in ("bf16", "ufp4")}
    assert parts["bf16"] == pytest.approx(whole["bf16"], rel=1e-5)
    assert parts["ufp4"] == pytest.approx(whole["ufp4"], rel=1e-2)
    assert parts["ufp4"] != whole["ufp4"]


def test_a_microbatch_that_does_not_divide_the_batch_is_refused_before_anything(corpus, tmp_path):
    spec = tiny_spec(corpus, microbatch_tokens=96)
    with pytest.raises(InputError, match=r"training\.microbatch_tokens = 96: must be a m"):
        next(start(spec, [3], tmp_path / "run"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_tiny_corpus_is_learnt_by_heart(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(12):
        (folder / f"{number}.txt").write_text(f"{number}: the quick brown fox jumps. " * 8)
    spec = tiny_spec(folder, learning_rate=0.02, max_epochs=16)
    events = run(
        replace(spec, evaluation=replace(spec.evaluation, tokens=64)), [150], tmp_path / "run"
    )
    assert endpoints(events)[0].train_loss < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["bf16", "ufp4"])
def test_real_text_is_learnt_beyond_its_unigrams(corpus, tmp_path, recipe):
    point = endpoints(run(tiny_spec(corpus, recipe, learning_rate=0.02), [60], tmp_path / "run"))[0]
    assert point.loss < point.unigram_entropy - 0.5
