"""What can go wrong at a border, as one tree.

Soft outcomes (a diverged run, an unidentified constant) are data and not here.

    GridlawError            exit 1   HTTP 500
    ├── InputError          exit 2   HTTP 422   the request makes no sense; names key and value
    │   └── SpecError                           a sweep file or body; carries every problem found
    ├── NotFoundError       exit 1   HTTP 404   no such sweep or run
    ├── ConflictError       exit 1   HTTP 409   the store is in use, or the move is not allowed
    ├── StorageError        exit 1   HTTP 507   no disk space, an unwritable folder, a broken store
    ├── CheckpointError     exit 1   HTTP 500   truncated, foreign or over-shot
    └── PreflightError      exit 1   HTTP 500   the device does not compute as the numerics say

Messages are one sentence for the person who asked.
"""

from dataclasses import dataclass


class GridlawError(Exception):
    """Anything that Gridlaw reports in one sentence."""


class InputError(GridlawError):
    """The request makes no sense as given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing wrong with a spec.

    Attributes:
        key: Path of the offending key, as in `models[0].width`.
        value: What was given, as the user wrote it.
        message: What is wrong and what would be right.
    """

    key: str
    value: str
    message: str

    def __str__(self) -> str:
        """`models[0].width = 33: must be a multiple of 16`."""
        return (
            f"{self.key} = {self.value}: {self.message}"
            if self.value
            else f"{self.key}: {self.message}"
        )


class SpecError(InputError):
    """A sweep spec that cannot be planned."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = problems


class NotFoundError(GridlawError):
    """No such sweep or run."""


class ConflictError(GridlawError):
    """The store or the run is in a state that forbids this."""


class StorageError(GridlawError):
    """The disk or the database refused."""


class CheckpointError(GridlawError):
    """A checkpoint that must not be continued from."""


class PreflightError(GridlawError):
    """A device on which no run may start; the sentence is that of the check which failed."""
