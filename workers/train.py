"""train(): carry one run out, yielding what happens.

    for each horizon, ascending:
        nearest checkpoint or step 0 → trunk to the branch point, kept → cooldown branch → Endpoint

One trunk serves all horizons and every branch starts from the state that it kept, so asking for a
longer horizon later gives the same numbers as asking at once. What is measured is stored with the
run and never trained again. Stopping the generator (`close`) checkpoints first; a killed process
loses the steps since its last checkpoint and repeats them exactly.

The generator is the whole interface: a notebook iterates it, a worker steps it between orders.
"""

import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

from kernels.preflight import preflight_once
from kernels.verdict import Preflight
from sweeps.errors import InputError, PreflightError
from sweeps.metrics import Diverged, TrainEvent
from sweeps.runspec import RunSpec
from workers.checkpoint import Checkpoints
from workers.data import open_dataset
from workers.device import device_at_hand
from workers.history import NonFiniteError, is_report_step
from workers.trainee import Trainee


def train(
    spec: RunSpec,
    horizons: Sequence[int],
    folder: Path,
    *,
    cache: Path,
    attempt: int = 1,
    report_every_seconds: float = 1.0,
    checkpoint_every_seconds: float = 20.0,
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

    Yields:
        The `Preflight` of this device if anything is to be trained, then
        `StepMetrics` along trunk and branches, a `Diagnosis` after every step that the spec's
        diagnostics choose, an `Endpoint` for each horizon, or one `Diverged`, after which nothing
        comes.

    Raises:
        InputError: If a horizon or the corpus does not fit the spec.
        ConflictError: If a later attempt has claimed the folder.
        PreflightError: If the device fails its preflight.
        StorageError: If the disk is full.
    """
    _check(spec, horizons)
    checkpoints = Checkpoints(
        folder, run_id=spec.run_id, batch_tokens=spec.training.batch_tokens, attempt=attempt
    )
    checkpoints.claim()
    measured = {point.tokens: point for point in checkpoints.endpoints()}
    yield from (measured[horizon] for horizon in sorted(measured.keys() & set(horizons)))
    missing = sorted(set(horizons) - measured.keys())
    if not missing:
        return
    yield from _preflight()
    dataset = open_dataset(spec.corpus, spec.tokenizer, spec.training, spec.evaluation, cache)
    run = _Run(
        Trainee(spec, dataset, seconds=checkpoints.seconds()),
        checkpoints,
        report_every_seconds=report_every_seconds,
        checkpoint_every_seconds=checkpoint_every_seconds,
    )
    try:
        for horizon in missing:
            yield from run.to_horizon(horizon, spec.branch_tokens(horizon))
    except NonFiniteError as error:
        yield run.diverged(error)


class _Run:
    """A trainee and its folder, with the clocks of reports and checkpoints."""

    def __init__(
        self,
        trainee: Trainee,
        checkpoints: Checkpoints,
        *,
        report_every_seconds: float,
        checkpoint_every_seconds: float,
    ) -> None:
        self._trainee = trainee
        self._checkpoints = checkpoints
        self._report_every = report_every_seconds
        self._checkpoint_every = checkpoint_every_seconds

    def to_horizon(self, horizon: int, branch: int) -> Iterator[TrainEvent]:
        trainee = self._trainee
        state = self._checkpoints.latest(horizon, branch)
        if state is None:
            trainee.restart()
        else:
            trainee.restore(state)
        if trainee.position.horizon is None:
            yield from self._advance(branch)
            self._checkpoints.save(trainee.state(), keep=True)
            trainee.leave_trunk(horizon)
        yield from self._advance(horizon)
        endpoint = trainee.measure()
        self._checkpoints.keep_weights(trainee.state())
        self._checkpoints.record(endpoint, trainee.seconds)
        yield endpoint

    def diverged(self, error: NonFiniteError) -> Diverged:
        return Diverged(
            horizon=self._trainee.position.horizon,
            step=error.step,
            tokens=error.step * self._trainee.batch_tokens,
            detail=str(error),
        )

    def _advance(self, tokens: int) -> Iterator[TrainEvent]:
        """Step to exactly this many tokens along the present path."""
        trainee = self._trainee
        last_report = last_checkpoint = time.monotonic()
        while trainee.tokens < tokens:
            trainee.step()
            at_horizon = trainee.tokens == trainee.position.horizon
            now = time.monotonic()
            if now - last_checkpoint >= self._checkpoint_every:
                self._checkpoints.save(trainee.state())
                last_checkpoint = time.monotonic()
            scheduled = is_report_step(trainee.position.step) or at_horizon
            if scheduled or now - last_report >= self._report_every:
                yield from self._told(
                    trainee.scheduled_report() if scheduled else trainee.live_report()
                )
                last_report = time.monotonic()
            if (diagnosis := trainee.diagnosis()) is not None:
                yield from self._told(diagnosis)

    def _told(self, event: TrainEvent) -> Iterator[TrainEvent]:
        try:
            yield event
        except GeneratorExit:
            self._checkpoints.save(self._trainee.state())
            raise


def _preflight() -> Iterator[Preflight]:
    found = preflight_once(device_at_hand())
    yield found
    if found.failure is not None:
        raise PreflightError(found.failure)


def _check(spec: RunSpec, horizons: Sequence[int]) -> None:
    batch = spec.training.batch_tokens
    for horizon in horizons:
        if horizon <= 0 or horizon % batch:
            raise InputError(
                f"horizon = {horizon}: must be a positive multiple of "
                f"training.batch_tokens = {batch}"
            )
    if batch % spec.training.context:
        raise InputError(
            f"training.batch_tokens = {batch}: must be a multiple of "
            f"training.context = {spec.training.context}"
        )
