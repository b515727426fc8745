"""`python -m benchmarks`: run benchmarks, print their tables and keep their figures as JSON.

    exit code 0     done
    exit code 1     could not be done
    exit code 2     the request makes no sense

Standard output has the tables; what goes on is said on standard error.
"""

import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated, NoReturn

import torch
import typer

from api.terminal import answer_console, print_lines, side_console
from benchmarks.results import Result, Setting, write
from kernels.formats import GRIDS
from sweeps.errors import GridlawError, InputError
from workers.device import device_at_hand

RESULTS = Path(__file__).resolve().parent / "results"

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


class Benchmark(StrEnum):
    """The modules that have a `run`."""

    KERNELS = "kernels"
    STEP = "step"
    TRAIN = "train"
    PEERS = "peers"
    FITS = "fits"


class Device(StrEnum):
    """What computes."""

    CPU = "cpu"
    CUDA = "cuda"


@app.command()
def bench(
    which: Annotated[
        list[Benchmark] | None,
        typer.Argument(
            metavar="BENCHMARK", help="kernels, step, train, peers or fits; all if none."
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Take seconds: rough figures of a selection.")
    ] = False,
    threads: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="CPU threads [default: one, then all]."),
    ] = None,
    device: Annotated[
        Device | None, typer.Option(help="What computes [default: the GPU if there is one].")
    ] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Grid that kernels measures, under an FP32 scale of 1x16; may be repeated.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for the JSON files [default: benchmarks/results, "
            "nothing if quick or with --grid].",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Measure what the kernels cost; print tables and write DIR/BENCHMARK-DEVICE.json.

    kernels: throughput of each grid beside a copy and a cast; of a few on a GPU, where every kernel
    takes seconds to compile. step: a training step of each recipe beside BF16. train: tokens a
    second and MFU of every model that fits. peers: other libraries on the same tensor. fits: a
    scaling law and its resamples beside scipy. Every figure is a ratio within one run or stands
    beside one.
    """
    benchmarks = tuple(which or Benchmark)
    grids = _grids(grid or (), benchmarks)
    setting = _setting(device, threads, grids, quick=quick)
    folder = out or (None if quick or grids else RESULTS)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    side, answers = side_console(), answer_console()
    for benchmark in benchmarks:
        side.print(f"{benchmark} on {setting.device.type} ...")
        result: Result = import_module(f"benchmarks.{benchmark}").run(setting)
        print_lines(answers, (*result.lines(), ""))
        if folder is not None:
            side.print(f"written to {write(result, folder)}")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run benchmarks and end the process.

    Args:
        arguments: Of the command line, the process's own if None.
    """
    try:
        app(args=arguments, prog_name="python -m benchmarks")
    except (GridlawError, OSError) as error:
        typer.echo(f"benchmarks: {error}", err=True)
        sys.exit(2 if isinstance(error, InputError) else 1)
    sys.exit(0)


def _grids(names: Sequence[str], benchmarks: Sequence[Benchmark]) -> tuple[str, ...]:
    """Each once."""
    for name in names:
        if Benchmark.KERNELS not in benchmarks:
            raise InputError(f"--grid {name}: chooses what kernels measures, which is not to run")
        if name not in GRIDS:
            raise InputError(f"--grid {name}: there are {', '.join(GRIDS)}")
    return tuple(dict.fromkeys(names))


def _setting(
    device: Device | None, threads: int | None, grids: tuple[str, ...], *, quick: bool
) -> Setting:
    if device is Device.CPU:
        # Before torch looks for a GPU: what trains takes the one that it finds.
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    found = device_at_hand()
    if device is not None and found.type != device:
        raise InputError(f"--device {device}: torch finds no such device here")
    counts = (threads,) if threads else tuple(sorted({1, torch.get_num_threads()}))
    return Setting(device=found, threads=counts, quick=quick, grids=grids)


if __name__ == "__main__":
    main()
