"""What the columns of a run file mean, and the points of each arm that follow from them.

    N, D, loss          parameters, tokens, validation loss in nats per token
    arm                 what a fit holds apart (a number format); two columns joined by a slash
    group               rows that a bootstrap draws together (checkpoints of one run)
    seed                of initial weights and data order: what two paired rows have in common
    excluded            why a row is listed and not fitted (`diverged`, `unfinished`), else empty
    hash                identity of a configuration without its seed
    tokenizer, evaluation, phase    of the text, of the held-out set, of the schedule

Rows of one arm at one (N, D) are repeats and must agree in their hash. What is fitted together must
have one tokenizer, one held-out set and one phase, or its losses are not comparable.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from pandas import DataFrame, Series

from sweeps.errors import InputError
from sweeps.fits.evidence import Absence, Excluded
from sweeps.fits.points import Points, make_points
from sweeps.samples import Sample
from sweeps.tables.run_file import column, nearest, numbers, words

COMPARABLE = {
    "tokenizer": ("tokenizer-col", "nats per token of two tokenizers are not comparable"),
    "evaluation": ("eval-col", "losses on two held-out sets are not comparable"),
    "phase": (
        "phase-col",
        "losses before and after a cooldown differ by more than most formats do",
    ),
}
"""By attribute of `Columns`: the option that names the column, and why it must be one value."""

REFERENCE = "bf16"
"""The arm that is the reference if none is named, whatever its case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Names of columns; what is None is not looked at.

    Attributes:
        N: Parameters.
        D: Tokens.
        loss: Nats per token.
        arm: One name, or several with commas between.
        group: Bootstrap cluster.
        seed: What rows must share to be a pair.
        label: What a row is called where it is excluded; its number if None.
        excluded: Why a row is not fitted, else empty.
        hash: Identity of the configuration.
        tokenizer: What made the tokens.
        evaluation: The held-out set.
        phase: Of the learning-rate schedule.

    Raises:
        InputError: If two of N, D and loss are one column.
    """

    N: str = "N"
    D: str = "D"
    loss: str = "loss"
    arm: str | None = None
    group: str | None = None
    seed: str | None = None
    label: str | None = None
    excluded: str | None = None
    hash: str | None = None
    tokenizer: str | None = None
    evaluation: str | None = None
    phase: str | None = None

    def __post_init__(self) -> None:
        """Refuses one column for two things."""
        if len({self.N, self.D, self.loss}) < 3:
            raise InputError(
                f"n-col = {self.N}, d-col = {self.D}, loss-col = {self.loss}: one column cannot be "
                "two of them"
            )


def samples(
    frame: DataFrame, columns: Columns, *, label: str, baseline: str | None = None
) -> tuple[Sample, ...]:
    """One sample for each arm, the baseline first; one in all where no arm is named.

    Raises:
        InputError: If a column is missing, a value makes no sense, or rows that would be fitted
            together are not comparable.
    """
    arms = arm_names(frame, columns, label)
    order = ordered(arms, baseline) if columns.arm is not None else [label]
    return tuple(
        Sample(
            label=arm,
            points=_points(frame[arms == arm], columns, arm),
            excluded=tuple(excluded_rows(frame[arms == arm], columns, arm)),
        )
        for arm in order
    )


def joint_sample(
    frame: DataFrame, columns: Columns, *, label: str, baseline: str | None = None
) -> Sample:
    """All arms as one sample, the baseline being arm 0.

    Raises:
        InputError: As in `samples`.
    """
    arms = arm_names(frame, columns, label)
    order = ordered(arms, baseline)
    apart = [item for arm in order for item in excluded_rows(frame[arms == arm], columns, arm)]
    points = _points(frame, columns, label, reference=order[0])
    return Sample(label=label, points=points, excluded=tuple(apart))


def arm_names(frame: DataFrame, columns: Columns, label: str) -> Series:
    """The arm of each row; the label where no column of arms is named.

    Raises:
        InputError: If a column is missing, or a row is of no arm.
    """
    if columns.arm is None:
        return Series(label, index=frame.index, dtype=object)
    parts = [words(frame, name.strip(), key="arm-col") for name in columns.arm.split(",")]
    joined = parts[0]
    for part in parts[1:]:
        joined = joined + "/" + part
    nameless = [row for row, name in joined.items() if not name.strip("/")]
    if nameless:
        raise InputError(
            f"arm-col = {columns.arm}: row {nameless[0]} names no arm; leave out such rows with "
            "--where"
        )
    return joined


def spelt(arm: str, names: Collection[str]) -> str:
    """An arm as it is known: `A,B` is `A/B` where only that is one of the names."""
    slashed = "/".join(part.strip() for part in arm.split(","))
    return slashed if arm not in names and slashed in names else arm


def ordered(arms: Series, baseline: str | None) -> list[str]:
    """Names of the arms, the baseline first.

    Raises:
        InputError: If no row is of the baseline.
    """
    names = list(dict.fromkeys(arms))
    if baseline is None:
        first = next((name for name in names if is_reference(name)), names[0])
    elif (first := spelt(baseline, names)) not in names:
        raise InputError(f"baseline = {baseline}: no row is of this arm{nearest(baseline, names)}")
    return [first, *(name for name in names if name != first)]


def is_reference(arm: str) -> bool:
    """Whether every part of an arm's name is that of the reference."""
    return set(arm.lower().split("/")) == {REFERENCE}


