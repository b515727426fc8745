"""What the two front doors say about sweeps and runs, as JSON: REST bodies and `--json` alike.

Times are RFC 3339 in UTC. A number that is not finite is null with a tag beside it (`loss: null,
loss_tag: nan`); tags come from `sweeps/plain.py`. Gaps and fits pass through as the answer's own
JSON, so that no number is written twice.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict

from kernels.verdict import Check, Preflight
from orchestrator.states import Reason, State
from orchestrator.summaries import Progress, RunSummary, SweepSummary
from sweeps.plain import plain
from sweeps.plan import Plan
from sweeps.plan_json import plan_json
from sweeps.price import Price


class Standing(StrEnum):
    """A sweep in one word."""

    QUEUED = "queued"  # nothing of it runs yet, or any more until a scheduler comes
    RUNNING = "running"
    CANCELLING = "cancelling"  # its running runs are being stopped
    CANCELLED = "cancelled"
    OVER = "over"  # nothing of it waits or runs; its runs say how they ended


def standing(sweep: SweepSummary) -> Standing:
    """The word for a sweep."""
    if sweep.is_over:
        return Standing.CANCELLED if sweep.runs[State.CANCELLED] else Standing.OVER
    if sweep.cancelled_at is not None:
        return Standing.CANCELLING
    return Standing.RUNNING if sweep.runs[State.RUNNING] else Standing.QUEUED


class View(BaseModel):
    """A frozen body without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class PlanView(View):
    """A sweep laid out, and what it still costs.

    `cells`, `runs` and `reused` are counts; `tokens`, `flops` and `eta_seconds` what is left;
    `warnings` say what is seldom meant and what is padded, `design` what the sweep cannot tell and
    which gap it resolves.
    """

    sweep_id: str
    cells: int
    runs: int
    reused: int
    tokens: int
    flops: int
    eta_seconds: float
    warnings: list[str]
    design: list[str]
    corpus: dict[str, Any]
    models: list[dict[str, Any]]
    planned_cells: list[dict[str, Any]]
    planned_runs: list[dict[str, Any]]

    @classmethod
    def of(cls, plan: Plan, cost: Price) -> "PlanView":
        """From a plan and its price."""
        return cls.model_validate(plan_json(plan, cost))


class SweepView(View):
    """A sweep in a list; `runs` counts its runs by state."""

    sweep_id: str
    name: str
    created_at: AwareDatetime
    cancelled_at: AwareDatetime | None
    state: Standing
    num_runs: int
    runs: dict[State, int]

    @classmethod
    def of(cls, summary: SweepSummary) -> "SweepView":
        """From a summary."""
        return cls.model_validate(_sweep_values(summary))


class SweepPage(View):
    """Sweeps, newest first; `next_cursor` asks for those after them, null at the end."""

    sweeps: list[SweepView]
    next_cursor: str | None


class RunningView(View):
    """A run under way: tokens behind it, of all its paths, and its newest metrics or their tags."""

    model_config = ConfigDict(extra="allow")

    run_id: str
    label: str
    horizon: int | None
    tokens: int
    total_tokens: int
    loss: float | None
    tokens_per_second: float | None


class ProgressView(View):
    """Where a sweep stands; a cell is one endpoint."""

    cells_done: int
    cells_total: int
    tokens_done: int
    tokens_total: int
    eta_seconds: float | None
    running: list[RunningView]


class SweepDetail(SweepView):
    """One sweep with its progress and its spec."""

    progress: ProgressView
    spec: dict[str, Any]

    @classmethod
    def with_progress(
        cls, summary: SweepSummary, progress: Progress, spec: Mapping[str, Any]
    ) -> "SweepDetail":
        """From what the service says of one sweep."""
        standing = plain(progress)
        del standing["runs"]
        return cls.model_validate(
            {**_sweep_values(summary), "progress": standing, "spec": dict(spec)}
        )


class PreflightView(View):
    """What a preflight found on a device; it took so many `seconds`."""

    device: str
    passed: bool
    seconds: float
    checks: list[Check]

    @classmethod
    def of(cls, preflight: Preflight) -> "PreflightView":
        """From what was found."""
        return cls(
            device=preflight.device,
            passed=preflight.passed,
            seconds=preflight.seconds,
            checks=list(preflight.checks),
        )


class RunView(View):
    """One run of a sweep; `measured` are those of its `horizons` that have an endpoint.

    `preflight` is that of the newest attempt which had anything to train.
    """

    run_id: str
    label: str
    model: str
    recipe: str
    N: int
    flops_per_token: float
    horizons: list[int]
    measured: list[int]
    state: State
    reason: Reason
    detail: str
    attempt: int
    preflight: PreflightView | None
    created_at: AwareDatetime
    changed_at: AwareDatetime

    @classmethod
    def of(cls, run: RunSummary) -> "RunView":
        """From a summary."""
        return cls(
            run_id=run.run_id,
            label=run.spec.label,
            model=run.spec.model.name,
            recipe=run.spec.recipe.name,
            N=run.N,
            flops_per_token=run.flops_per_token,
            horizons=list(run.horizons),
            measured=list(run.measured),
            state=run.state,
            reason=run.reason,
            detail=run.detail,
            attempt=run.attempt,
            preflight=None if run.preflight is None else PreflightView.of(run.preflight),
            created_at=run.created_at,
            changed_at=run.changed_at,
        )


class RunsView(View):
    """The runs of a sweep in plan order."""

    sweep_id: str
    runs: list[RunView]


class Health(View):
    """That the server answers and its store can be read."""

    status: Literal["ok"] = "ok"
    time: AwareDatetime


def _sweep_values(summary: SweepSummary) -> dict[str, Any]:
    return {
        "sweep_id": summary.sweep_id,
        "name": summary.name,
        "created_at": summary.created_at,
        "cancelled_at": summary.cancelled_at,
        "state": standing(summary),
        "num_runs": summary.num_runs,
        "runs": dict(summary.runs),
    }
