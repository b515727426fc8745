"""`gridlaw gaps`: paired gaps to BF16 of a sweep, or to a baseline of anyone's file of runs."""

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
    SeedCol,
    Target,
    TokenizerCol,
    Where,
    given,
)
from api.options import Home, Json

Margin = Annotated[
    float,
    typer.Option(
        "--margin",
        metavar="NATS",
        help="Gap per token that counts as none in the equivalence test.",
    ),
]
Level = Annotated[
    float,
    typer.Option("--level", metavar="LEVEL", help="Of intervals and tests, between 0.5 and 1."),
]
Floors = Annotated[
    bool,
    typer.Option(
        "--floors", help="Also test whether a recipe needs an E of its own; takes longer."
    ),
]
BaseLaw = Annotated[
    str | None,
    typer.Option(
        "--law",
        metavar="LAW",
        help="Of the baseline's losses, behind the effective numbers [default: auto].",
        show_default=False,
    ),
]


def gaps(
    target: Target,
    home: Home = None,
    margin: Margin = 0.01,
    level: Level = 0.95,
    floors: Floors = False,
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
    law: BaseLaw = None,
    delta: Delta = None,
    as_json: Json = False,
) -> None:
    """Print the gap of each cell and recipe to BF16, with intervals.

    A gap is the loss of a run less that of the BF16 run which differs in the recipe alone, in nats
    per token and in percent. Intervals are over seeds where there are repeats, else over models;
    beside them the noise between seeds, whether a gap lies within a margin, and how many seeds
    would tell it from zero. What has no partner is listed with the reason.

    Of a file each arm is compared with a baseline at equal N, D and, with --seed-col, seed: mean
    gap, law of the gap, and what the arm is worth in the baseline's parameters, tokens and compute.
    """
    from api import file_verbs
    from api.file_rows import is_file, refuse_on_sweep
    from api.gap_tables import gap_lines
    from api.gap_views import GapsView
    from api.opening import reading
    from api.terminal import answer_console, print_json, print_lines
    from orchestrator.settings import load_settings
    from sweeps.answer import answer
    from sweeps.fits.settings import AUTO, Settings

    of_file = given(locals())
    if is_file(target):
        asked = Settings(law=law or AUTO, delta=delta)
        file_verbs.gaps(
            target, of_file, asked, level=level, margin=margin, floors=floors, as_json=as_json
        )
        return
    base = {"--law": law, "--delta": delta}
    refuse_on_sweep(
        target, [*of_file, *(name for name, value in base.items() if value is not None)]
    )
    with reading(load_settings(home=home)) as service:
        sweep_id = service.show(target).sweep_id
        found = answer(service.records(sweep_id), level=level, margin=margin, floors=floors)
    if as_json:
        print_json(GapsView.of(sweep_id, found).model_dump(mode="json"))
    else:
        print_lines(answer_console(), gap_lines(found, floors=floors))
