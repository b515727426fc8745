"""`gridlaw claims SWEEP`: what the runs of a sweep say of each of its claims."""

from typing import Annotated

import typer

from api.options import Home, Json, Sweep

Name = Annotated[
    list[str] | None,
    typer.Option(
        "--claim",
        metavar="NAME",
        help="Print this claim alone; may be given several times.",
        show_default=False,
    ),
]


def claims(sweep: Sweep, home: Home = None, names: Name = None, as_json: Json = False) -> None:
    """Print the verdict on each claim of a sweep.

    A claim is a statement about gaps in the sweep file. Each is supported, contradicted or
    undecided, with estimate, interval, n and p; what is undecided says which runs would decide it.
    """
    from api.claim_tables import claim_lines
    from api.claim_views import ClaimsView
    from api.opening import reading
    from api.terminal import answer_console, print_json, print_lines
    from orchestrator.settings import load_settings
    from sweeps.claims.judge import named

    with reading(load_settings(home=home)) as service:
        sweep_id = service.show(sweep).sweep_id
        found = named(service.judgements(sweep_id), names or ())
    if as_json:
        print_json(ClaimsView.of(sweep_id, found).model_dump(mode="json"))
    else:
        print_lines(answer_console(), claim_lines(sweep_id, found))
