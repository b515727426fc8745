"""The reporting checklist: what a reader needs to fit the same data again, or to doubt the fit.

    counting   N, FLOPs, D                     data       corpus, tokenizer, held-out set
    training   every setting of every run      runs       seeds, outcomes, what is not fitted
    fit        law, loss of the residuals, starts, resamples, hashes, the command that refits
    software   versions

An item that several runs have differently lists all its values. What a file of runs cannot say
stands as `not recorded`. Source of the items: Li et al. 2025, (Mis)Fitting (arXiv 2502.18969), who
found most of them missing in most papers.
"""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from platform import python_version
from typing import Any

from sweeps.answer import CONVENTIONS
from sweeps.fits.result import Fit
from sweeps.measured import distinct
from sweeps.plain import plain
from sweeps.records import RunRecord
from sweeps.tables.kept_fit import fit_id
from sweeps.tables.table import Column, Kind, Table, tabulate

NOT_RECORDED = "not recorded"
SOFTWARE = ("gridlaw", "numpy", "scipy")
SPEC_SECTIONS = ("corpus", "tokenizer", "evaluation", "training", "health", "resources")
UNKNOWN = (
    ("counting", "N"),
    ("counting", "flops"),
    ("data", "corpus"),
    ("data", "tokenizer"),
    ("data", "evaluation"),
    ("training", "learning rate, batch, schedule, optimizer"),
    ("runs", "seeds"),
)
"""What the fit of a file cannot say, and its author must."""

EXPORTED = (
    "points.csv",
    "--arm-col recipe --group-col cluster --label-col label --excluded-col excluded",
)
"""What fits a sweep again: its exported points, and what their columns are."""

ANY_FILE = ("FILE", "(with the columns and rows as they were chosen)")

CHECKLIST_COLUMNS = (
    Column(name="section", kind=Kind.TEXT, meaning="What the item is about."),
    Column(name="item", kind=Kind.TEXT, meaning="What a reader has to know."),
    Column(name="value", kind=Kind.TEXT, meaning="What it is here."),
)

Item = tuple[str, str, str]


def checklist(fits: Sequence[Fit], records: Sequence[RunRecord] | None = None) -> Table:
    """The checklist of fits.

    Args:
        fits: What was fitted.
        records: The runs behind them; None where a file holds no more than N, D and losses.
    """
    known = _unknown() if records is None else _known(records)
    file, columns = ANY_FILE if records is None else EXPORTED
    commands = dict.fromkeys(refit_command(fit, file, columns) for fit in fits)
    items = [
        *known,
        *((f"fit of {fit.label}", *item) for fit in fits for item in _of_fit(fit).items()),
        *(("fits", "to fit them again", command) for command in commands),
        *_software(),
    ]
    return tabulate(
        "checklist",
        "A row is one thing that a reader needs to know to fit the data again.",
        CHECKLIST_COLUMNS,
        ({"section": section, "item": item, "value": value} for section, item, value in items),
    )


def refit_command(fit: Fit, file: str, columns: str) -> str:
    """What fits a file of the same rows in the same way."""
    asked = fit.settings
    words = {
        "--joint": ",".join(asked.effects) if len(fit.arms) > 1 else None,
        "--law": asked.law,
        "--delta": None if asked.delta is None else f"{asked.delta!r}",
        "--residual": asked.residual.value,
        "--diverged": asked.diverged.value,
        "--resamples": str(asked.resamples),
        "--seed": str(asked.seed),
    }
    given = [f"{option} {shlex.quote(word)}" for option, word in words.items() if word is not None]
    return " ".join(["gridlaw fit", file, columns, *given])


def _unknown() -> Iterator[Item]:
    for section, item in UNKNOWN:
        yield section, item, NOT_RECORDED


def _known(records: Sequence[RunRecord]) -> Iterator[Item]:
    runs = distinct(records)
    for name in ("N", "tokens", "flops", "loss", "gap"):
        yield "counting", name, CONVENTIONS[name]
    yield (
        "counting",
        "models",
        "; ".join(
            dict.fromkeys(
                f"{run.spec.model.name}: N {run.N}, {run.flops_per_token:.6g} FLOPs per token "
                f"({run.flops_per_token / run.N:.2f} N)"
                for run in sorted(runs, key=lambda run: run.N)
            )
        ),
    )
    for section in SPEC_SECTIONS:
        values = [_flat(plain(getattr(run.spec, section))) for run in runs]
        for key in dict.fromkeys(key for value in values for key in value):
            yield section, key, _distinct([value.get(key) for value in values])
    for key in ("numerics_version", "training_version"):
        yield "training", key, _distinct([getattr(run.spec, key) for run in runs])
    yield "runs", "seeds", _distinct([run.spec.seeds.label for run in runs])
    yield "runs", "recipes", _distinct([run.spec.recipe.name for run in runs])
    outcomes = Counter(run.outcome.value for run in runs)
    yield "runs", "outcomes", ", ".join(f"{count} {name}" for name, count in outcomes.items())
    devices = [run.preflight and run.preflight.device for run in runs]
    yield "runs", "devices", _distinct(devices, NOT_RECORDED)


def _of_fit(fit: Fit) -> dict[str, str]:
    asked, solution = fit.settings, fit.solution
    residual = "ln(predicted / observed)" if asked.residual == "log" else "predicted - observed"
    found = {
        "fit id": fit_id(fit),
        "input hash": f"{fit.input_hash} (SHA-256 over the sorted rows, first 16 digits)",
        "method version": str(fit.method_version),
        "law asked for": asked.law,
        "law fitted": fit.law_name,
        "status": fit.status.value,
        "points, cells, clusters": f"{fit.n_points}, {fit.n_cells}, {fit.n_clusters}",
        "range of N": _range(fit.N_range),
        "range of D": _range(fit.D_range),
        "range of D/N": _range(fit.ratio_range),
        "not fitted": _excluded(fit),
        "policy for diverged runs": asked.diverged.value,
        "outliers, fitted all the same": str(len(fit.outliers)),
        "residual": f"{residual}, Huber loss, summed over points",
        "seed of the draws": str(asked.seed),
    }
    if solution is not None:
        delta = "infinite (least squares)" if solution.delta is None else f"{solution.delta:.6g}"
        chosen = " (taken from the data)" if asked.delta is None and solution.delta else ""
        found |= {
            "formula": solution.law.formula,
            "Huber delta": delta + chosen,
            "objective": f"{solution.objective:.10g}",
            "starts": f"{solution.starts}, {solution.starts_agreeing} of them at the best optimum",
            "on a bound": ", ".join(solution.bounds_hit) or "nothing",
            "condition number": f"{solution.condition:.3g}",
            "intervals": f"95 %, {solution.method}, {solution.samples.rows} draws",
        }
    return found


def _software() -> Iterator[Item]:
    yield "software", "python", python_version()
    for name in SOFTWARE:
        yield "software", name, version(name)


def _excluded(fit: Fit) -> str:
    reasons = Counter(str(item.reason) for item in fit.excluded)
    return ", ".join(f"{count} {reason}" for reason, count in reasons.items()) or "nothing"


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, Mapping):
        found: dict[str, Any] = {}
        for key, item in value.items():
            found |= _flat(item, f"{path}.{key}" if path else key)
        return found
    return {path: value}


def _distinct(values: Sequence[Any], absent: str = "none") -> str:
    return "; ".join(dict.fromkeys(absent if value is None else str(value) for value in values))


def _range(ends: tuple[float, float] | None) -> str:
    return "none" if ends is None else f"{ends[0]:.6g} to {ends[1]:.6g}"
