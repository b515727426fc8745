"""The `claims` of a sweep file: what is held to be true before the runs are made.

    claims:
      - {name: uniform-wins, statement: gap(ufp4) < gap(e2m1-ref), models: each}

A claim says nothing about how a run is carried out, so that it is no part of any identity.
"""

from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from typing import Annotated

from pydantic import Field, field_validator

from sweeps.claims.statement import Statement, parse_statement, unknown_recipe
from sweeps.errors import Problem
from sweeps.sections import Section


class Models(StrEnum):
    """At which models a claim is said to hold."""

    EACH = "each"
    MEAN = "mean"
    LARGEST = "largest"


class Budgets(StrEnum):
    """At which budgets of a model a claim is said to hold."""

    EACH = "each"
    MEAN = "mean"
    LONGEST = "longest"


class ClaimSection(Section):
    """One claim.

    Attributes:
        name: Slug that tables call it by.
        statement: Comparison of gaps, see `sweeps.claims.statement`.
        models: Whether it holds at each model, at their mean or at the largest.
        budgets: The same of the budgets of a model.
        level: Confidence of the two-sided intervals that decide.
        note: Free text: where the claim is from.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=64)
    statement: str = Field(min_length=1, max_length=1000)
    models: Models = Models.MEAN
    budgets: Budgets = Budgets.LONGEST
    level: Annotated[float, Field(strict=True, ge=0.5, le=0.9999, allow_inf_nan=False)] = 0.95
    note: str = Field(default="", max_length=4000)

    @field_validator("statement")
    @classmethod
    def _can_be_read(cls, text: str) -> str:
        parse_statement(text)
        return text

    def parsed(self) -> Statement:
        """What it states."""
        return parse_statement(self.statement)


def check_claims(
    claims: Sequence[ClaimSection], recipes: Sequence[str], bf16: Collection[str]
) -> Iterator[Problem]:
    """A claim has a name of its own and speaks of quantized recipes of the sweep.

    Args:
        claims: Of the sweep.
        recipes: Names of its quantized recipes.
        bf16: Names of its baselines.
    """
    named: dict[str, int] = {}
    for index, claim in enumerate(claims):
        if named.setdefault(claim.name, index) != index:
            message = f"names claims[{named[claim.name]}] as well; give one of them another name"
            yield Problem(key=f"claims[{index}].name", value=claim.name, message=message)
        for recipe in claim.parsed().recipes:
            if recipe not in recipes:
                yield Problem(
                    key=f"claims[{index}].statement",
                    value=claim.statement,
                    message=f"names {recipe}, whose gap to itself is 0 everywhere"
                    if recipe in bf16
                    else unknown_recipe(recipe, recipes),
                )
