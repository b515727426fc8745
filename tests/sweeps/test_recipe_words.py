import pytest

from kernels.formats import E2M1
from kernels.presets import PRESETS, compose
from sweeps.errors import InputError
from sweeps.recipe_words import recipe_in_words

OWN = compose(E2M1, name="own", sr=["dy"])


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_known_by_its_name(name):
    assert recipe_in_words(name, {"own": OWN}) == PRESETS[name]


def test_a_name_of_ones_own_is_known():
    assert recipe_in_words("own", {"own": OWN}) == OWN


def test_a_mapping_is_what_it_is_in_a_sweep_file():
    found = recipe_in_words("{format: e2m1, sr: [dy], name: own}", {})
    assert found == OWN


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ufp5", r"recipe = ufp5: is no preset recipe; the presets are bf16, "),
        ("{format: e9m9}", r"recipe.format = e9m9: is no number format"),
        ("{formt: int4}", r"recipe.formt = int4: unknown key; did you mean 'format'\?"),
        ("{format: int4, rht: [w]}", r"recipe.rht\[0\] = w: is an operand"),
        ("{format", r"recipe, line 1 is not YAML"),
        ("", "recipe"),
    ],
)
def test_what_is_no_recipe_is_refused_with_what_is_wrong(text, sentence):
    with pytest.raises(InputError, match=sentence):
        recipe_in_words(text, {"own": OWN})
