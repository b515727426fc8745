"""SweepSpec: the question of a sweep, one class for the YAML file, POST body and notebook object.

    models x (recipes + grid) x budgets x seeds  =  cells

Whatever is wrong is raised as one `SpecError` that lists every problem found with its key, by
whichever door the spec comes in: first what each key may hold, then what must hold between them.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)

from kernels.recipe_warnings import warnings_of
from kernels.recipes import Recipe
from sweeps import checks
from sweeps.corpus import Document, describe
from sweeps.errors import Problem, SpecError
from sweeps.grid_section import GridSection
from sweeps.meaning import meaning
from sweeps.problems import problems_of
from sweeps.recipe_sections import RecipeEntry, recipe_of
from sweeps.runspec import Diagnostics, Seeds
from sweeps.sections import (
    BudgetText,
    DiagnosticsSection,
    EvalSection,
    ModelSection,
    Section,
    SeedsEntry,
    TokenizerEntry,
    TrainSection,
    seeds_of,
    tokenizer_of,
)
from sweeps.shapes import ModelShape
from sweeps.sources import CorpusKind, CorpusRef, TokenizerRef
from sweeps.tails import check_tails, padding_notes
from sweeps.yaml_file import read_mapping


class SweepSpec(Section):
    """What to train and how long; a BF16 baseline is planned wherever one is missing.

    Attributes:
        name: Slug that the sweep's id starts with.
        purpose: Free text.
        models: Shapes of the models.
        recipes: Preset names, presets with exemptions, one grid everywhere, or every operand.
        grid: More recipes, as a cross product; those listed already are not repeated.
        budgets: How long each run trains, with a unit.
        seeds: One integer for all four streams, or each stream by name.
        corpus: `stdlib`, or a file, folder or glob.
        tokenizer: `byte`, or a BPE of a given vocabulary.
        train: Optimizer and schedule.
        eval: The held-out set.
        diagnostics: What is measured of the recipe along the way; no part of a run's identity.

    Raises:
        SpecError: With every problem found.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=48)
    purpose: str = Field(default="", max_length=4000)
    models: tuple[ModelSection, ...] = Field(min_length=1, max_length=256)
    recipes: tuple[RecipeEntry, ...] = Field(default=(), max_length=1024)
    grid: GridSection | None = None
    budgets: tuple[BudgetText, ...] = Field(min_length=1, max_length=256)
    seeds: tuple[SeedsEntry, ...] = Field(default=(0,), min_length=1, max_length=1024)
    corpus: Annotated[str, Field(min_length=1, max_length=4096)] = "stdlib"
    tokenizer: TokenizerEntry = "byte"
    train: TrainSection
    eval: EvalSection = EvalSection()
    diagnostics: DiagnosticsSection | None = None

    @model_validator(mode="wrap")
    @classmethod
    def _in_user_words(
        cls, data: Any, handler: ModelWrapValidatorHandler["SweepSpec"]
    ) -> "SweepSpec":
        try:
            spec = handler(data)
        except ValidationError as error:
            raise SpecError(*problems_of(error, cls)) from error
        problems = list(spec._problems())
        if problems:
            raise SpecError(*problems)
        return spec

    def shapes(self) -> tuple[ModelShape, ...]:
        """The models."""
        return tuple(model.shape() for model in self.models)

    def all_recipes(self) -> tuple[Recipe, ...]:
        """Listed recipes, then those of the grid that are not among them."""
        listed = self._listed_recipes()
        known = set(map(meaning, listed))
        grid = self.grid.recipes() if self.grid else ()
        return (*listed, *(recipe for recipe in grid if meaning(recipe) not in known))

    def all_seeds(self) -> tuple[Seeds, ...]:
        """The four streams of each seed."""
        return tuple(map(seeds_of, self.seeds))

    def tokenizer_ref(self) -> TokenizerRef:
        """The tokenizer."""
        return tokenizer_of(self.tokenizer)

    def run_diagnostics(self) -> Diagnostics:
        """What every run measures along the way."""
        return self.diagnostics.diagnostics() if self.diagnostics else Diagnostics()

    def warnings(self) -> tuple[str, ...]:
        """What can be run but is seldom meant, and what is padded; a sentence each."""
        recipes = self.all_recipes()
        meant = (sentence for recipe in recipes for sentence in warnings_of(recipe))
        padded = padding_notes(self.shapes(), recipes, self.train.batch)
        return tuple(dict.fromkeys((*meant, *padded)))

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
        trainings = [self.train.training(shape) for shape in shapes]
        vocab_size = self.tokenizer_ref().vocab_size
        yield from self._repeats()
        yield from checks.check_shapes(shapes)
        yield from checks.check_reserved(listed)
        yield from checks.check_globs(shapes, self._globs(listed))
        yield from checks.check_exemptions(shapes, listed)
        yield from checks.check_batch(trainings[0])
        yield from check_tails(shapes, recipes, self.train.batch)
        yield from checks.check_evaluation(self.eval.evaluation(), self.train.context)
        yield from checks.check_budgets(self.budgets, shapes, trainings, vocab_size)

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


def parse_spec(given: Mapping[str, Any]) -> SweepSpec:
    """The spec that a mapping of plain values (from YAML or JSON) stands for.

    Raises:
        SpecError: With every problem found.
    """
    return SweepSpec.model_validate(dict(given))


def load_spec(path: Path) -> SweepSpec:
    """The spec in a YAML file; a relative corpus path counts from the file's folder.

    Raises:
        InputError: If the file cannot be read or is no YAML mapping.
        SpecError: With every problem found in it.
    """
    given = read_mapping(path)
    corpus = given.get("corpus")
    if isinstance(corpus, str) and corpus not in ("", CorpusKind.STDLIB):
        given["corpus"] = str(path.absolute().parent / _at_home(corpus))
    return parse_spec(given)


def _at_home(corpus: str) -> Path:
    try:
        return Path(corpus).expanduser()
    except RuntimeError as error:
        message = "there is no such user"
        raise SpecError(Problem(key="corpus", value=corpus, message=message)) from error


def spec_text(spec: SweepSpec) -> str:
    """The spec as YAML that loads to the same spec, defaults left out."""
    values = spec.model_dump(mode="json", exclude_defaults=True)
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=100)


def pin_corpus(spec: SweepSpec) -> CorpusRef:
    """Read the spec's corpus once and pin it by its hash.

    Raises:
        InputError: If there is no text, some that is not UTF-8, or too little for what is asked.
    """

    def check(documents: Sequence[Document]) -> None:
        training = spec.train.training(spec.models[0].shape())
        problems = tuple(checks.check_corpus(documents, spec.eval.evaluation(), training))
        if problems:
            raise SpecError(*problems)

    if spec.corpus == CorpusKind.STDLIB:
        return describe(CorpusKind.STDLIB, check=check)
    return describe(CorpusKind.TEXT, spec.corpus, check)
