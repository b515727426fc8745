"""Checkpoints: all that a run needs to go on, in its folder, and who may write there.

    trunk-000000400.safetensors          weights, moments and history after 400 steps of the trunk
    trunk-000000400.json                 its sidecar: run, position, SHA-256; written last
    branch-1638400-000000390...          the same within the cooldown branch of a horizon (tokens)
    endpoints.json                       the measured horizons
    attempt                              number of the attempt that may write

Every file is whole or absent (`workers.durable`); a checkpoint without its sidecar does not exist.
Trunk states at branch points are kept, so that another horizon can leave the trunk later; of the
others the newest of each path stays and one before it, to fall back to. A file that is damaged,
belongs to another run or lies past its horizon is refused with the reason.
"""

import contextlib
import hashlib
import json
import logging
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import safetensors.torch
from torch import Tensor

from sweeps.errors import CheckpointError, ConflictError, StorageError
from sweeps.metrics import Endpoint
from workers import durable

NAME = re.compile(r"(?:trunk|branch-(?P<horizon>\d+))-(?P<step>\d{9})")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A point on the trunk (`horizon` None) or in a cooldown branch, after `step` steps."""

    horizon: int | None
    step: int

    @property
    def path(self) -> str:
        """The beginning of the names of all files on the same path."""
        return "trunk" if self.horizon is None else f"branch-{self.horizon}"

    @property
    def name(self) -> str:
        """File name without its ending."""
        return f"{self.path}-{self.step:09d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What training goes on from; `seconds` is the training time so far."""

    position: Position
    seconds: float
    tensors: dict[str, Tensor]


