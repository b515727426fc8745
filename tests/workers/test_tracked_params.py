"""Params of a run are short words that a person filters by."""

import pytest

from kernels.presets import PRESETS
from orchestrator.states import Reason, State
from orchestrator.summaries import RunSummary
from tests.orchestrator.values import START, plan_of
from workers.tracked import LONGEST_VALUE, params


def told(recipe: str) -> dict[str, str]:
    """The params of a run of this preset."""
    models = [{"layers": 1, "width": 128, "heads": 2, "mlp_width": 256}]
    runs = plan_of(recipes=(recipe,), models=models).runs
    run = next(one for one in runs if one.spec.recipe.name == recipe)
    return params(
        RunSummary(
            run_id=run.run_id,
            spec=run.spec,
            N=run.N,
            flops_per_token=run.flops_per_token,
            horizons=run.horizons,
            measured=(),
            state=State.QUEUED,
            reason=Reason.PLANNED,
            detail="",
            version=1,
            attempt=0,
            preflight=None,
            created_at=START,
            changed_at=START,
        )
    )


def test_operands_are_told_by_the_names_of_grids_and_the_texts_of_blocks():
    found = told("nvfp4")
    assert found["recipe.name"] == "nvfp4"
    assert found["recipe.fprop.right.grid"] == "e2m1"
    assert found["recipe.fprop.right.block"] == "16x16"
    assert found["recipe.dgrad.left.scale"] == "e4m3"
    assert found["recipe.dgrad.left.rounding"] == "sr"
    assert found["recipe.wgrad.rht.signs"] == "fixed"
    assert found["recipe.rules"] == "[]"
    assert found["diagnostics.layers"] == '["*"]'


def test_an_operand_that_is_not_quantized_is_one_word():
    found = told("int8")
    assert found["recipe.wgrad.left"] == found["recipe.wgrad.right"] == "carrier"
    assert "recipe.wgrad.left.block" not in found


@pytest.mark.parametrize("recipe", PRESETS)
def test_every_preset_is_told_in_values_that_are_kept_whole(recipe):
    assert all(len(value) < LONGEST_VALUE for value in told(recipe).values())
