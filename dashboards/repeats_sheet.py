"""Repeats sheet: what repeated seeds say beyond a mean gap and its interval.

Other intervals of the mean, the noise between seeds, and how many seeds would show the gap.
"""

from collections.abc import Sequence

from dashboards.sheets import Sheet
from dashboards.wording import MISSING, interval, nats
from sweeps.gaps.summaries import GapSummary
from sweeps.intervals import Ends


def repeats_sheet(summaries: Sequence[GapSummary]) -> Sheet:
    """One row for each recipe with repeated seeds."""
    return Sheet(
        key="repeats",
        caption="Repeated seeds, nats per token with 95 % intervals. Bootstrap: studentised, over "
        "(model, seed) at these models; over models: t, of models like these. Pair s.d.: of one "
        "pair’s gap between seeds; ρ: correlation of its two losses; horizons of one run add no "
        "degrees. Detects: smallest mean gap told from zero with 80 % power; to resolve: seeds of "
        "each model that tell this gap from zero; to halve: seeds for an interval half as wide.",
        columns=(
            *("Recipe", "#Bootstrap", "#Over models", "#Runs", "#Degrees", "#Pair s.d."),
            *("#Its interval", "#ρ", "#Interval of ρ", "#Detects", "#Seeds", "#To resolve"),
            "#To halve",
        ),
        rows=tuple(_row(summary) for summary in summaries if summary.noise is not None),
    )


def _row(summary: GapSummary) -> tuple[str, ...]:
    noise, sure, needed = summary.noise, summary.certainty, summary.seeds_needed
    assert noise is not None
    detects = sure.detectable if needed is not None and sure is not None else None
    return (
        summary.recipe,
        interval(*(summary.bootstrap or (None, None))),
        interval(*(summary.over_models or (None, None))),
        str(noise.n_clusters),
        str(noise.df),
        nats(noise.pair_sd),
        _within(noise.pair_interval, ".4f"),
        MISSING if noise.rho is None else _signed(f"{noise.rho:.2f}"),
        _within(noise.rho_interval, "+.2f"),
        nats(detects),
        MISSING if needed is None else str(needed.present),
        _count(None if needed is None else needed.to_resolve),
        _count(None if needed is None else needed.to_halve),
    )


def _within(ends: Ends | None, form: str) -> str:
    return MISSING if ends is None else _signed(f"[{ends[0]:{form}}, {ends[1]:{form}}]")


def _signed(text: str) -> str:
    return text.replace("-", "−")


def _count(value: int | None) -> str:
    return MISSING if value is None else f"{value:,}"