class Checkpoints:
    """The folder of one run as one attempt sees it."""

    def __init__(self, folder: Path, *, run_id: str, batch_tokens: int, attempt: int) -> None:
        """Claims the folder for the attempt.

        Raises:
            ConflictError: If a later attempt has claimed it.
            StorageError: If the folder cannot be written.
        """
        self._folder = folder
        self._run_id = run_id
        self._batch_tokens = batch_tokens
        self._attempt = attempt
        self._check_attempt()
        durable.sweep(folder)
        durable.write(folder / "attempt", f"{attempt}\n".encode())

    def endpoints(self) -> tuple[Endpoint, ...]:
        """The measured horizons, ascending; none if the file is not of this run."""
        path = self._folder / "endpoints.json"
        if not path.exists():
            return ()
        try:
            content = json.loads(path.read_text())
            if content["run_id"] != self._run_id:
                raise CheckpointError(f"it belongs to run {content['run_id']}")
            return tuple(Endpoint(**fields) for fields in content["endpoints"])
        except (ValueError, KeyError, TypeError, CheckpointError) as error:
            log.warning("refused %s: %s", path, error)
            return ()

    def seconds(self) -> float:
        """The most training time that any file here knows of."""
        known = [0.0]
        for path in self._folder.glob("*.json"):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                known.append(float(json.loads(path.read_text())["seconds"]))
        return max(known)

    def record(self, endpoint: Endpoint, seconds: float) -> None:
        """Add a measured horizon and drop the checkpoints of its branch.

        Raises:
            ConflictError: If a later attempt has claimed the folder.
            StorageError: If the disk is full.
        """
        self._check_attempt()
        known = {point.tokens: point for point in (*self.endpoints(), endpoint)}
        content = {
            "run_id": self._run_id,
            "seconds": seconds,
            "endpoints": [asdict(known[tokens]) for tokens in sorted(known)],
        }
        durable.write(self._folder / "endpoints.json", json.dumps(content, indent=1).encode())
        for position in self._positions():
            if position.horizon == endpoint.tokens:
                self._remove(position)

    def save(self, state: State, *, keep: bool = False) -> None:
        """Write a checkpoint; with `keep` it stays for good.

        Raises:
            ConflictError: If a later attempt has claimed the folder.
            StorageError: If the disk is full; what was there before is untouched.
        """
        self._check_attempt()
        content = safetensors.torch.save(state.tensors)
        sidecar = {
            "run_id": self._run_id,
            "attempt": self._attempt,
            "keep": keep,
            "horizon": state.position.horizon,
            "step": state.position.step,
            "tokens": state.position.step * self._batch_tokens,
            "seconds": state.seconds,
            "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        durable.write(self._file(state.position, "safetensors"), content)
        durable.write(self._file(state.position, "json"), json.dumps(sidecar, indent=1).encode())
        self._prune(state.position)

    def latest(self, horizon: int, branch: int) -> State | None:
        """The sound state from which the fewest steps lead to a horizon; None if there is none.

        Args:
            horizon: Token budget.
            branch: Tokens at which its cooldown leaves the trunk.
        """
        for position in sorted(self._positions(), key=lambda one: one.step, reverse=True):
            tokens = position.step * self._batch_tokens
            on_trunk = position.horizon is None and tokens <= branch
            if not on_trunk and position.horizon != horizon:
                continue
            try:
                return self.load(position)
            except CheckpointError as error:
                log.warning("%s; falling back to the one before", error)
        return None

    def load(self, position: Position) -> State:
        """Read and verify one checkpoint.

        Raises:
            CheckpointError: If it is damaged, of another run, or past its horizon.
        """
        path = self._file(position, "safetensors")
        try:
            sidecar = json.loads(self._file(position, "json").read_text())
            content = path.read_bytes()
            refusal = self._refusal(position, sidecar, content)
            seconds = float(sidecar["seconds"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            refusal = f"it cannot be read: {error!r}"
        if refusal:
            raise CheckpointError(f"checkpoint {path} refused: {refusal}")
        return State(position=position, seconds=seconds, tensors=safetensors.torch.load(content))

    def _refusal(
        self, position: Position, sidecar: dict[str, object], content: bytes
    ) -> str | None:
        if sidecar["run_id"] != self._run_id:
            return f"it belongs to run {sidecar['run_id']}, this is {self._run_id}"
        if (sidecar["horizon"], sidecar["step"]) != (position.horizon, position.step):
            return "its name and its sidecar disagree"
        if len(content) != sidecar["bytes"]:
            return f"it is truncated: {len(content)} of {sidecar['bytes']} bytes"
        if hashlib.sha256(content).hexdigest() != sidecar["sha256"]:
            return "its checksum is wrong"
        tokens = position.step * self._batch_tokens
        if position.horizon is not None and tokens > position.horizon:
            return f"it is over-shot: {tokens} tokens for a horizon of {position.horizon}"
        return None

    def _check_attempt(self) -> None:
        path = self._folder / "attempt"
        if not path.exists():
            return
        text = path.read_text().strip()
        if not text.isdecimal():
            raise StorageError(f"{path} holds {text!r}, not the number of an attempt")
        if int(text) > self._attempt:
            raise ConflictError(
                f"attempt {self._attempt} of run {self._run_id} is superseded by attempt {text} "
                "and stops"
            )

    def _positions(self) -> Iterator[Position]:
        for path in list(self._folder.glob("*.json")):
            match = NAME.fullmatch(path.stem)
            if match:
                horizon = match["horizon"]
                yield Position(
                    horizon=None if horizon is None else int(horizon), step=int(match["step"])
                )

    def _prune(self, current: Position) -> None:
        before = [
            position
            for position in self._positions()
            if position.horizon == current.horizon and position.step < current.step
        ]
        before.sort(key=lambda position: position.step)
        for position in before[:-1]:
            if not self._is_kept(position):
                self._remove(position)

    def _is_kept(self, position: Position) -> bool:
        try:
            return bool(json.loads(self._file(position, "json").read_text())["keep"])
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def _remove(self, position: Position) -> None:
        for ending in ("json", "safetensors"):
            self._file(position, ending).unlink(missing_ok=True)

    def _file(self, position: Position, ending: str) -> Path:
        return self._folder / f"{position.name}.{ending}"
