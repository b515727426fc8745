"""What a preflight found: the checks of a device's numerics, and whether all passed."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One property; `detail` is a sentence with the numbers that were seen."""

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """The checks of one device.

    Attributes:
        device: What ran them, as in `cuda: NVIDIA H200` or `cpu: C kernel, AVX2`.
        seconds: What they took.
        checks: In the order in which they ran.
    """

    device: str
    seconds: float
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether every check did."""
        return all(check.passed for check in self.checks)

    @property
    def failure(self) -> str | None:
        """One sentence about the first check that failed; None if all passed."""
        for check in self.checks:
            if not check.passed:
                return f"the preflight of {self.device} failed: {check.name}: {check.detail}"
        return None
