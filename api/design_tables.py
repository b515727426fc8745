"""What `gridlaw next` and `gridlaw power` print for people."""

from collections.abc import Iterator

from rich.console import RenderableType

from api.terminal import heading, number, percent, plain_table
from sweeps.budget import format_flops, format_tokens
from sweeps.design.advice import resolution_line
from sweeps.design.next_seeds import NextSeeds
from sweeps.design.resolving import Resolution
from sweeps.design.suggested import Expected, NextCells
from sweeps.gaps.power import MOST_PAIRS
from sweeps.wording import plural

Lines = Iterator[RenderableType]


def next_lines(found: NextCells | NextSeeds) -> Lines:
    """The runs to make next."""
    match found:
        case NextCells():
            yield from _cell_lines(found)
        case NextSeeds(judgement=judgement):
            yield heading(f"{judgement.claim.name}: {judgement.verdict}")
            yield judgement.claim.statement
            yield from found.sentences


def power_lines(found: Resolution) -> Lines:
    """What the seeds of a sweep will resolve."""
    yield resolution_line(found)
    if found.gap is not None:
        yield (
            f"A gap of {abs(found.gap):g} nats needs {_seeds(found.seeds_at_one)} at one model and "
            f"budget, {_seeds(found.seeds_at_mean)} of each model for the mean over "
            f"{plural(len(found.models), 'model')}."
        )
    if found.claims:
        yield ""
        yield heading(
            f"Claims: distance from the boundary that {percent(found.power)} of cases decide, nats"
        )
        table = plain_table(left=("claim", "models"), right=("s.d.", "distance", "level"))
        table.add_column("statement", overflow="fold")
        for claim in found.claims:
            table.add_row(
                claim.name,
                claim.models.value,
                f"{claim.sd:.2g}",
                number(claim.distance, ".2g"),
                f"{claim.level:g}",
                claim.statement,
            )
        yield table


def _cell_lines(found: NextCells) -> Lines:
    unit = f" {found.unit}" if found.unit else ""
    where = f" at N = {found.place.N:.3g}, D = {found.place.D:.3g}" if found.unit else ""
    yield heading(f"{found.wanted}: about {found.guess:.3g}{unit}{where} ({found.law})")
    yield f"Now: {_expected(found.now, unit)}"
    if found.planned != found.now:
        yield f"When all that is planned is measured: {_expected(found.planned, unit)}"
    if not found.suggestions:
        yield f"Nothing is suggested: no cell helps within {format_flops(found.budget)}."
    else:
        yield f"With the runs below: {_expected(found.after, unit)}"
        yield ""
        yield heading(
            f"Next runs, in this order: {format_flops(found.flops)} of {format_flops(found.budget)}"
        )
        table = plain_table(left=("model",), right=("tokens", "D/N", "seed", "FLOPs", "then +-"))
        table.add_column("recipes", overflow="fold")
        table.add_column("why", overflow="fold")
        for one in found.suggestions:
            table.add_row(
                one.model,
                format_tokens(one.D),
                f"{one.D / one.N:.3g}",
                str(one.seed),
                format_flops(one.flops),
                number(one.expected.half_width, ".2g"),
                " ".join(one.recipes),
                one.why.value,
            )
        yield table
        yield ""
        yield (
            "narrows: takes most off the variance for its cost. anchor: lies at the D/N asked "
            "about, near its N. hold-out: is kept out of the fit, to test what it predicts."
        )
    yield (
        f"Reckoned with an s.d. of {found.noise.sd:.2g} nats between seeds of a pair "
        f"({found.noise.source}); the intervals hold what a law was seen to miss at such distances."
    )
    yield from found.notes


def _expected(expected: Expected, unit: str) -> str:
    cells = plural(expected.n_cells, "cell")
    if expected.half_width is None:
        return f"not determined by {cells}: {expected.reason}."
    return f"+- {expected.half_width:.2g}{unit} (95 %) from {cells}."


def _seeds(number_of: int | None) -> str:
    return f"more than {MOST_PAIRS:,} seeds" if number_of is None else plural(number_of, "seed")