def fitted_rows(frame: DataFrame, columns: Columns, label: str) -> DataFrame:
    """What is fitted, as columns N, D, loss, arm and, where they are named, group and seed.

    Args:
        frame: Of the file.
        columns: What its columns mean.
        label: What the rows are called in a message.

    Raises:
        InputError: If a column is missing, a value makes no sense, or rows are not comparable.
    """
    rows = frame[~_is_excluded(frame, columns)]
    found = {
        "N": numbers(rows, columns.N, key="n-col"),
        "D": numbers(rows, columns.D, key="d-col"),
        "loss": numbers(rows, columns.loss, key="loss-col"),
        "arm": arm_names(rows, columns, label),
    }
    _refuse_mixtures(rows, columns, label)
    _refuse_foreign_repeats(rows, columns, found["arm"])
    for name, own in (("group", columns.group), ("seed", columns.seed)):
        if own is not None:
            found[name] = words(rows, own, key=f"{name}-col")
    return DataFrame(found, index=rows.index)


def _points(
    frame: DataFrame, columns: Columns, label: str, *, reference: str | None = None
) -> Points:
    rows = fitted_rows(frame, columns, label)
    return make_points(
        rows["N"].to_numpy(),
        rows["D"].to_numpy(),
        rows["loss"].to_numpy(),
        arms=tuple(rows["arm"]),
        reference=reference,
        groups=None if columns.group is None else tuple(rows["group"]),
    )


def _is_excluded(frame: DataFrame, columns: Columns) -> Series:
    if columns.excluded is None:
        return Series(False, index=frame.index)
    return words(frame, columns.excluded, key="excluded-col") != ""


def excluded_rows(frame: DataFrame, columns: Columns, arm: str) -> Iterator[Excluded]:
    """Rows of one arm that a column takes out of the fit, each with the reason."""
    rows = frame[_is_excluded(frame, columns)]
    if rows.empty or columns.excluded is None:
        return
    table = zip(
        numbers(rows, columns.N, key="n-col"),
        numbers(rows, columns.D, key="d-col"),
        words(rows, columns.excluded, key="excluded-col"),
        _labels(rows, columns),
        strict=True,
    )
    for size, tokens, reason, label in table:
        known = Absence.DIVERGED if reason.strip().lower() == Absence.DIVERGED else reason
        yield Excluded(label=label, N=size, tokens=tokens, arm=arm, reason=known)


def _labels(rows: DataFrame, columns: Columns) -> Series:
    if columns.label is not None:
        return words(rows, columns.label, key="label-col")
    return Series([f"row {row}" for row in rows.index], index=rows.index, dtype=object)


def _refuse_mixtures(frame: DataFrame, columns: Columns, label: str) -> None:
    for attribute, (key, reason) in COMPARABLE.items():
        name = getattr(columns, attribute)
        if name is None:
            continue
        found = words(frame, name, key=key).unique().tolist()
        if len(found) > 1:
            some = ", ".join(map(repr, found[:5])) + (", ..." if len(found) > 5 else "")
            raise InputError(
                f"{key} = {name}: {label} holds {len(found)} values, {some}, and {reason}; "
                f"choose one with --where \"{name} == '{found[0]}'\""
            )


def _refuse_foreign_repeats(frame: DataFrame, columns: Columns, arms: Series) -> None:
    if columns.hash is None:
        return
    places = list(zip(arms, frame[columns.N], frame[columns.D], strict=True))
    known: dict[tuple[object, ...], tuple[int, str]] = {}
    for place, row, identity in zip(
        places, frame.index, column(frame, columns.hash, key="hash-col").map(str), strict=True
    ):
        first, expected = known.setdefault(place, (row, identity))
        if identity != expected:
            arm, size, tokens = place
            raise InputError(
                f"hash-col = {columns.hash}: rows {first} and {row} are both {arm} at "
                f"N = {size:g}, D = {tokens:g} but differ, {expected} and {identity}: they are no "
                "repeats of one configuration; keep one with --where"
            )
