"""The page about claims: its keys are those of a claim, and its statements can be read."""

import re
from pathlib import Path

import pytest
import yaml

from sweeps.claims.section import Budgets, ClaimSection, Models
from sweeps.claims.statement import parse_statement

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "claims.md").read_text()
STATEMENTS = re.findall(r"^\| `(.*gap\(.*)` \|", PAGE, re.MULTILINE)


def test_every_key_of_a_claim_is_on_the_page():
    table = PAGE.split("| key | means |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(ClaimSection.model_fields)
    for word in (*Models, *Budgets):
        assert f"`{word}`" in table


@pytest.mark.parametrize("statement", STATEMENTS)
def test_every_statement_on_the_page_can_be_read(statement):
    assert parse_statement(statement).recipes


def test_the_claims_of_the_first_example_are_claims():
    block = PAGE.split("```yaml\n")[1].split("```")[0]
    claims = [ClaimSection.model_validate(one) for one in yaml.safe_load(block)["claims"]]
    assert [claim.models for claim in claims] == [Models.EACH, Models.MEAN]
    assert len(STATEMENTS) >= 6


def test_the_defaults_on_the_page_are_the_defaults():
    claim = ClaimSection(name="a", statement="gap(b) < 1")
    assert (claim.models, claim.budgets, claim.level) == (Models.MEAN, Budgets.LONGEST, 0.95)
    table = PAGE.split("| key | means |")[1].split("\n\n")[0]
    assert "`mean` over the models (default)" in table
    assert "the `longest` of each model (default)" in table
