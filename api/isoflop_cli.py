"""`gridlaw isoflop FILE`: the best size at each compute budget, from anyone's file of runs."""

from pathlib import Path
from typing import Annotated

import typer

from api.column_options import DCol, LossCol, NCol, Where
from api.options import Json

Runs = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="A file of runs: .csv, .parquet or .json.",
        show_default=False,
    ),
]
Law = Annotated[
    str,
    typer.Option(
        "--law",
        metavar="LAW",
        help="Surface that parabolas are held against: chinchilla, gamma or tied.",
    ),
]


def isoflop(
    runs: Runs,
    n_col: NCol = None,
    d_col: DCol = None,
    loss_col: LossCol = None,
    where: Where = None,
    law: Law = "chinchilla",
    as_json: Json = False,
) -> None:
    """Read the best size at each compute budget off isoFLOP runs.

    Runs whose compute C = 6 N D agrees within 2 % are one budget. A minimum at the edge of the
    sizes, or within the noise, is refused. Beside each stands how far its parabola is off by the
    surface that is fitted to all runs; the minima make the frontier of least loss.
    """
    from api.isoflop_tables import isoflop_lines
    from api.terminal import answer_console, print_json, print_lines
    from sweeps.isoflop_answer import isoflop_answer, to_json
    from sweeps.tables.run_columns import Columns, samples
    from sweeps.tables.run_file import read_frame
    from sweeps.tables.where import select

    frame = read_frame(runs)
    if where is not None:
        frame = select(frame, where)
    given = {"N": n_col, "D": d_col, "loss": loss_col}
    columns = Columns(**{name: column for name, column in given.items() if column is not None})
    (sample,) = samples(frame, columns, label=runs.stem)
    found = isoflop_answer(sample.points, label=runs.stem, law=law)
    if as_json:
        print_json({"file": str(runs)} | to_json(found))
    else:
        print_lines(answer_console(), isoflop_lines(found))
