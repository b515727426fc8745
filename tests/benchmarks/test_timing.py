"""Timing in turn: ratios that mean what they say, whatever else the machine does."""

import gc
from collections.abc import Callable
from math import comb

import pytest
import torch

from benchmarks.timing import compare, cpu_threads, spread

CPU = torch.device("cpu")
CALIBRATION = 1
"""Calls of a callable before its first round, where a call is a batch."""


def busy(loops: int) -> Callable[[], object]:
    def call() -> None:
        for _ in range(loops):
            pass

    return call


def test_the_same_work_has_a_ratio_near_one_and_twice_the_work_one_near_two() -> None:
    comparison = compare(
        {"one": busy(2000), "again": busy(2000), "two": busy(4000)},
        baseline="one",
        rounds=101,
        min_seconds=0.0002,
        device=CPU,
    )
    assert comparison.ratio("one").median == 1
    assert 0.8 < comparison.ratio("again").median < 1.25
    assert 1.6 < comparison.ratio("two").median < 2.5
    assert 1.6 < comparison.ratio("two", to="again").median < 2.5
    assert 0.6 < comparison.added("two", to="again").median < 1.5
    assert comparison.added("one", to="one").median == 0


def test_a_disturbed_round_does_not_move_the_median_of_the_ratios() -> None:
    calls = 0
    short, long = busy(2000), busy(1_000_000)

    def disturbed() -> None:
        nonlocal calls
        calls += 1
        (long if calls == CALIBRATION + 4 else short)()

    comparison = compare(
        {"one": short, "disturbed": disturbed},
        baseline="one",
        rounds=31,
        min_seconds=0.0,
        device=CPU,
    )
    assert max(comparison.by_round["disturbed"]) > 10 * comparison.seconds("one").median
    assert 0.7 < comparison.ratio("disturbed").median < 1.5


def test_a_batch_takes_the_least_time_and_a_longer_call_is_one_by_itself() -> None:
    comparison = compare(
        {"short": busy(100), "long": busy(1_000_000)},
        baseline="short",
        rounds=1,
        min_seconds=0.002,
        device=CPU,
    )
    assert comparison.calls["long"] == 1
    assert comparison.calls["short"] > 10
    assert comparison.calls["short"] * comparison.seconds("short").median > 0.001


def test_each_round_times_every_callable_once_and_begins_with_another() -> None:
    names, order = "abcde", []
    callables = {name: (lambda name=name: order.append(name)) for name in names}
    compare(callables, baseline="a", rounds=10, min_seconds=0.0, device=CPU)
    timed = order[CALIBRATION * len(names) :]
    rounds = [timed[start : start + len(names)] for start in range(0, len(timed), len(names))]
    assert len(rounds) == 10
    assert all(sorted(each) == list(names) for each in rounds)
    assert {each[0] for each in rounds} == set(names)
    assert len(set(map(tuple, rounds))) == 10


@pytest.mark.parametrize("rounds", range(4, 30))
def test_the_interval_is_the_narrowest_pair_of_rounds_around_the_median_that_is_95_sure(
    rounds: int,
) -> None:
    found = spread([float(place) for place in range(1, rounds + 1)])

    def sureness(place: int) -> float:
        """Chance that a median lies between the values at a place from either end."""
        return 1.0 - 2.0 * sum(comb(rounds, below) for below in range(place)) / 2.0**rounds

    places = [place for place in range(1, rounds // 2 + 1) if sureness(place) >= 0.95]
    if not places:
        assert rounds < 6
        assert (found.low, found.high) == (None, None)
    else:
        assert (found.low, found.high) == (max(places), rounds + 1 - max(places))


def test_quartiles_lie_around_the_median_and_their_distance_is_relative_to_it() -> None:
    found = spread([5.0, 1.0, 4.0, 2.0, 3.0])
    assert (found.lower_quartile, found.median, found.upper_quartile) == (2, 3, 4)
    assert found.rounds == 5


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ValueError, match="the baseline 'bf16' is none of one, two"):
        compare({"one": list, "two": list}, baseline="bf16", rounds=1, min_seconds=0, device=CPU)
    with pytest.raises(ValueError, match="rounds must be at least 1, got 0"):
        compare({"one": list}, baseline="one", rounds=0, min_seconds=0, device=CPU)


def test_collection_and_threads_are_as_before_even_after_an_error() -> None:
    threads = torch.get_num_threads()
    seen = []

    def fail() -> None:
        seen.append((torch.get_num_threads(), gc.isenabled()))
        raise ZeroDivisionError

    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), cpu_threads(threads + 1):
        compare({"one": fail}, baseline="one", rounds=1, min_seconds=0, device=CPU)
    assert seen == [(threads + 1, False)]
    assert (torch.get_num_threads(), gc.isenabled()) == (threads, True)


def test_a_number_of_threads_may_be_left_as_it_is() -> None:
    threads = torch.get_num_threads()
    with cpu_threads(threads + 1), cpu_threads(None):
        assert torch.get_num_threads() == threads + 1


@pytest.mark.gpu
def test_on_a_gpu_twice_the_bytes_take_about_twice_the_time() -> None:
    device = torch.device("cuda")
    one, two = (torch.ones(size << 28, dtype=torch.uint8, device=device) for size in (1, 2))
    comparison = compare(
        {"one": one.clone, "two": two.clone},
        baseline="one",
        rounds=11,
        min_seconds=0.005,
        device=device,
    )
    assert 1.7 < comparison.ratio("two").median < 2.3
