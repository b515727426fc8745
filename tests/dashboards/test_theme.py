"""Colours are checked against WCAG contrast and the Machado et al. 2009 simulation matrices."""

from itertools import combinations

import numpy as np
import plotly.io as pio
import pytest
from numpy.typing import NDArray

from dashboards import theme
from dashboards.theme import BACKGROUND, BASELINE_COLOUR, COLOURS, Mode, styles, template
from kernels.formats import E4M3
from kernels.presets import PRESETS, compose
from kernels.recipes import BF16_RECIPE, Recipe

Array = NDArray[np.float64]
ALL_COLOURS = (BASELINE_COLOUR, *COLOURS)
SIGHT = {
    "full": np.eye(3),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
}


def linear(colour: str) -> Array:
    channels: Array = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    light: Array = np.where(
        channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4
    )
    return light


def contrast(one: str, other: str) -> float:
    weights = np.array([0.2126, 0.7152, 0.0722])
    low, high = sorted((linear(one) @ weights, linear(other) @ weights))
    return float((high + 0.05) / (low + 0.05))


def lab(rgb: Array) -> Array:
    to_xyz = np.array(
        [[0.41246, 0.35758, 0.18044], [0.21267, 0.71515, 0.07218], [0.01933, 0.11919, 0.95030]]
    )
    x, y, z = np.cbrt(to_xyz @ np.clip(rgb, 0, 1) / np.array([0.95047, 1.0, 1.08883]))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def eleven() -> list[Recipe]:
    return [compose(E4M3, name=f"mine-{k}") for k in range(11)]


@pytest.mark.parametrize("colour", ALL_COLOURS)
@pytest.mark.parametrize("mode", list(Mode))
def test_every_colour_stands_out_from_both_backgrounds(colour, mode):
    assert contrast(colour, BACKGROUND[mode]) >= 3


@pytest.mark.parametrize("mode", list(Mode))
def test_text_is_readable_on_its_background(mode):
    layout = template(mode).layout
    assert contrast(layout.font.color, layout.paper_bgcolor) >= 7
    assert contrast(layout.xaxis.tickfont.color, layout.paper_bgcolor) >= 4.5


@pytest.mark.parametrize("sight", SIGHT)
def test_two_colours_stay_apart_for_every_kind_of_sight(sight):
    seen = [lab(SIGHT[sight] @ linear(colour)) for colour in ALL_COLOURS]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > 13
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen[:4], 2)) > 25


def test_a_known_recipe_has_its_colour_in_any_company_and_order():
    alone = styles([PRESETS["ufp4"]])["ufp4"]
    crowd = styles([*eleven(), PRESETS["e2m1-ref"], PRESETS["ufp4"], BF16_RECIPE])
    assert crowd["ufp4"] == alone
    assert crowd["bf16"].colour == BASELINE_COLOUR


def test_adding_a_recipe_at_the_end_changes_nobody_elses_style():
    before = styles([BF16_RECIPE, *eleven()])
    after = styles([BF16_RECIPE, *eleven(), compose(E4M3, name="late")])
    assert {name: after[name] for name in before} == before


def test_twelve_recipes_differ_in_colour_or_dash_and_in_colour_or_pattern():
    drawn = list(styles([BF16_RECIPE, *eleven()]).values())
    assert len({(one.colour, one.dash) for one in drawn}) == 12
    assert len({(one.colour, one.pattern) for one in drawn}) == 12


def test_every_preset_is_told_apart_by_colour_and_dash_and_by_colour_and_pattern():
    drawn = list(styles(PRESETS.values()).values())
    assert len({(one.colour, one.dash) for one in drawn}) == len(PRESETS)
    assert len({(one.colour, one.pattern) for one in drawn}) == len(PRESETS)


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "bf16"])
def test_every_preset_has_its_style_in_any_company(name):
    assert (
        styles([PRESETS["bf16"], *eleven(), PRESETS[name]])[name] == styles([PRESETS[name]])[name]
    )


def test_the_marker_says_where_the_rht_is():
    recipes = [
        BF16_RECIPE,
        PRESETS["ufp4"],
        PRESETS["e2m1-ref"],
        compose(E4M3, name="f", rht=["fprop"]),
    ]
    symbols = {name: one.symbol for name, one in styles(recipes).items()}
    assert symbols == {
        "bf16": "circle",
        "ufp4": "diamond",
        "e2m1-ref": "triangle-up",
        "f": "square",
    }


def test_a_faint_colour_keeps_its_hue():
    assert styles([PRESETS["ufp4"]])["ufp4"].faint(0.2) == "rgba(96, 112, 240, 0.2)"


def test_importing_the_theme_registers_no_template():
    assert pio.templates.default == "plotly"
    assert not [name for name in pio.templates if "gridlaw" in name or name in list(theme.Mode)]
