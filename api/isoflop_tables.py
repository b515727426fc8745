"""What `gridlaw isoflop` prints for people: a line for each budget, then what they say together."""

from collections.abc import Iterator

from rich.console import RenderableType

from api.fit_tables import fit_lines
from api.terminal import MISSING, heading, number, plain_table
from sweeps.fits.isoflop import Valley
from sweeps.isoflop_answer import IsoFlopAnswer


def isoflop_lines(found: IsoFlopAnswer) -> Iterator[RenderableType]:
    """Budgets, exponents, frontier."""
    yield heading("IsoFLOP parabolas in ln N (loss in nats per token, 95 % intervals)")
    table = plain_table(
        left=(), right=("C", "points", "N_opt", "95 % interval", "D_opt", "loss", "bias of N_opt")
    )
    table.add_column("why not", overflow="fold")
    for valley in found.curves.valleys:
        table.add_row(*_cells(valley), valley.reason)
    yield table
    yield from found.sentences
    yield ""
    yield from fit_lines([found.frontier])


def _cells(valley: Valley) -> tuple[str, ...]:
    lowest = valley.minimum
    bias = number(valley.bias, ".3f")
    head = (f"{valley.C:.3g}", str(valley.n_points))
    if lowest is None:
        return (*head, MISSING, MISSING, MISSING, MISSING, bias)
    low, high = lowest.N_range
    ends = f"{low:.3g} to {high:.3g}"
    return (*head, f"{lowest.N:.3g}", ends, f"{lowest.D:.3g}", f"{lowest.loss:.4f}", bias)
