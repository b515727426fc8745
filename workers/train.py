"""train(): carry one run out, yielding what happens.

    for each horizon, ascending:
        nearest checkpoint or step 0 → trunk to the branch point, kept → cooldown branch → Endpoint

One trunk serves all horizons and every branch starts from the state that it kept, so asking for a
longer horizon later gives the same numbers as asking at once. What is measured is stored with the
run and never trained again. Stopping the generator (`close`) checkpoints first; a killed process
loses the steps since its last checkpoint and repeats them exactly. A checkpoint is written when all
events of its step are taken, so that whoever keeps what it is told has every report of the run.

The generator is the whole interface: a notebook iterates it, a worker steps it between orders.
"""

import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import torch

from kernels.preflight import preflight_once
from kernels.verdict import Preflight
from sweeps.errors import InputError, PreflightError
from sweeps.metrics import Diverged, TrainEvent
from sweeps.microbatches import check_ranks
from sweeps.runspec import RunSpec
from workers.checkpoint import Checkpoints
from workers.data.dataset import open_dataset
from workers.device import device_at_hand
from workers.fitting import needs_checkpoints
from workers.health import DivergenceError
from workers.history import NonFiniteError
from workers.led_checkpoints import LedCheckpoints
from workers.repeatability import repeat_bits
from workers.trainee import Trainee
from workers.world import ALONE, World


def train(
    spec: RunSpec,
    horizons: Sequence[int],
    folder: Path,
    *,
    cache: Path,
    attempt: int = 1,
    report_every_seconds: float = 1.0,
    checkpoint_every_seconds: float = 20.0,
    accelerate: bool = True,
    world: World = ALONE,
) -> Generator[TrainEvent, None, None]:
    """Train a run to every horizon.

    Args:
        spec: The run.
        horizons: Token budgets, multiples of the batch. Those already measured in the folder are
            yielded again first.
        folder: The run's own, for checkpoints and endpoints.
        cache: For tokenised corpora and learnt tokenizers, shared by runs.
        attempt: Number of this attempt; from now on the folder refuses lower ones.
        report_every_seconds: A report is also made when a step ends this long after the last. Such
            extra reports leave the scheduled ones (see `workers.history`) as they are.
        checkpoint_every_seconds: Training time between checkpoints.
        accelerate: Whether passes may be compiled and recorded, on a GPU.
        world: The ranks that carry the run out together, each of which runs this, takes the same
            events, and closes after the same one. Folder and clocks are those of the lead.

    Yields:
        The `Preflight` of this device if anything is to be trained, then
        `StepMetrics` along trunk and branches, a `Diagnosis` after every step that the spec's
        diagnostics choose, an `Endpoint` for each horizon, or one `Diverged`, after which nothing
        comes.

    Raises:
        InputError: If a horizon or the corpus does not fit the spec, or the run not the device.
        ConflictError: If a later attempt has claimed the folder.
        PreflightError: If the device fails its preflight.
        StorageError: If the disk is full.
    """
    _check(spec, horizons, world)
    checkpoints = LedCheckpoints(Checkpoints(folder, spec, attempt=attempt), world)
    checkpoints.claim()
    measured = {point.tokens: point for point in checkpoints.endpoints()}
    yield from (measured[horizon] for horizon in sorted(measured.keys() & set(horizons)))
    missing = sorted(set(horizons) - measured.keys())
    if not missing:
        return
    device = device_at_hand()
    repeat_bits(device)
    lean = world.agreed(needs_checkpoints(spec, device))
    yield from _preflight(device, world)
    dataset = open_dataset(
        spec.corpus,
        spec.tokenizer,
        spec.training,
        spec.evaluation,
        cache,
        longest=max(horizons),
    )
    run = _Run(
        Trainee(
            spec,
            dataset,
            seconds=checkpoints.seconds(),
            checkpoints=lean,
            accelerate=accelerate,
            world=world,
        ),
        checkpoints,
        world,
        report_every_seconds=report_every_seconds,
        checkpoint_every_seconds=checkpoint_every_seconds,
    )
    try:
        for horizon in missing:
            yield from run.to_horizon(horizon, spec.branch_tokens(horizon))
    except DivergenceError as error:
        yield run.diverged(error)


