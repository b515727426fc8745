"""The present moment, always in UTC. Whoever needs it takes a clock, so that tests can set it."""

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """This machine's clock."""
    return datetime.now(UTC)
