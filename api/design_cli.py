"""`gridlaw next SWEEP` and `gridlaw power SPEC`: planning, before and between runs."""

from pathlib import Path
from typing import Annotated

import typer

from api.options import Home, Json, Sweep

Want = Annotated[
    str,
    typer.Option(
        "--want",
        metavar="WHAT",
        help="What is to be known better: 'gap(ufp4) at N=1e9, D=20e9', 'loss(bf16) at N=400m, "
        "D=20tpp', alpha, beta, E, 'eff_N(ufp4)', 'C_mult(ufp4)' or 'claim NAME'.",
        show_default=False,
    ),
]
Budget = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="FLOPS",
        help="FLOPs to spend, such as 1e17 [default: those of the sweep].",
        show_default=False,
    ),
]
Sd = Annotated[
    float | None,
    typer.Option(
        "--sd",
        metavar="NATS",
        help="Standard deviation of a pair's gap between seeds [default: measured in this home, "
        "else as seen at such sizes].",
        show_default=False,
    ),
]
Gap = Annotated[
    float | None,
    typer.Option(
        "--gap", metavar="NATS", help="Say how many seeds this gap needs.", show_default=False
    ),
]
Level = Annotated[
    float, typer.Option("--level", metavar="LEVEL", help="Confidence of the two-sided test.")
]
SpecFile = Annotated[
    Path, typer.Argument(metavar="SPEC", help="Sweep file (YAML).", show_default=False)
]


def next_runs(
    sweep: Sweep,
    want: Want,
    home: Home = None,
    budget: Budget = None,
    sd: Sd = None,
    as_json: Json = False,
) -> None:
    """Say which runs would narrow a quantity most, or decide a claim.

    Cells of the ladder by what they take off the variance for each FLOP, with the interval now and
    after; one near the place asked about, and one size held out to test the fit.
    """
    from api.design_asks import ask_next
    from api.design_tables import next_lines
    from api.design_views import NextView
    from api.opening import reading
    from api.terminal import answer_console, print_json, print_lines
    from orchestrator.settings import load_settings
    from sweeps.design.wanted import parse_spend

    flops = None if budget is None else parse_spend(budget)
    with reading(load_settings(home=home)) as service:
        sweep_id = service.show(sweep).sweep_id
        found = ask_next(service, sweep_id, want, budget=flops, sd=sd)
    if as_json:
        print_json(NextView.of(sweep_id, found).model_dump(mode="json"))
    else:
        print_lines(answer_console(), next_lines(found))


def power(
    spec: SpecFile,
    home: Home = None,
    sd: Sd = None,
    gap: Gap = None,
    level: Level = 0.95,
    as_json: Json = False,
) -> None:
    """Say which gaps and claims a sweep will resolve, before it runs; stores nothing.

    The smallest gap that its seeds tell from none in 80 % of cases, at one model and for the mean
    over models, and how far from its boundary each claim must lie to be decided.
    """
    from api.design_asks import ask_power
    from api.design_tables import power_lines
    from api.design_views import PowerView
    from api.opening import planning
    from api.terminal import answer_console, print_json, print_lines
    from orchestrator.settings import load_settings
    from sweeps.spec import load_spec

    with planning(load_settings(home=home)) as service:
        found = ask_power(service, load_spec(spec), sd=sd, gap=gap, level=level)
    if as_json:
        print_json(PowerView.of(found).model_dump(mode="json"))
    else:
        print_lines(answer_console(), power_lines(found))
