"""`gridlaw fit`, `gridlaw fits` and `gridlaw export`: laws of a sweep or of anyone's file."""

from pathlib import Path
from typing import Annotated

import typer

from api.column_options import (
    ArmCol,
    Baseline,
    DCol,
    Delta,
    EvalCol,
    ExcludedCol,
    GroupCol,
    HashCol,
    LabelCol,
    LossCol,
    NCol,
    PhaseCol,
    Target,
    TokenizerCol,
    Where,
    given,
)
from api.options import Home, Json

Effects = Annotated[
    str | None,
    typer.Option(
        "--joint",
        metavar="EFFECTS",
        help="Fit all arms with one law; each but the baseline has its own multiplier of N, D or "
        "C, or its own E, as in N,D.",
        show_default=False,
    ),
]
Law = Annotated[
    str,
    typer.Option(
        "--law",
        metavar="LAW",
        help="auto takes what the data can carry; else chinchilla, gamma, tied, overtraining, ...",
    ),
]
ResidualOption = Annotated[
    str, typer.Option("--residual", metavar="UNIT", help="log (of ln L) or linear (of L).")
]
DivergedOption = Annotated[
    str,
    typer.Option(
        "--diverged",
        metavar="POLICY",
        help="What a diverged run does: 'leave out', 'drop cell' in all arms, or 'refuse'.",
    ),
]
Resamples = Annotated[
    int, typer.Option("--resamples", metavar="NUMBER", help="Draws behind the intervals.")
]
Seed = Annotated[int, typer.Option("--seed", metavar="NUMBER", min=0, help="Of the draws.")]
FitOut = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="Write the fits whole, draws included, to this JSON file.",
        show_default=False,
    ),
]
KeptFit = Annotated[
    str | None,
    typer.Argument(
        metavar="[FIT]", help="Id of a kept fit, or the start of it.", show_default=False
    ),
]
Source = Annotated[
    str,
    typer.Argument(
        metavar="SWEEP|FIT",
        help="A sweep (id, name, or start of its id), or the id of a kept fit.",
        show_default=False,
    ),
]
WhatOption = Annotated[
    str | None,
    typer.Option(
        "--what",
        metavar="TABLE",
        help="endpoints, points, curves, parameters, covariance, dictionary or checklist "
        "[default: endpoints; all of them for a folder].",
        show_default=False,
    ),
]
ExportOut = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="PLACE",
        help="A file that ends in .csv, .parquet or .json, or a folder [default: standard output].",
        show_default=False,
    ),
]
FormatOption = Annotated[
    str,
    typer.Option(
        "--format", metavar="FORMAT", help="csv, parquet or json, where no file ending says it."
    ),
]


def fit(
    target: Target,
    home: Home = None,
    n_col: NCol = None,
    d_col: DCol = None,
    loss_col: LossCol = None,
    group_col: GroupCol = None,
    arm_col: ArmCol = None,
    baseline: Baseline = None,
    joint: Effects = None,
    where: Where = None,
    excluded_col: ExcludedCol = None,
    label_col: LabelCol = None,
    hash_col: HashCol = None,
    tokenizer_col: TokenizerCol = None,
    eval_col: EvalCol = None,
    phase_col: PhaseCol = None,
    law: Law = "auto",
    delta: Delta = None,
    residual: ResidualOption = "log",
    diverged: DivergedOption = "leave out",
    resamples: Resamples = 1000,
    seed: Seed = 0,
    as_json: Json = False,
    out: FitOut = None,
) -> None:
    """Fit scaling laws to a sweep or to a file of runs.

    Constants with 95 % intervals, how other forms do, and plainly what the endpoints cannot
    identify. Of a sweep each recipe is fitted; of a file all rows, or the rows of each arm. Every
    fit is kept in the home, if there is one, under an id that says what was fitted and how.
    """
    from api import fit_verbs, fit_words

    asked = fit_words.settings(
        law=law,
        delta=delta,
        residual=residual,
        diverged=diverged,
        resamples=resamples,
        seed=seed,
        joint=joint,
    )
    of_file = given(locals())
    fit_verbs.fit(target, home, of_file, asked, as_json=as_json, out=out)


def fits(fit: KeptFit = None, home: Home = None, as_json: Json = False) -> None:
    """List the kept fits, or print one of them.

    With --json one fit is printed whole, draws included: enough to draw it again.
    """
    from api import fit_verbs

    fit_verbs.fits(fit, home, as_json=as_json)


def export(
    source: Source,
    home: Home = None,
    what: WhatOption = None,
    form: FormatOption = "csv",
    out: ExportOut = None,
) -> None:
    """Write tables of a sweep or of a kept fit: CSV, Parquet or JSON.

    Endpoints with gaps; the points that were fitted; curves with bands on a grid of N, D and C;
    constants with intervals and covariance; a dictionary of all columns; and the checklist of what
    a reader needs to fit the data again.
    """
    from api import export_verb

    export_verb.export(source, home, what=what, form=form, out=out)
