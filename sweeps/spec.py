"""SweepSpec: the question of a sweep, one class for the YAML file, POST body and notebook object.

    models x (recipes + grid) x budgets x seeds  =  cells

Whatever is wrong is raised as one `SpecError` that lists every problem found with its key, by
whichever door the spec comes in: first what each key may hold, then what must hold between them.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from kernels.recipe_warnings import warnings_of
from kernels.recipes import BF16_RECIPE, Recipe
from sweeps import checks
from sweeps.claims.section import ClaimSection, check_claims
from sweeps.corpus_sections import (
    CorpusEntry,
    TokenizerEntry,
    check_sources,
    from_folder,
    tokenizer_of,
)
from sweeps.errors import Problem, SpecError
from sweeps.grid_section import GridSection
from sweeps.horizons import Horizon, horizons_of
from sweeps.meaning import meaning
from sweeps.model_sections import ModelEntry, shape_of
from sweeps.problems import problems_of
from sweeps.recipe_sections import RecipeEntry, recipe_of
from sweeps.rule_notes import rule_notes
from sweeps.runspec import Diagnostics, Seeds
from sweeps.sections import (
    BudgetText,
    DiagnosticsSection,
    EvalSection,
    Section,
    SeedsEntry,
    seeds_of,
)
from sweeps.shape_checks import check_model_names, check_shapes
from sweeps.shapes import ModelShape
from sweeps.sources import TokenizerRef
from sweeps.tails import check_tails, padding_notes
from sweeps.train_sections import HealthSection, ResourcesSection, TrainSection
from sweeps.training import Training
from sweeps.yaml_file import read_mapping

CHECKED = object()
"""Context of a validation that need not ask again what must hold between the parts."""


class SweepSpec(Section):
    """What to train and how long; a BF16 baseline is planned wherever one is missing.

    Attributes:
        name: Slug that the sweep's id starts with.
        purpose: Free text.
        models: Preset names, or shapes dimension by dimension.
        recipes: Preset names, presets with exemptions, one grid everywhere, or every operand.
        grid: More recipes, as a cross product; those listed already are not repeated.
        budgets: How long each run trains, with a unit.
        seeds: One integer for all four streams, or each stream by name.
        corpus: `stdlib`, text files by their path, or a mapping for another source.
        tokenizer: `byte`, a BPE of a given vocabulary, a `tokenizer.json`, or ids as they are.
        train: Optimizer, schedule and batch.
        eval: The held-out set.
        health: When a run has diverged although its numbers are finite.
        resources: Where each run is carried out; no part of its identity.
        diagnostics: What is measured of the recipe along the way; no part of a run's identity.
        claims: What is held to be true of the gaps beforehand; no part of any identity.

    Raises:
        SpecError: With every problem found.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=48)
    purpose: str = Field(default="", max_length=4000)
    models: tuple[ModelEntry, ...] = Field(min_length=1, max_length=256)
    recipes: tuple[RecipeEntry, ...] = Field(default=(), max_length=1024)
    grid: GridSection | None = None
    budgets: tuple[BudgetText, ...] = Field(min_length=1, max_length=256)
    seeds: tuple[SeedsEntry, ...] = Field(default=(0,), min_length=1, max_length=1024)
    corpus: CorpusEntry = "stdlib"
    tokenizer: TokenizerEntry = "byte"
    train: TrainSection
    eval: EvalSection = EvalSection()
    health: HealthSection = HealthSection()
    resources: ResourcesSection = ResourcesSection()
    diagnostics: DiagnosticsSection | None = None
    claims: tuple[ClaimSection, ...] = Field(default=(), max_length=256)

    @model_validator(mode="wrap")
    @classmethod
    def _in_user_words(
        cls, data: Any, handler: ModelWrapValidatorHandler["SweepSpec"], info: ValidationInfo
    ) -> "SweepSpec":
        try:
            spec = handler(data)
        except ValidationError as error:
            raise SpecError(*problems_of(error, cls)) from error
        problems = [] if info.context is CHECKED else list(spec._problems())
        if problems:
            raise SpecError(*problems)
        return spec

    def shapes(self) -> tuple[ModelShape, ...]:
        """The models."""
        return tuple(map(shape_of, self.models))

    def all_recipes(self) -> tuple[Recipe, ...]:
        """Listed recipes, then those of the grid that are not among them."""
        listed = self._listed_recipes()
        known = set(map(meaning, listed))
        grid = self.grid.recipes() if self.grid else ()
        return (*listed, *(recipe for recipe in grid if meaning(recipe) not in known))

    def all_seeds(self) -> tuple[Seeds, ...]:
        """The four streams of each seed."""
        return tuple(map(seeds_of, self.seeds))

    def horizons(self, shape: ModelShape) -> tuple[Horizon, ...]:
        """The budgets of a model, settled, in order."""
        vocab_size = self.tokenizer_ref().vocab_size
        settled = horizons_of(self.budgets, shape=shape, train=self.train, vocab_size=vocab_size)
        return tuple(settled)

    def tokenizer_ref(self) -> TokenizerRef:
        """The tokenizer; a file that it names is read.

        Raises:
            SpecError: If that file will not do.
        """
        return tokenizer_of(self.tokenizer)

    def run_diagnostics(self) -> Diagnostics:
        """What every run measures along the way."""
        return self.diagnostics.diagnostics() if self.diagnostics else Diagnostics()

    def warnings(self) -> tuple[str, ...]:
        """What is seldom meant or padded, and what the rules entail; a sentence each."""
        recipes, shapes = self.all_recipes(), self.shapes()
        meant = (sentence for recipe in recipes for sentence in warnings_of(recipe))
        horizons = {shape.name: self.horizons(shape) for shape in shapes}
        padded = padding_notes(shapes, recipes, _trainings(horizons))
        return tuple(dict.fromkeys((*meant, *padded, *rule_notes(self.train, horizons))))

    def _listed_recipes(self) -> tuple[Recipe, ...]:
        return tuple(map(recipe_of, self.recipes))

    def _problems(self) -> Iterator[Problem]:
        shapes, recipes, seeds = self.shapes(), self.all_recipes(), self.all_seeds()
        too_many = checks.check_size(len(shapes), len(recipes), len(self.budgets), len(seeds))
        if too_many:
            yield too_many
            return
        if not recipes:
            yield Problem(key="recipes", value="", message="needs at least one recipe, or a grid")
        listed = self._listed_recipes()
        yield from check_sources(self.corpus, self.tokenizer)
        yield from self._repeats()
        yield from check_claims(self.claims, *self._recipe_names())
        yield from check_shapes(shapes)
        yield from check_model_names(shapes)
        yield from checks.check_reserved(listed)
        yield from checks.check_globs(shapes, self._globs(listed))
        yield from checks.check_exemptions(shapes, listed)
        yield from checks.check_resources(self.resources.resources())
        yield from checks.check_evaluation(self.eval.evaluation(), self.train.context)
        try:
            horizons = {shape.name: self.horizons(shape) for shape in shapes}
        except SpecError as error:  # of a tokenizer's file; no horizon is known without it
            yield from error.problems
            return
        trainings = _trainings(horizons)
        yield from checks.check_batch(trainings)
        yield from checks.check_unread(trainings[0], self.train.chosen())
        yield from check_tails(shapes, recipes, trainings)
        yield from checks.check_budgets(horizons)

    def _recipe_names(self) -> tuple[list[str], list[str]]:
        """Names of the quantized recipes, and of the baselines."""
        recipes = self.all_recipes()
        baselines = [recipe.name for recipe in recipes if recipe.is_bf16]
        return [recipe.name for recipe in recipes if not recipe.is_bf16], [
            BF16_RECIPE.name,
            *baselines,
        ]

    def _globs(self, listed: Sequence[Recipe]) -> dict[str, list[str]]:
        globs = {
            f"recipes[{index}].bf16_layers": [rule.pattern for rule in recipe.rules]
            for index, recipe in enumerate(listed)
        }
        watched = self.diagnostics.layers if self.diagnostics else ()
        return globs | {"diagnostics.layers": list(watched)}

    def _repeats(self) -> Iterator[Problem]:
        shapes, recipes = self.shapes(), self.all_recipes()
        recipe_keys = checks.numbered("recipes", self.recipes)
        recipe_keys += ["grid"] * (len(recipes) - len(recipe_keys))
        lists: tuple[tuple[list[str], Sequence[Hashable], list[str]], ...] = (
            (
                checks.numbered("models", shapes),
                [replace(shape, name="") for shape in shapes],
                [shape.name for shape in shapes],
            ),
            (recipe_keys, list(map(meaning, recipes)), [recipe.name for recipe in recipes]),
            (
                checks.numbered("budgets", self.budgets),
                self.budgets,
                list(map(str, self.budgets)),
            ),
            (checks.numbered("seeds", self.seeds), self.all_seeds(), list(map(str, self.seeds))),
        )
        for keys, values, texts in lists:
            yield from checks.check_distinct(keys, values, texts)
        yield from self.grid.problems() if self.grid else ()


def _trainings(horizons: Mapping[str, Sequence[Horizon]]) -> tuple[Training, ...]:
    return tuple(dict.fromkeys(one.training for of_model in horizons.values() for one in of_model))


def parse_spec(given: Mapping[str, Any]) -> SweepSpec:
    """The spec that a mapping of plain values (from YAML or JSON) stands for.

    Raises:
        SpecError: With every problem found.
    """
    return SweepSpec.model_validate(dict(given))


def load_spec(path: Path) -> SweepSpec:
    """The spec in a YAML file; relative paths of its corpus and tokenizer count from its folder.

    Raises:
        InputError: If the file cannot be read or is no YAML mapping.
        SpecError: With every problem found in it.
    """
    return parse_spec(from_folder(read_mapping(path), path.parent))


def stored_spec(text: str) -> SweepSpec:
    """A spec as it was stored, in JSON: checked once, and files that it names may be gone since."""
    return SweepSpec.model_validate_json(text, context=CHECKED)


def spec_text(spec: SweepSpec) -> str:
    """The spec as YAML that loads to the same spec, defaults left out."""
    values = spec.model_dump(mode="json", exclude_defaults=True)
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=100)
