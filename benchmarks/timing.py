"""Several callables timed side by side, on a machine that may have other work to do.

    round   each callable in turn, a batch of calls; every round begins with another
    ratio   of a callable's time to the baseline's in the same round

What else the machine does slows whole rounds, so that the ratio within a round loses most of it,
and the median over rounds ignores the rounds that are hit in between. Seconds are of one call.

On a CPU a batch of several calls follows one that is not timed. On a GPU events time each call of
a batch, of which the median counts; before each a buffer is written that is larger than the caches
and takes longer than the host needs to launch a kernel, so that it is the GPU that is timed. A
training step is launched for longer than that write takes: it is timed with the host's time, as a
user has it.
"""

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from math import ceil, isfinite
from statistics import median
from time import perf_counter_ns

import numpy as np
import torch
from scipy import stats

Clock = Callable[[Callable[[], object], int], float]
"""Times so many calls; seconds of one."""
_BUFFER = 1 << 30  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A quantity over the rounds.

    Attributes:
        median: Over the rounds.
        lower_quartile: Over the rounds.
        upper_quartile: Over the rounds.
        low: Lower end of a 95 % interval of the median, from the order of the rounds alone; None
            where there are too few for one, below 6.
        high: Its upper end.
        rounds: How many.
    """

    median: float
    lower_quartile: float
    upper_quartile: float
    low: float | None
    high: float | None
    rounds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What callables took, round by round.

    Attributes:
        baseline: Name of the one that the others are compared with.
        by_round: Seconds of one call in each round, by name, in the order of the callables.
        calls: Calls of a batch, by name.
    """

    baseline: str
    by_round: Mapping[str, tuple[float, ...]]
    calls: Mapping[str, int]

    def seconds(self, name: str) -> Spread:
        """Of one call."""
        return spread(self.by_round[name])

    def ratio(self, name: str, to: str | None = None) -> Spread:
        """Time of a callable over that of another in the same round, the baseline if not said."""
        others = self.by_round[to or self.baseline]
        pairs = zip(self.by_round[name], others, strict=True)
        return spread([mine / theirs for mine, theirs in pairs])

    def added(self, name: str, to: str) -> Spread:
        """Part by which a callable takes longer than another in the same round; 0.06 is 6 %."""
        pairs = zip(self.by_round[name], self.by_round[to], strict=True)
        return spread([mine / theirs - 1.0 for mine, theirs in pairs])


def compare(
    callables: Mapping[str, Callable[[], object]],
    *,
    baseline: str,
    rounds: int,
    min_seconds: float,
    device: torch.device,
) -> Comparison:
    """Time callables in turn.

    Args:
        callables: By name; each is called without arguments, some times before it is timed.
        baseline: One of the names.
        rounds: How often each has its turn.
        min_seconds: Least time of a batch; a call that takes longer is a batch by itself, as is
            every call if it is 0.
        device: Where the callables compute.

    Raises:
        ValueError: If the baseline is not among the callables, or there is no round.
    """
    if baseline not in callables:
        raise ValueError(f"the baseline {baseline!r} is none of {', '.join(callables)}")
    if rounds < 1:
        raise ValueError(f"rounds must be at least 1, got {rounds}")
    names = list(callables)
    found: dict[str, list[float]] = {name: [] for name in names}
    clock = _clock(device)
    with _no_collection():
        calls = {name: _calls(call, min_seconds, clock) for name, call in callables.items()}
        for index in range(rounds):
            for name in _turn(names, index):
                gc.collect(0)
                found[name].append(clock(callables[name], calls[name]))
    by_round = {name: tuple(seconds) for name, seconds in found.items()}
    return Comparison(baseline=baseline, by_round=by_round, calls=calls)


@contextmanager
def cpu_threads(count: int | None) -> Iterator[None]:
    """Has torch and the C kernel compute in so many threads for now; None leaves their number."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def spread(values: Sequence[float]) -> Spread:
    """Median, quartiles and interval of one value for each round."""
    lower, median, upper = (float(point) for point in np.quantile(values, (0.25, 0.5, 0.75)))
    interval = stats.quantile_test(values, p=0.5).confidence_interval(0.95)
    low, high = (float(end) if isfinite(end) else None for end in (interval.low, interval.high))
    return Spread(
        median=median,
        lower_quartile=lower,
        upper_quartile=upper,
        low=low,
        high=high,
        rounds=len(values),
    )


def _turn(names: Sequence[str], index: int) -> list[str]:
    """The order of a round: one further on each time, every other time backwards."""
    first = index % len(names)
    order = [*names[first:], *names[:first]]
    return order[::-1] if index % 2 else order


def _clock(device: torch.device) -> Clock:
    if device.type == "cuda":
        return partial(_on_gpu, torch.empty(_BUFFER, dtype=torch.uint8, device=device))
    return _on_cpu


def _calls(call: Callable[[], object], min_seconds: float, clock: Clock) -> int:
    """Calls that take at least `min_seconds`, after one that may compile."""
    call()
    calls = 1
    while min_seconds > 0:
        # The least of three: a batch that was interrupted would look long enough.
        seconds = calls * min(clock(call, calls) for _ in range(3))
        if seconds >= min_seconds:
            break
        calls = ceil(calls * min(10.0, 1.2 * min_seconds / seconds))
    return calls


def _on_cpu(call: Callable[[], object], calls: int) -> float:
    if calls > 1:
        call()
    started = perf_counter_ns()
    for _ in repeat(None, calls):
        call()
    return max(1, perf_counter_ns() - started) / calls / 1e9


def _on_gpu(buffer: torch.Tensor, call: Callable[[], object], calls: int) -> float:
    events = []
    for _ in repeat(None, calls):
        pair = [torch.cuda.Event(enable_timing=True) for _ in range(2)]  # type: ignore[no-untyped-call]
        buffer.zero_()
        pair[0].record()
        call()
        pair[1].record()
        events.append(pair)
    torch.cuda.synchronize(buffer.device)
    milliseconds = [float(started.elapsed_time(ended)) for started, ended in events]
    return median(milliseconds) / 1e3


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keeps Python's garbage collector from running within a batch."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
