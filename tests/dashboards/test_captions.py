"""Captions say of a figure what its marks mean, and of nothing that it does not show."""

from dashboards.captions import markers
from dashboards.theme import styles
from kernels.formats import E4M3
from kernels.presets import PRESETS, compose
from kernels.recipes import BF16_RECIPE


def test_every_marker_shape_that_is_drawn_is_told_once_and_no_other() -> None:
    recipes = (
        BF16_RECIPE,
        PRESETS["ufp4"],
        PRESETS["e2m1-ref"],
        compose(E4M3, name="pair", rht=("fprop", "wgrad")),
        compose(E4M3, name="alike", rht=("fprop", "wgrad")),
    )
    (said,) = markers(recipes)
    assert said == (
        "Marker shape says which GEMMs have the RHT: circle none, diamond all three, "
        "triangle-up wgrad, hexagon fprop and wgrad."
    )
    assert {style.symbol for style in styles(recipes).values()} == {
        "circle", "diamond", "triangle-up", "hexagon"
    }  # fmt: skip


def test_a_figure_without_recipes_explains_no_marker() -> None:
    assert markers(()) == ()
