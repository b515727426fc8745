"""A recipe as it is given in a word: its name, or its mapping as in a sweep file."""

from collections.abc import Mapping

from pydantic import ValidationError

from kernels.recipes import Recipe
from sweeps.errors import SpecError
from sweeps.problems import problems_of
from sweeps.recipe_sections import RecipeEntry, recipe_of
from sweeps.sections import Section
from sweeps.yaml_file import parse_mapping


class _Given(Section):
    recipe: RecipeEntry


def recipe_in_words(text: str, known: Mapping[str, Recipe]) -> Recipe:
    """The recipe that a text stands for.

    Args:
        text: A name, or a mapping such as `{format: int4, rht: [wgrad]}`.
        known: Recipes that have a name besides the presets.

    Raises:
        InputError: If it is neither; names what is wrong with it.
    """
    if text in known:
        return known[text]
    given = parse_mapping(text, "recipe") if text.startswith("{") else text
    try:
        return recipe_of(_Given.model_validate({"recipe": given}).recipe)
    except ValidationError as error:
        raise SpecError(*problems_of(error, _Given)) from error
