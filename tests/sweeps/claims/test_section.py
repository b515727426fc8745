"""The `claims` of a sweep file: what they may hold, and that they change no identity."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from sweeps.errors import SpecError
from sweeps.plan import expand
from sweeps.spec import SweepSpec, load_spec, parse_spec, spec_text, stored_spec
from tests.sweeps.specs import CORPUS, mapping

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ("ufp4-claims.yaml", "ufp4-claims-cluster.yaml")
CLAIM = {"name": "better", "statement": "gap(ufp4) < gap(e2m1-ref)"}
RECIPES = ["bf16", "ufp4", "e2m1-ref"]

MISTAKES = [
    ({"statment": "x"}, "claims[0].statment", "x", "did you mean 'statement'?"),
    ({"statement": "gap(ufp5) < 1"}, "claims[0].statement", "gap(ufp5) < 1",
     "names a recipe 'ufp5' that the sweep does not have; did you mean 'ufp4'?"),
    ({"statement": "gap(x) < 1"}, "claims[0].statement", "gap(x) < 1",
     "the recipes are ufp4, e2m1-ref"),
    ({"statement": "gap(bf16) < 1"}, "claims[0].statement", "gap(bf16) < 1",
     "names bf16, whose gap to itself is 0 everywhere"),
    ({"statement": "gap(ufp4) == 1"}, "claims[0].statement", "gap(ufp4) == 1", "no finite number"),
    ({"statement": ""}, "claims[0].statement", "", "must not be empty"),
    ({"statement": 3}, "claims[0].statement", "3", "must be text"),
    ({"name": "A b"}, "claims[0].name", "A b", "must match"),
    ({"models": "all"}, "claims[0].models", "all", "'each', 'mean' or 'largest'"),
    ({"budgets": "all"}, "claims[0].budgets", "all", "'each', 'mean' or 'longest'"),
    ({"level": 95}, "claims[0].level", "95", "must be at most 0.9999"),
    ({"level": "0.9"}, "claims[0].level", "0.9", "must be a number"),
]  # fmt: skip


def spec_of(*claims: dict[str, Any]) -> SweepSpec:
    return parse_spec(mapping(recipes=RECIPES, claims=list(claims)))


@pytest.mark.parametrize(("changes", "key", "value", "words"), MISTAKES)
def test_one_mistake_is_one_problem_with_key_and_value(changes, key, value, words):
    with pytest.raises(SpecError) as caught:
        spec_of(CLAIM | changes)
    (problem,) = caught.value.problems
    assert (problem.key, problem.value) == (key, value)
    assert words in problem.message


def test_two_claims_have_two_names():
    with pytest.raises(SpecError, match=r"claims\[1\].name = better: names claims\[0\] as well"):
        spec_of(CLAIM, CLAIM | {"statement": "gap(ufp4) > 0"})


def test_a_claim_may_speak_of_a_recipe_of_the_grid():
    grid = {"format": ["int4"], "rht": [["wgrad"]], "sr": [["dy"]]}
    claim = CLAIM | {"statement": "gap(int4-rht.wgrad-sr.dy) > gap(ufp4)"}
    spec = parse_spec(mapping(grid=grid, claims=[claim]))
    assert spec.claims[0].parsed().recipes == ("int4-rht.wgrad-sr.dy", "ufp4")


def test_claims_change_neither_the_runs_nor_the_id_of_a_sweep():
    with_claims, without = (expand(spec_of(*claims), CORPUS) for claims in ([CLAIM], []))
    assert with_claims.sweep_id == without.sweep_id
    assert with_claims.runs == without.runs


def test_claims_survive_being_written_and_stored():
    spec = spec_of(CLAIM | {"models": "each", "level": 0.9, "note": "why"})
    assert parse_spec(yaml.safe_load(spec_text(spec))) == spec
    assert stored_spec(spec.model_dump_json()) == spec
    assert yaml.safe_load(spec_text(spec_of(CLAIM)))["claims"] == [CLAIM]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_can_be_planned_and_pair_every_claim_with_a_baseline(name):
    spec = load_spec(ROOT / "examples" / name)
    plan = expand(spec, CORPUS)
    planned = {cell.recipe for cell in plan.cells}
    assert "bf16" in planned
    assert len(spec.claims) >= 13
    assert all(set(claim.parsed().recipes) <= planned for claim in spec.claims)
    claimed = {recipe for claim in spec.claims for recipe in claim.parsed().recipes}
    assert claimed == planned - {"bf16"}  # nothing is trained for no claim


def test_the_cluster_asks_all_that_two_cores_ask():
    small, large = (load_spec(ROOT / "examples" / name) for name in EXAMPLES)
    assert set(small.claims) < set(large.claims)
