"""The page about training names every key and every rule, as they are."""

import re
from pathlib import Path

import pytest
import yaml
from pydantic_core import PydanticUndefined

from sweeps.scaling_rules import BATCHES, LEARNING_RATES, Rule
from sweeps.spec import parse_spec
from sweeps.train_sections import TrainSection
from tests.sweeps.specs import mapping

PAGE = Path(__file__).parents[2].joinpath("docs", "training.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    """The cells of the table that has this heading in its first column."""
    table = PAGE.split(f"\n\n| {heading} |", 1)[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def test_every_key_of_train_is_on_the_page_with_its_default():
    listed: dict[str, str] = {}
    for keys, defaults, _ in rows("key"):
        names = re.findall(r"`(\w+)`", keys)
        values = defaults.replace("`", "").split(", ")
        listed |= dict(zip(names, values, strict=True))
    assert listed.keys() == TrainSection.model_fields.keys()
    for name, field in TrainSection.model_fields.items():
        match field.default:
            case default if default is PydanticUndefined:
                assert listed[name] == "required"
            case None:
                assert listed[name] == "none"
            case str():
                assert listed[name] == field.default
            case _:
                assert float(listed[name]) == field.default


@pytest.mark.parametrize(
    ("heading", "rules"), [("`learning_rate`", LEARNING_RATES), ("`batch`", BATCHES)]
)
def test_every_rule_is_on_the_page_as_it_is(heading, rules):
    def row(name: str, rule: Rule) -> list[str]:
        fitted = ", ".join(f"{one.symbol} {one.least:.3g} to {one.most:.3g}" for one in rule.fitted)
        sees = "budget" if rule.sees_budget else "N"
        return [f"`{name}`", rule.text, sees, fitted, rule.source]

    assert rows(heading) == [row(name, rule) for name, rule in rules.items()]


def test_the_section_that_the_page_writes_out_is_one():
    (block,) = re.findall(r"```yaml\n(train:.*?)```", PAGE, re.DOTALL)
    assert parse_spec(mapping() | yaml.safe_load(block)).train.context == 128
