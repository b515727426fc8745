"""`gridlaw claims`: what runs say of the claims of a sweep, or of statements about a file."""

from typing import Annotated

import typer

from api.column_options import (
    ArmCol,
    Baseline,
    DCol,
    EvalCol,
    ExcludedCol,
    GroupCol,
    HashCol,
    LabelCol,
    LossCol,
    NCol,
    PhaseCol,
    SeedCol,
    Target,
    TokenizerCol,
    Where,
    given,
)
from api.options import Home, Json

Name = Annotated[
    list[str] | None,
    typer.Option(
        "--claim",
        metavar="NAME",
        help="Print this claim alone; may be given several times.",
        show_default=False,
    ),
]
Statements = Annotated[
    list[str] | None,
    typer.Option(
        "--statement",
        metavar="STATEMENT",
        help='About the arms of a file, as in "gap(A) < gap(B)"; may be given several times.',
        show_default=False,
    ),
]
Level = Annotated[
    float | None,
    typer.Option(
        "--level",
        metavar="LEVEL",
        help="Of the intervals that decide on a file [default: 0.95].",
        show_default=False,
    ),
]


def claims(
    target: Target,
    home: Home = None,
    names: Name = None,
    statements: Statements = None,
    n_col: NCol = None,
    d_col: DCol = None,
    loss_col: LossCol = None,
    arm_col: ArmCol = None,
    baseline: Baseline = None,
    seed_col: SeedCol = None,
    group_col: GroupCol = None,
    where: Where = None,
    excluded_col: ExcludedCol = None,
    label_col: LabelCol = None,
    hash_col: HashCol = None,
    tokenizer_col: TokenizerCol = None,
    eval_col: EvalCol = None,
    phase_col: PhaseCol = None,
    level: Level = None,
    as_json: Json = False,
) -> None:
    """Print the verdict on each claim of a sweep.

    A claim is a statement about gaps in the sweep file. Each is supported, contradicted or
    undecided, with estimate, interval, n and p; what is undecided says which runs would decide it.

    Of a file each --statement is judged on rows at equal N, D and, with --seed-col, seed; cells are
    the repeats, or the seeds where they are named.
    """
    from api import file_verbs
    from api.claim_tables import claim_lines
    from api.claim_views import ClaimsView
    from api.file_rows import is_file, refuse_on_sweep
    from api.opening import reading
    from api.terminal import answer_console, print_json, print_lines
    from orchestrator.settings import load_settings
    from sweeps.claims.judge import named
    from sweeps.errors import InputError
    from sweeps.intervals import LEVEL

    of_file = given(locals())
    if is_file(target):
        if names:
            raise InputError(f"--claim is for a sweep, and {target} is a file of runs")
        file_verbs.claims(
            target,
            of_file,
            statements or (),
            level=LEVEL if level is None else level,
            as_json=as_json,
        )
        return
    own = {"--statement": statements or None, "--level": level}
    refuse_on_sweep(target, [*of_file, *(name for name, value in own.items() if value is not None)])
    with reading(load_settings(home=home)) as service:
        sweep_id = service.show(target).sweep_id
        found = named(service.judgements(sweep_id), names or ())
    if as_json:
        print_json(ClaimsView.of(sweep_id, found).model_dump(mode="json"))
    else:
        print_lines(answer_console(), claim_lines(sweep_id, found))
