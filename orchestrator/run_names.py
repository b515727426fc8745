"""The one run that a person means, among those of all sweeps."""

from collections.abc import Iterable

from orchestrator.summaries import RunSummary
from sweeps.errors import InputError, NotFoundError

SHOWN = 5  # candidates named in a message


def named_run(runs: Iterable[RunSummary], word: str) -> RunSummary:
    """The run that a word names: its id, else a label or the start of an id, if only one.

    Args:
        runs: Of all sweeps; a run that several sweeps ask for may be there several times.
        word: What was given.

    Raises:
        NotFoundError: If no run is named so.
        InputError: If several are.
    """
    found = {run.run_id: run for run in runs}
    if word in found:
        return found[word]
    matches = [run for run in found.values() if run.spec.label == word]
    if not matches and word:
        matches = [run for run in found.values() if run.run_id.startswith(word)]
    if not matches:
        raise NotFoundError(f"there is no run {word!r}; `gridlaw show SWEEP` lists runs")
    if len(matches) > 1:
        some = ", ".join(f"{run.run_id} ({run.spec.label})" for run in matches[:SHOWN])
        more = f" and {len(matches) - SHOWN} more" if len(matches) > SHOWN else ""
        raise InputError(f"run {word!r} may be any of {some}{more}; give the id")
    return matches[0]
