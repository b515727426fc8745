"""Expansion: deterministic, one run for each identity, a baseline beside every quantized cell."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings

from kernels.recipes import BF16_RECIPE
from sweeps.counts import flops_per_token, non_embedding_parameters
from sweeps.errors import SpecError
from sweeps.plan import Plan, Role, expand
from sweeps.plan_json import plan_json
from sweeps.price import price
from sweeps.rates import Rates
from sweeps.spec import parse_spec
from tests.sweeps.specs import CORPUS, SPECS, mapping, train


def planned(**changes) -> Plan:
    return expand(parse_spec(mapping(**changes)), CORPUS)


@settings(max_examples=20, deadline=None)
@given(written=SPECS)
def test_any_spec_expands_the_same_twice_and_whatever_the_order_of_its_keys(written):
    spec = parse_spec(written)
    plan = expand(spec, CORPUS)
    assert expand(spec, CORPUS) == plan
    turned = json.loads(json.dumps(spec.model_dump(mode="json"), sort_keys=True))
    assert expand(parse_spec(turned), CORPUS) == plan


@settings(max_examples=20, deadline=None)
@given(written=SPECS)
def test_every_quantized_cell_has_a_baseline_that_differs_in_the_recipe_alone(written):
    plan = expand(parse_spec(written), CORPUS)
    runs = {run.run_id: run for run in plan.runs}
    baselines = {(cell.run_id, cell.horizon) for cell in plan.cells if cell.role is Role.BASELINE}
    for cell in plan.cells:
        run = runs[cell.run_id]
        assert cell.horizon in run.horizons
        assert run.spec.recipe.is_bf16 == (cell.role is Role.BASELINE)
        partner = replace(run.spec, recipe=BF16_RECIPE)
        assert (partner.run_id, cell.horizon) in baselines


@settings(max_examples=20, deadline=None)
@given(written=SPECS)
def test_runs_are_distinct_and_are_those_of_the_cells(written):
    plan = expand(parse_spec(written), CORPUS)
    ids = [run.run_id for run in plan.runs]
    assert len(set(ids)) == len(ids)
    assert ids == [run.spec.run_id for run in plan.runs]
    asked = {(cell.run_id, cell.horizon) for cell in plan.cells}
    assert len(asked) == len(plan.cells)
    assert asked == {(run.run_id, horizon) for run in plan.runs for horizon in run.horizons}
    for run in plan.runs:
        assert list(run.horizons) == sorted(set(run.horizons))
        assert all(horizon % run.spec.training.batch_tokens == 0 for horizon in run.horizons)


def test_recipes_of_other_precision_are_other_runs_beside_one_baseline():
    precisions = [{"preset": "ufp4", "gemm": gemm} for gemm in ("tf32", "bf16")]
    plan = planned(recipes=["ufp4", *precisions])
    assert [cell.role for cell in plan.cells] == [Role.BASELINE] + 3 * [Role.QUANTIZED]
    assert len({cell.run_id for cell in plan.cells}) == len(plan.runs) == 4
    alone = {cell.recipe: cell.run_id for cell in planned(recipes=["ufp4"]).cells}
    for name, run_id in alone.items():
        assert run_id == next(cell.run_id for cell in plan.cells if cell.recipe == name)


def test_a_missing_baseline_is_added_once_for_each_model_seed_and_budget():
    models = [{"layers": n, "width": 64, "heads": 2} for n in (1, 2)]
    plan = planned(
        models=models, recipes=["ufp4", "e2m1-ref"], seeds=[0, 1], budgets=["100ktok", "1Mtok"]
    )
    roles = Counter((cell.role, cell.is_baseline_added) for cell in plan.cells)
    assert roles == {(Role.BASELINE, True): 8, (Role.QUANTIZED, False): 16}
    assert len(plan.runs) == 4 + 8


def test_a_baseline_that_was_asked_for_is_not_added_again():
    asked, added = planned(recipes=["ufp4", "bf16"]), planned(recipes=["ufp4"])
    assert not any(cell.is_baseline_added for cell in asked.cells)
    assert any(cell.is_baseline_added for cell in added.cells)
    assert asked.sweep_id == added.sweep_id
    assert {run.run_id for run in asked.runs} == {run.run_id for run in added.runs}


def test_budgets_of_one_run_share_its_trunk():
    plan = planned(recipes=["bf16"], budgets=["1Mtok", "200ktok"])
    (run,) = plan.runs
    assert run.horizons == (195 * 1024, 977 * 1024)
    trunk = (977 - 195) * 1024  # a fifth of 977 steps is 195.4
    assert run.spec.branch_tokens(977 * 1024) == trunk
    assert run.tokens == trunk + 195 * 1024 + 39 * 1024
    assert run.flops == run.tokens * run.flops_per_token
    shape = run.spec.model
    assert run.N == non_embedding_parameters(shape)
    assert run.flops_per_token == flops_per_token(shape, vocab_size=257, context=32)


@pytest.mark.parametrize(
    "changes",
    [{"schedule": "cosine"}, {"learning_rate": "step-law"}, {"batch": "power-lines"}],
    ids=str,
)
def test_what_sees_the_budget_gives_each_budget_a_run_of_its_own(changes):
    plan = planned(
        recipes=["ufp4"], budgets=["200ktok", "1Mtok"], train=train(warmup="4ktok", **changes)
    )
    assert len(plan.cells) == len(plan.runs) == 4
    assert all(len(run.horizons) == 1 for run in plan.runs)
    for cell in plan.cells:
        (partner,) = (
            other.run_id
            for other in plan.cells
            if (other.budget, other.role) == (cell.budget, Role.BASELINE)
        )
        runs = {run.run_id: run.spec for run in plan.runs}
        assert replace(runs[cell.run_id], recipe=BF16_RECIPE).run_id == partner


@pytest.mark.parametrize(
    ("changes", "apart"),
    [
        ({}, ("", "")),
        ({"learning_rate": "olmo", "batch": "olmo"}, ("", "")),
        ({"schedule": "cosine"}, (" 199.68ktok", " 1.000448Mtok")),
        ({"learning_rate": "step-law"}, (" rate=0.0205", " rate=0.0337")),
        ({"batch": "power-lines"}, (" batch=7.168ktok", " batch=12.288ktok")),
        (
            {"batch": "step-law", "learning_rate": "deepseek", "schedule": "cosine"},
            (
                " 199.68ktok batch=640tok rate=0.0127",
                " 999.936ktok batch=1.536ktok rate=0.0104",
            ),
        ),
    ],
    ids=str,
)
def test_labels_say_what_sets_the_runs_of_two_budgets_apart(changes, apart):
    section = train(warmup="4ktok", **changes)
    plan = planned(recipes=["ufp4"], budgets=["200ktok", "1Mtok"], train=section)
    names = {f"2x64h2 {recipe} s0{said}" for recipe in ("bf16", "ufp4") for said in apart}
    assert {run.spec.label for run in plan.runs} == names
    assert len(names) == len(plan.runs)


def test_runs_of_budgets_that_differ_by_a_step_have_labels_of_their_own():
    section = train(schedule="cosine", batch="64tok", warmup="4ktok")
    budgets = ["1Mtok", "1.00006Mtok", "1.0002Mtok"]
    plan = planned(recipes=["bf16"], budgets=budgets, train=section)
    assert len({run.spec.label for run in plan.runs}) == len(plan.runs) == 3


def test_a_cosine_is_trained_from_its_start_to_its_one_horizon():
    plan = planned(recipes=["bf16"], budgets=["200ktok", "1Mtok"], train=train(schedule="cosine"))
    for run in plan.runs:
        assert run.horizons == (run.spec.training.horizon,)
        assert run.tokens == run.spec.training.horizon
        assert run.tokens_left(run.horizons) == 0


def test_a_rule_that_gives_two_budgets_the_same_training_leaves_them_one_run():
    ruled = train(batch="power-lines", warmup="4ktok")
    plan = planned(recipes=["bf16"], budgets=["1Mtok", "1.01Mtok"], train=ruled)
    (run,) = plan.runs
    assert len(run.horizons) == 2
    assert all(horizon % run.spec.training.batch_tokens == 0 for horizon in run.horizons)


def test_health_and_resources_reach_every_run_and_resources_move_no_identity():
    changes = {"health": {"loss_bound": 9.0}, "resources": {"pack": True}}
    plan = planned(**changes)
    assert {run.spec.health.loss_bound for run in plan.runs} == {9.0}
    assert all(run.spec.resources.pack for run in plan.runs)
    assert planned(health={"loss_bound": 9.0}).sweep_id == plan.sweep_id != planned().sweep_id


def test_gpus_that_cannot_share_out_the_parts_of_a_step_are_refused():
    parts = train(microbatch="256tok")
    assert {
        run.spec.resources.gpus for run in planned(train=parts, resources={"gpus": 4}).runs
    } == {4}
    with pytest.raises(SpecError, match=r"resources.gpus = 3: must divide .* 2x64h2 bf16 s0 has 4"):
        planned(train=parts, resources={"gpus": 3})
    with pytest.raises(SpecError, match=r"resources.gpus = 2: must divide .* s0 has 1; train.micr"):
        planned(resources={"gpus": 2})


def test_a_cell_keeps_its_budget_as_written():
    plan = planned(recipes=["bf16"], budgets=["20tpp", "1.5Mtok", "2e12flops"])
    N = plan.runs[0].N
    flops = plan.runs[0].flops_per_token
    wanted = {"20tpp": 20 * N, "1.5Mtok": 1_500_000, "2e12flops": 2e12 / flops}
    assert {cell.budget for cell in plan.cells} == set(wanted)
    for cell in plan.cells:
        assert abs(cell.horizon - wanted[cell.budget]) <= 512


def test_two_budgets_that_meet_for_a_model_are_one_cell_there():
    plan = planned(recipes=["bf16"], budgets=["1000ktok", "1000100tok"])
    assert [cell.budget for cell in plan.cells] == ["1000ktok"]


def test_longer_budgets_are_the_same_runs_in_another_sweep():
    short, long = planned(budgets=["1Mtok"]), planned(budgets=["1Mtok", "4Mtok"])
    assert {run.run_id for run in short.runs} == {run.run_id for run in long.runs}
    assert short.sweep_id != long.sweep_id


def test_a_sweep_id_is_its_name_and_what_it_runs():
    plan = planned()
    assert plan.sweep_id.startswith("small-")
    assert len(plan.sweep_id) == len("small-") + 8
    content = plan.sweep_id.removeprefix("small-")
    assert planned(name="other", purpose="why").sweep_id == f"other-{content}"
    moved = replace(CORPUS, path="/elsewhere")
    assert expand(parse_spec(mapping()), moved).sweep_id == plan.sweep_id
    for changes in (
        {"seeds": [1]},
        {"train": train(weight_decay=0.2)},
        {"eval": {"held_out": 0.1}},
        {"tokenizer": {"bpe": 300}},
        {"models": [{"layers": 3, "width": 64, "heads": 2}]},
    ):
        assert planned(**changes).sweep_id != plan.sweep_id


def test_baselines_start_first_and_within_each_kind_the_longest_does():
    models = [{"layers": n, "width": 64, "heads": 2} for n in (1, 3, 2)]
    runs = planned(models=models, recipes=["ufp4", "bf16"]).runs
    order = [(run.spec.recipe.name, run.spec.model.num_layers) for run in runs]
    assert order == [("bf16", 3), ("bf16", 2), ("bf16", 1)] + [("ufp4", n) for n in (3, 2, 1)]


def test_the_json_has_the_totals_that_a_reader_asks_for():
    plan = planned(budgets=["100ktok", "20tpp"])
    cost = price(plan, {}, Rates(slots=2))
    shown = json.loads(json.dumps(plan_json(plan, cost), allow_nan=False))
    for key in ("cells", "runs", "reused", "tokens", "flops", "eta_seconds"):
        assert shown[key] == getattr(cost, key)
    assert len(shown["planned_cells"]) == shown["cells"] == 4
    assert len(shown["planned_runs"]) == shown["runs"] == 2
    (model,) = shown["models"]
    assert model["N"] == sum(model["parameters"][part] for part in ("attention", "mlp", "norms"))
    assert [gain["recipe"] for gain in model["recipes"]] == ["ufp4"]
    assert sum(run["tokens"] for run in shown["planned_runs"]) == shown["tokens"]
    assert {(run["batch_tokens"], run["learning_rate"]) for run in shown["planned_runs"]} == {
        (1024, 0.01)
    }


@pytest.mark.slow
def test_ten_thousand_cells_are_planned_in_seconds():
    models = [{"layers": n, "width": 64, "heads": 2} for n in range(1, 11)]
    grid = {"format": ["e2m1", "int4"], "sr": [[], ["dy"], ["x", "dy"], ["x"], ["w"]]}
    budgets = [f"{n}Mtok" for n in range(1, 11)]
    plan = planned(models=models, recipes=[], grid=grid, seeds=list(range(10)), budgets=budgets)
    assert len(plan.cells) == 11_000
    assert len(plan.runs) == 1_100
