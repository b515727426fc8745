"""`gridlaw numerics run` and `gridlaw numerics ptq`: what each takes; verbs of `numerics_cli`."""

from pathlib import Path
from typing import Annotated

import typer

from api.options import Home, Json

app = typer.Typer()

Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="Id of a run, its label, or the start of its id.", show_default=False
    ),
]


@app.command(name="run")
def run_quality(
    run: Run,
    recipes: Annotated[
        list[str] | None,
        typer.Option(
            "--recipe",
            metavar="RECIPE",
            help="Look at the run under this one: a name, or a mapping as in a sweep file; may be "
            "given several times [default: the run's own].",
            show_default=False,
        ),
    ] = None,
    layers: Annotated[
        list[str] | None,
        typer.Option(
            "--layers",
            metavar="GLOB",
            help="Layers by name, as in blocks.0.*; may be given several times [default: all].",
            show_default=False,
        ),
    ] = None,
    is_logged: Annotated[
        bool,
        typer.Option(
            "--logged", help="Print what was diagnosed while the run trained, and measure nothing."
        ),
    ] = False,
    home: Home = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Write the figures as an HTML page too.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print what recipes do to the numbers in a run's newest checkpoint.

    For each layer, operand and GEMM: SQNR without and with RHT, gain, bucket utilisation, crest
    factor, underflow and saturation; output gains and their product over depth; how many weights
    change their code in a step, swing back, and differ between fprop and dgrad. Three steps are
    made in memory, as the run would go on; nothing is written.
    """
    from api import numerics_run_verbs
    from orchestrator.settings import load_settings
    from sweeps.errors import InputError

    settings = load_settings(home=home)
    if is_logged:
        if recipes or layers or out:
            raise InputError(
                "--logged measures nothing, so it takes no --recipe, --layers or --out"
            )
        numerics_run_verbs.logged(run, settings, as_json=as_json)
        return
    numerics_run_verbs.run(
        run,
        settings,
        recipes=tuple(recipes or ()),
        layers=tuple(layers or ["*"]),
        out=out,
        as_json=as_json,
    )


@app.command()
def ptq(
    run: Run,
    recipes: Annotated[
        str,
        typer.Option("--recipes", metavar="NAMES", help="As in ufp4,nvfp4.", show_default=False),
    ],
    is_weights_only: Annotated[
        bool, typer.Option("--weights-only", help="Leave activations as they are.")
    ] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Print what casting the endpoints of a BF16 run costs, beside training in low precision.

    Held-out loss with weights and activations cast by the fprop of each recipe, less that of the
    endpoint itself, at each measured budget; and the gap of the run that was trained with the
    recipe, where this home has one. Standard errors are paired over sequences.
    """
    from api import numerics_run_verbs
    from orchestrator.settings import load_settings
    from sweeps.errors import InputError

    names = tuple(filter(None, (name.strip() for name in recipes.split(","))))
    if not names:
        raise InputError("--recipes names no recipe, as in ufp4,nvfp4")
    numerics_run_verbs.ptq(
        run, load_settings(home=home), recipes=names, weights_only=is_weights_only, as_json=as_json
    )
