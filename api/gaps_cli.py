"""`gridlaw gaps SWEEP`: paired gaps to BF16, how sure they are, and what more seeds would show."""

from typing import Annotated

import typer

from api.options import Home, Json, Sweep

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


def gaps(
    sweep: Sweep,
    home: Home = None,
    margin: Margin = 0.01,
    level: Level = 0.95,
    as_json: Json = False,
) -> None:
    """Print the gap of each cell and recipe to BF16, with intervals.

    A gap is the loss of a run less that of the BF16 run which differs in the recipe alone, in nats
    per token and in percent. Intervals are over seeds where there are repeats, else over models;
    beside them the noise between seeds, whether a gap lies within a margin, and how many seeds
    would tell it from zero. What has no partner is listed with the reason.
    """
    from api.gap_tables import gap_lines
    from api.gap_views import GapsView
    from api.opening import reading
    from api.terminal import answer_console, print_json, print_lines
    from orchestrator.settings import load_settings
    from sweeps.answer import answer

    with reading(load_settings(home=home)) as service:
        sweep_id = service.show(sweep).sweep_id
        found = answer(service.records(sweep_id), level=level, margin=margin)
    if as_json:
        print_json(GapsView.of(sweep_id, found).model_dump(mode="json"))
    else:
        print_lines(answer_console(), gap_lines(found))
