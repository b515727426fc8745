"""Training of each run as one row of text: how fast it went, and whether it was well.

tokens a second, MFU      median over the reports of the run's curve
memory                    the most that was told
gradient norm             median and largest, before clipping
update ratio              of the last step that told one
imbalance                 worst told: the busiest expert's load over the mean load
"""

from collections.abc import Iterable, Sequence
from statistics import median

from dashboards.sheets import Sheet
from dashboards.wording import MISSING, constant, count
from sweeps.metrics import StepMetrics
from sweeps.records import RunRecord


def training_sheet(records: Iterable[RunRecord]) -> Sheet:
    """Every run that reported a step."""
    return Sheet(
        key="training",
        caption="Training of each run: tokens per second and model FLOPs utilization (exact FLOPs "
        "of the model over the device’s dense BF16 peak, of a CPU over its measured BF16 GEMM "
        "rate) are medians over its reports; gradient norms are before clipping; the update ratio "
        "is the norm of a step’s change of all matrices over their own, at the end; imbalance is "
        "the busiest expert’s load over the mean load, at worst.",
        columns=(
            *("Run", "#Tokens per second", "#MFU", "#Memory", "#Gradient norm, median"),
            *("#Largest", "#Update ratio", "#Imbalance"),
        ),
        rows=tuple((record.spec.label, *_row(record.curve)) for record in records if record.curve),
    )


def _row(curve: Sequence[StepMetrics]) -> tuple[str, ...]:
    memory = _told(point.memory_bytes for point in curve)
    mfu = _told(point.mfu for point in curve)
    ratios = _told(point.update_ratio for point in curve)
    loads = _told(point.imbalance for point in curve)
    norms = [point.gradient_norm for point in curve]
    return (
        count(median(point.tokens_per_second for point in curve)),
        f"{100 * median(mfu):.1f} %" if mfu else MISSING,
        f"{max(memory) / 2**30:.2f} GiB" if memory else MISSING,
        constant(median(norms)),
        constant(max(norms)),
        constant(ratios[-1]) if ratios else MISSING,
        f"{max(loads):.2f}" if loads else MISSING,
    )


def _told(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