class _Run:
    """A trainee and its folder, with the clocks of reports and checkpoints."""

    def __init__(
        self,
        trainee: Trainee,
        checkpoints: LedCheckpoints,
        world: World,
        *,
        report_every_seconds: float,
        checkpoint_every_seconds: float,
    ) -> None:
        self._trainee = trainee
        self._checkpoints = checkpoints
        self._world = world
        self._report_every = report_every_seconds
        self._checkpoint_every = checkpoint_every_seconds

    def to_horizon(self, horizon: int, branch: int) -> Iterator[TrainEvent]:
        trainee = self._trainee
        self._start(horizon, branch)
        if trainee.position.horizon is None:
            yield from self._advance(branch)
            if branch:
                self._checkpoints.save(trainee.state(), keep=True)
            trainee.leave_trunk(horizon)
        yield from self._advance(horizon)
        endpoint = trainee.measure()
        self._checkpoints.keep_weights(trainee.state())
        self._checkpoints.record(endpoint, trainee.seconds)
        yield endpoint

    def diverged(self, error: DivergenceError) -> Diverged:
        return Diverged(
            horizon=self._trainee.position.horizon,
            step=error.step,
            tokens=error.step * self._trainee.batch_tokens,
            detail=str(error),
            is_finite=not isinstance(error, NonFiniteError),
        )

    def _start(self, horizon: int, branch: int) -> None:
        state = self._checkpoints.latest(horizon, branch)
        if state is None:
            self._trainee.restart()
        else:
            self._trainee.restore(state)

    def _advance(self, tokens: int) -> Iterator[TrainEvent]:
        """Step to exactly this many tokens along the present path."""
        trainee = self._trainee
        last_report = last_checkpoint = time.monotonic()
        while trainee.tokens < tokens:
            trainee.step()
            if trainee.is_due:
                yield from self._told(trainee.scheduled_report())
                last_report = time.monotonic()
            elif self._world.agreed(time.monotonic() - last_report >= self._report_every):
                yield from self._told(trainee.live_report())
                last_report = time.monotonic()
            if (diagnosis := trainee.diagnosis()) is not None:
                yield from self._told(diagnosis)
            if self._world.agreed(time.monotonic() - last_checkpoint >= self._checkpoint_every):
                self._checkpoints.save(trainee.state())
                last_checkpoint = time.monotonic()

    def _told(self, event: TrainEvent) -> Iterator[TrainEvent]:
        try:
            yield event
        except GeneratorExit:
            self._checkpoints.save(self._trainee.state())
            raise


def _preflight(device: torch.device, world: World) -> Iterator[Preflight]:
    found = preflight_once(device)
    yield found
    if (failure := world.first(found.failure)) is not None:
        raise PreflightError(failure)


def _check(spec: RunSpec, horizons: Sequence[int], world: World) -> None:
    batch = spec.training.batch_tokens
    for horizon in horizons:
        if horizon <= 0 or horizon % batch:
            raise InputError(
                f"horizon = {horizon}: must be a positive multiple of "
                f"training.batch_tokens = {batch}"
            )
    only = spec.training.horizon
    for horizon in horizons:
        if only not in (None, horizon):
            raise InputError(
                f"horizon = {horizon}: under a {spec.training.schedule} schedule a run has one, "
                f"training.horizon = {only}"
            )
    if batch % spec.training.context:
        raise InputError(
            f"training.batch_tokens = {batch}: must be a multiple of "
            f"training.context = {spec.training.context}"
        )
    check_ranks(spec, world.size)
