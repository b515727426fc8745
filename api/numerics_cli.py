"""`gridlaw numerics VERB`: what each verb takes.

    question → `api.numerics_process.ask` → answer → JSON, or lines of `api.numerics_tables`

Numbers come from the numerics process; nothing here computes. Verbs import what they need when they
are called, so that `--help` is there at once.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from api import numerics_run_cli
from api.options import Json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rich.console import RenderableType

    from sweeps.questions import Question

app = typer.Typer(
    name="numerics",
    help="Look at quantizers: on known distributions, by bin, on a tensor or a run of yours.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

app.add_typer(numerics_run_cli.app)

Answer = TypeVar("Answer")
Samples = Annotated[
    int, typer.Option("--samples", metavar="N", help="Elements drawn of each distribution.")
]


@app.command()
def table(samples: Samples = 1 << 21, as_json: Json = False) -> None:
    """Print SQNR and gain of E2M1 and uniform blocks on known distributions.

    Gaussian, Laplace, Student-t, a SwiGLU product and outliers; without and with an RHT of 16; to
    nearest and stochastically; under each kind of block scale; and of whole GEMMs.
    """
    from api.numerics_tables import survey_lines
    from kernels.quality import Survey
    from sweeps.questions import TableQuestion

    _answer(TableQuestion(samples=samples), Survey, survey_lines, as_json=as_json)


@app.command()
def bias(
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="GRID",
            help="Name of a grid, or magnitudes as in 0,1,2,4.",
            show_default=False,
        ),
    ],
    samples: Samples = 1 << 21,
    as_json: Json = False,
) -> None:
    """Print the mean rounding error in each bin of a grid.

    In closed form, and measured on Gaussian blocks of 16 under an FP32 scale.
    """
    from api.numerics_tables import bias_lines
    from kernels.bias import GridBias
    from sweeps.questions import BiasQuestion

    _answer(BiasQuestion(format=format_, samples=samples), GridBias, bias_lines, as_json=as_json)


@app.command()
def tensor(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE[:NAME]",
            help="A .npy or .safetensors file; NAME is that of a tensor in the latter.",
            show_default=False,
        ),
    ],
    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            metavar="GRID",
            help="As for bias; may be given several times [default: e2m1 and int4].",
            show_default=False,
        ),
    ] = None,
    scale: Annotated[
        str, typer.Option(metavar="SCALE", help="fp32, fp32-5bit, e4m3, e8m0-floor, ...")
    ] = "fp32",
    block: Annotated[
        str, typer.Option(metavar="BLOCK", help="Across x along, as in 1x16; or row, or tensor.")
    ] = "1x16",
    rht: Annotated[
        int, typer.Option(metavar="N", help="Size of the Hadamard matrix; 0 for none.")
    ] = 16,
    axis: Annotated[
        int, typer.Option(metavar="AXIS", help="Of the tensor, along which blocks lie.")
    ] = -1,
    as_json: Json = False,
) -> None:
    """Print what quantizers make of a tensor of yours, without and with an RHT.

    SQNR, gain, bucket utilisation, crest factor, underflow and saturation.
    """
    from api.numerics_tables import tensor_lines
    from sweeps.questions import TensorAnswer, TensorQuestion, place_of, scale_of

    path, name = place_of(file, Path.cwd())
    question = TensorQuestion(
        file=path,
        tensor=name,
        axis=axis,
        formats=tuple(formats or ("e2m1", "int4")),
        scale=scale_of(scale),
        block=block,
        rht=rht or None,
    )
    _answer(question, TensorAnswer, tensor_lines, as_json=as_json)


def _answer(
    question: "Question",
    kind: type[Answer],
    lines: "Callable[[Answer], Iterable[RenderableType]]",
    *,
    as_json: bool,
) -> None:
    from api.numerics_process import ask
    from api.terminal import answer_console, print_json, print_lines
    from sweeps.plain import plain

    answer = ask(question, kind)
    if as_json:
        print_json(plain(answer))
    else:
        print_lines(answer_console(), lines(answer))
