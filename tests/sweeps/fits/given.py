"""Numbers that a test expects to be there."""


def given(value: float | None) -> float:
    """The number; a test fails where it is missing."""
    assert value is not None
    return value


def band(ends: tuple[float, float] | None) -> tuple[float, float]:
    """The two ends; a test fails where they are missing."""
    assert ends is not None
    return ends
