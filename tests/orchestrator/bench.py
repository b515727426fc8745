"""A loop with everything around it in reach, for the tests of the loop."""

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

from orchestrator.clock import Clock
from orchestrator.loop import Loop
from orchestrator.settings import load_settings
from orchestrator.states import State
from orchestrator.store import Store
from sweeps.plan import Plan
from tests.orchestrator.stepping_executor import SteppingExecutor
from tests.orchestrator.values import START, plan_of


class Bench:
    """A loop with everything around it in reach, and a clock that moves when told to."""

    def __init__(self, store: Store, home: Path) -> None:
        self.store = store
        self.executor = SteppingExecutor()
        self.now = START
        self.settings = load_settings(
            {}, home=home, slots=2, tick_seconds=0.001, stop_grace_seconds=20, min_free_bytes=0
        )
        self.loop = self.new_loop()

    def new_loop(self) -> Loop:
        return Loop(self.store, self.executor, lambda: self.now, self.settings)

    def submit(self, **changes: Any) -> Plan:
        plan = plan_of(**changes)
        self.store.submit(plan, self.now)
        return plan

    def ticks(self, count: int) -> None:
        for _ in range(count):
            self.loop.tick()

    def counts(self, sweep: str = "small") -> dict[State, int]:
        return {state: n for state, n in self.store.sweep(sweep).runs.items() if n}

    def run(
        self,
        sweep: str = "small",
        stop: Event | None = None,
        on_tick: Callable[[], None] | None = None,
    ) -> None:
        self.loop.run_until(sweep, stop or Event(), on_tick)


def ticking_clock(bench: Bench) -> Clock:
    """A clock on which every look takes a second."""

    def look() -> datetime:
        bench.now += timedelta(seconds=1)
        return bench.now

    return look
