"""Options and arguments that verbs of more than one file take."""

from pathlib import Path
from typing import Annotated

import typer

Home = Annotated[
    Path | None,
    typer.Option(
        "--home",
        metavar="DIR",
        help="Folder that holds everything [default: $GRIDLAW_HOME, else .gridlaw here].",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Sweep = Annotated[
    str,
    typer.Argument(
        metavar="SWEEP",
        help="Id of a sweep, its name, or the start of its id.",
        show_default=False,
    ),
]
