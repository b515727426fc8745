"""Words of the command line as the closed values that they name, or one sentence."""

from dataclasses import replace
from enum import StrEnum
from typing import TypeVar

from sweeps.errors import InputError
from sweeps.fits.settings import Diverged, Settings
from sweeps.fits.target import Residual
from sweeps.laws.joint import Effect

Word = TypeVar("Word", bound=StrEnum)


def settings(
    *,
    law: str,
    delta: float | None,
    residual: str,
    diverged: str,
    resamples: int,
    seed: int,
    joint: str | None,
) -> Settings:
    """The settings of a fit from words.

    Raises:
        InputError: If a word is none of its kind.
    """
    found = Settings(
        law=law,
        delta=delta,
        residual=word(Residual, residual, "residual"),
        diverged=word(Diverged, diverged, "diverged"),
        resamples=resamples,
        seed=seed,
    )
    if joint is None:
        return found
    effects = tuple(word(Effect, part.strip(), "joint") for part in joint.split(","))
    if len(set(effects)) < len(effects):
        raise InputError(f"joint = {joint!r}: names an effect twice")
    return replace(found, effects=effects)


def word(kind: type[Word], given: str, key: str) -> Word:
    """The member of an enum that a word names.

    Raises:
        InputError: If it names none.
    """
    try:
        return kind(given)
    except ValueError as error:
        known = ", ".join(map(repr, map(str, kind)))
        raise InputError(f"{key} = {given!r}: must be one of {known}") from error
