"""`gridlaw numerics run` and `gridlaw numerics ptq`: what recipes do to a run that was trained.

The run is found in the store; its checkpoint is read by the numerics process, which alone may load
torch. What was logged while it trained comes from the store alone.
"""

from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer

from api.files import write_whole
from api.numerics_process import ask
from api.numerics_run_tables import logged_lines, ptq_lines, quality_lines
from api.opening import reading
from api.terminal import answer_console, print_json, print_lines
from dashboards.gain_depth import gain_depth
from dashboards.measured_recipe import MeasuredRecipe
from dashboards.numerics_page import render
from kernels.recipes import Recipe
from orchestrator.service import Service
from orchestrator.settings import Settings
from orchestrator.summaries import RunSummary
from sweeps.errors import InputError
from sweeps.plain import plain
from sweeps.recipe_words import recipe_in_words
from sweeps.run_questions import PtqAnswer, PtqQuestion, RunPlace, RunQuality, RunQuestion
from sweeps.wording import plural


def run(
    word: str,
    settings: Settings,
    *,
    recipes: tuple[str, ...],
    layers: tuple[str, ...],
    out: Path | None,
    as_json: bool,
) -> None:
    """Print what recipes do to the numbers in a run's newest checkpoint."""
    with reading(settings) as service:
        found = service.run(word)
        chosen = _chosen(service, found, recipes)
        num_logged = len(service.diagnoses(found.run_id))
    place = _place(settings, found)
    qualities = [
        ask(RunQuestion(run=place, recipe=recipe, layers=layers), RunQuality) for recipe in chosen
    ]
    measured = [
        MeasuredRecipe(recipe=recipe, layers=quality.layers)
        for recipe, quality in zip(chosen, qualities, strict=True)
    ]
    standing = _standing(found, qualities[0])
    if out is not None:
        now = datetime.now(UTC)
        page = render(measured, name=found.spec.label, facts=[standing], made_at=now)
        write_whole(out, page)
        typer.echo(f"Wrote {out}", err=True)
    gains = [gain_depth([one]).gains for one in measured]
    if as_json:
        rows = [
            {"recipe": one.recipe.name, **plain(quality), "gains": plain(of_one)}
            for one, quality, of_one in zip(measured, qualities, gains, strict=True)
        ]
        print_json({**_told(found), "measured": rows})
        return
    for one, of_one in zip(measured, gains, strict=True):
        lines = quality_lines(standing, one.recipe.name, one.layers, of_one)
        print_lines(answer_console(), lines)
    if num_logged:
        count = plural(num_logged, "step")
        print_lines(answer_console(), [f"--logged prints what {count} of its training showed."])


def logged(word: str, settings: Settings, *, as_json: bool) -> None:
    """Print what was diagnosed of a run while it trained."""
    with reading(settings) as service:
        found = service.run(word)
        diagnoses = service.diagnoses(found.run_id)
    if as_json:
        print_json({**_told(found), "diagnoses": plain(diagnoses)})
    else:
        print_lines(answer_console(), logged_lines(found.spec.label, diagnoses))


def ptq(
    word: str,
    settings: Settings,
    *,
    recipes: tuple[str, ...],
    weights_only: bool,
    as_json: bool,
) -> None:
    """Print what casting the endpoints of a BF16 run costs, beside what training so cost."""
    with reading(settings) as service:
        found = service.run(word)
        endpoints = service.endpoints(found.run_id)
        _check_castable(found, endpoints=len(endpoints))
        chosen = _distinct(service, recipes)
        partners = {
            recipe.name: partner
            for recipe in chosen
            if (partner := service.trained_with(found, recipe)) is not None
        }
        gaps = {
            (name, tokens): point.loss - endpoints[tokens].loss
            for name, partner in partners.items()
            for tokens, point in service.endpoints(partner.run_id).items()
            if tokens in endpoints
        }
    trained = tuple(
        # Its name may be another there, under which the answer could not be told apart.
        _place(settings, replace(partner, spec=replace(partner.spec, recipe=recipe)))
        for recipe in chosen
        if (partner := partners.get(recipe.name)) is not None
    )
    question = PtqQuestion(
        run=_place(settings, found),
        horizons=tuple(sorted(endpoints)),
        recipes=chosen,
        weights_only=weights_only,
        trained=trained,
    )
    answer = ask(question, PtqAnswer)
    if as_json:
        rows = [
            {**asdict(row), "trained_gap": gaps.get((row.recipe, row.tokens))}
            for row in answer.endpoints
        ]
        print_json({**_told(found), **plain(answer), "endpoints": plain(rows)})
    else:
        print_lines(answer_console(), ptq_lines(found.spec.label, answer, gaps))


def _chosen(service: Service, run: RunSummary, words: tuple[str, ...]) -> tuple[Recipe, ...]:
    if words:
        chosen = _distinct(service, words)
        for recipe in chosen:
            if not recipe.is_quantized:
                raise InputError(
                    f"recipe = {recipe.name}: quantizes nothing that could be measured"
                )
        return chosen
    if not run.spec.recipe.is_quantized:
        raise InputError(
            f"run {run.run_id} ({run.spec.label}) was trained without quantization; "
            "--recipe NAME says under which recipe to look at it"
        )
    return (run.spec.recipe,)


def _distinct(service: Service, words: tuple[str, ...]) -> tuple[Recipe, ...]:
    known = service.recipes()
    found = {recipe.name: recipe for recipe in (recipe_in_words(word, known) for word in words)}
    return tuple(found.values())


def _check_castable(run: RunSummary, *, endpoints: int) -> None:
    if not run.spec.recipe.is_bf16:
        raise InputError(
            f"run {run.run_id} ({run.spec.label}) was trained with {run.spec.recipe.name}; "
            "only endpoints of a bf16 run can be cast afterwards"
        )
    if not endpoints:
        raise InputError(f"run {run.run_id} ({run.spec.label}) has no endpoint yet")


def _place(settings: Settings, run: RunSummary) -> RunPlace:
    layout = settings.layout
    folder = layout.runs / run.run_id
    return RunPlace(spec=run.spec, folder=str(folder), cache=str(layout.cache))


def _told(run: RunSummary) -> dict[str, Any]:
    return {"run_id": run.run_id, "label": run.spec.label, "recipe": run.spec.recipe.name}


def _standing(run: RunSummary, quality: RunQuality) -> str:
    path = "the trunk" if quality.horizon is None else f"the cooldown to {quality.horizon} tokens"
    return (
        f"{run.spec.label} ({run.run_id}) after {quality.step} steps ({quality.tokens} tokens) of "
        f"{path}; measured in step {quality.measured_step}, as the run would go on."
    )
