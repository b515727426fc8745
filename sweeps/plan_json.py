"""A plan and its price as plain values, as the front doors show them."""

from collections import defaultdict
from dataclasses import asdict
from typing import Any

from sweeps.design.advice import design_notes
from sweeps.model_facts import model_facts
from sweeps.plan import Plan
from sweeps.price import Price
from sweeps.runspec import RunSpec
from sweeps.shapes import ModelShape


def plan_json(plan: Plan, cost: Price) -> dict[str, Any]:
    """Plan and price as plain values: the totals at the top, then models, cells and runs."""
    specs: defaultdict[ModelShape, list[RunSpec]] = defaultdict(list)
    for run in plan.runs:
        specs[run.spec.model].append(run.spec)
    recipes = plan.spec.all_recipes()
    return {
        "sweep_id": plan.sweep_id,
        **asdict(cost),
        "warnings": list(plan.spec.warnings()),
        "design": list(design_notes(plan)),
        "corpus": asdict(plan.corpus),
        "models": [model_facts(shape, recipes, specs[shape]) for shape in plan.spec.shapes()],
        "planned_cells": [asdict(cell) for cell in plan.cells],
        "planned_runs": [
            {
                "run_id": run.run_id,
                "label": run.spec.label,
                "horizons": list(run.horizons),
                "N": run.N,
                "flops_per_token": run.flops_per_token,
                "tokens": run.tokens,
                "flops": run.flops,
                "batch_tokens": run.spec.training.batch_tokens,
                "learning_rate": run.spec.training.learning_rate,
            }
            for run in plan.runs
        ],
    }
