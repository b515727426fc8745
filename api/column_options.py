"""Options of the verbs that take anyone's file of runs: its columns, its rows, its baseline."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

OF_FILE = (
    "--n-col",
    "--d-col",
    "--loss-col",
    "--group-col",
    "--seed-col",
    "--arm-col",
    "--baseline",
    "--joint",
    "--where",
    "--excluded-col",
    "--label-col",
    "--hash-col",
    "--tokenizer-col",
    "--eval-col",
    "--phase-col",
)
"""Options that choose rows and say what columns mean: only a file has them."""


def given(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Those of `OF_FILE` that a command was given, by name.

    Args:
        arguments: Of the command, by the name that its function has for them.
    """
    named = {f"--{name.replace('_', '-')}": value for name, value in arguments.items()}
    return {name: named[name] for name in OF_FILE if named.get(name) is not None}


def _column(option: str, says: str) -> typer.models.OptionInfo:
    text = f"Column {says}."
    found: typer.models.OptionInfo = typer.Option(
        option, metavar="NAME", help=text, show_default=False
    )
    return found


Target = Annotated[
    str,
    typer.Argument(
        metavar="SWEEP|FILE",
        help="A sweep (id, name, or start of its id), or a file of runs: .csv, .parquet or .json.",
        show_default=False,
    ),
]
NCol = Annotated[str | None, _column("--n-col", "of parameters [default: N]")]
DCol = Annotated[str | None, _column("--d-col", "of training tokens [default: D]")]
LossCol = Annotated[str | None, _column("--loss-col", "of losses, nats per token [default: loss]")]
GroupCol = Annotated[
    str | None, _column("--group-col", "of what a bootstrap draws together, such as the run")
]
ArmCol = Annotated[
    str | None, _column("--arm-col", "of what is fitted apart, such as the format; A,B joins two")
]
SeedCol = Annotated[
    str | None,
    _column("--seed-col", "of seeds: what two paired rows share, and what repeats differ in"),
]
Where = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="CONDITION",
        help="Rows to fit, as in \"N > 1e8 and phase == 'hot'\".",
        show_default=False,
    ),
]
ExcludedCol = Annotated[
    str | None,
    _column("--excluded-col", "that says why a row is not fitted (diverged, ...), else empty"),
]
LabelCol = Annotated[
    str | None, _column("--label-col", "of what an excluded row is called [default: its number]")
]
HashCol = Annotated[
    str | None, _column("--hash-col", "in which repeats of one configuration must agree")
]
TokenizerCol = Annotated[
    str | None, _column("--tokenizer-col", "that must be one value [default: tokenizer, if any]")
]
EvalCol = Annotated[
    str | None, _column("--eval-col", "that must be one value [default: eval_set, if any]")
]
PhaseCol = Annotated[
    str | None,
    _column("--phase-col", "of the schedule; must be one value [default: phase, if any]"),
]
Baseline = Annotated[
    str | None,
    typer.Option(
        "--baseline",
        metavar="ARM",
        help="The arm that comes first [default: bf16 if there is one].",
        show_default=False,
    ),
]
Delta = Annotated[
    float | None,
    typer.Option(
        "--delta",
        metavar="DELTA",
        help="Huber threshold; inf is least squares, 1e-3 that of Hoffmann et al. "
        "[default: from the data].",
        show_default=False,
    ),
]
