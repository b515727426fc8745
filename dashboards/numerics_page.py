"""Numerics page: what recipes do to numbers, as one HTML page that needs no network and no server.

Four figures: the rounding error of each grid, the buckets of one operand before and after the RHT,
SQNR of each operand, and the gain of each GEMM against depth.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from dashboards import bucket_bars, gain_depth, rounding_error, sqnr_bars
from dashboards.drawing import Drawing, drawing, payload
from dashboards.measured_recipe import MeasuredRecipe, grids_of
from dashboards.page import document, source
from sweeps.wording import listed

HISTOGRAM_OF = ("fprop", "x")


def render(
    measured: Sequence[MeasuredRecipe], *, name: str, facts: Sequence[str], made_at: datetime
) -> str:
    """The page as HTML.

    Args:
        measured: Recipes and the layers that were measured under them.
        name: What was measured.
        facts: Sentences that say how.
        made_at: Timezone-aware.
    """
    drawings = _drawings(measured)
    return document(
        "numerics.html",
        scripts=(source("theme.js"), get_plotlyjs(), source("report.js")),
        name=name,
        facts=facts,
        recipes=listed([one.recipe.name for one in measured]),
        made_at=made_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        drawings=drawings,
        payload=Markup(payload(drawings, {one.key: one.plotted.csv() for one in drawings})),
    )


def _drawings(measured: Sequence[MeasuredRecipe]) -> tuple[Drawing, ...]:
    errors = rounding_error.rounding_errors(grids_of(measured))
    gemm, operand = HISTOGRAM_OF
    buckets = bucket_bars.histograms(measured, gemm=gemm, operand=operand)
    ratios = sqnr_bars.sqnr_bars(measured)
    gains = gain_depth.gain_depth(measured)
    return (
        drawing(
            "rounding-error",
            "Rounding error against the normalised value",
            (
                "Q(t) − t under RTNE against t, both in units of the grid's maximum; a dot is the "
                "mean over a bin under a constant density. Where steps widen, a bin reaches "
                "further up than down and its values shrink on average.",
            ),
            lambda columns: rounding_error.draw(errors, columns=columns),
            rounding_error.table(errors),
        ),
        drawing(
            "buckets",
            f"Buckets of {operand} in {gemm}",
            (
                "Share of elements on each signed code, before and after the RHT, in the layer "
                "whose bucket utilisation the RHT changes most in favour.",
                *_utilisations(buckets),
            ),
            lambda columns: bucket_bars.draw(buckets, columns=columns),
            bucket_bars.table(buckets),
        ),
        drawing(
            "sqnr",
            "Signal to quantization noise",
            (
                "SQNR in dB of each operand along its contraction axis, before and after the RHT "
                "of its GEMM (size 16 where the recipe has none). Filled bars are what the recipe "
                "multiplies, dotted ones are after the RHT.",
            ),
            lambda columns: sqnr_bars.draw(ratios, columns=columns),
            sqnr_bars.table(ratios),
        ),
        drawing(
            "gain",
            "Output gain against depth",
            (
                "η = ⟨zq, z⟩ / Σ z² of each GEMM (dots) and the running product over layers in the "
                "order of the model (lines). Below 1 the output shrinks. The product leaves norms "
                "and residual streams out.",
            ),
            lambda columns: gain_depth.draw(gains, columns=columns),
            gain_depth.table(gains),
        ),
    )


def _utilisations(buckets: Sequence[bucket_bars.Histogram]) -> list[str]:
    return [
        f"{before.recipe}, {before.layer}: utilisation {before.quality.utilisation:.3f} before, "
        f"{after.quality.utilisation:.3f} after."
        for before, after in zip(buckets[::2], buckets[1::2], strict=True)
    ]
