"""Checkpoints: all that a run needs to go on, in its folder, and who may write there.

    trunk-000000400.safetensors          weights, moments and history after 400 steps of the trunk
    trunk-000000400.json                 its sidecar: run, position, SHA-256; written last
    branch-1638400-000000390...          the same within the cooldown branch of a horizon (tokens)
    endpoint-1638400.safetensors, .json  the weights alone that were measured at a horizon (tokens)
    endpoints.json                       the measured horizons
    attempt                              number of the attempt that may write

Every file is whole or absent (`workers.durable`); a checkpoint without its sidecar does not exist.
Trunk states at branch points are kept, so that another horizon can leave the trunk later; of the
others the newest of each path stays and one before it, to fall back to. The weights of an endpoint,
4 bytes a parameter, stay for good. A file that is damaged, belongs to another run, would go on with
other data or draws (`workers.state.counters`) or lies past its horizon is refused with the reason.
"""

import contextlib
import dataclasses
import json
import logging
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file

from sweeps.errors import CheckpointError, ConflictError, StorageError
from sweeps.metrics import Endpoint
from sweeps.runspec import RunSpec
from workers import durable
from workers.state import KEPT, WEIGHT, Position, State, counters
from workers.tensor_stream import Seal, write_tensors

NAME = re.compile(r"(?:trunk|branch-(?P<horizon>\d+))-(?P<step>\d{9})")

log = logging.getLogger(__name__)


class Checkpoints:
    """The folder of one run as one attempt sees it; without a claim it can only be read.

    Args:
        folder: The run's own.
        spec: The run.
        attempt: Number of the attempt; a reader is none.
    """

    def __init__(self, folder: Path, spec: RunSpec, *, attempt: int = 0) -> None:
        self._folder = folder
        self._spec = spec
        self._run_id = spec.run_id
        self._batch_tokens = spec.training.batch_tokens
        self._attempt = attempt

    def claim(self) -> None:
        """Take the folder for the attempt; from now on earlier ones cannot write.

        Raises:
            ConflictError: If a later attempt has claimed it.
            StorageError: If the folder cannot be written.
        """
        self._check_attempt()
        durable.sweep(self._folder)
        durable.write(self._folder / "attempt", f"{self._attempt}\n".encode())

    def endpoints(self) -> tuple[Endpoint, ...]:
        """The measured horizons, ascending; none if the file is not of this run.

        Raises:
            StorageError: If the file cannot be read.
        """
        path = self._folder / "endpoints.json"
        if not path.exists():
            return ()
        try:
            content = json.loads(path.read_text())
            if content["run_id"] != self._run_id:
                raise CheckpointError(f"it belongs to run {content['run_id']}")
            return tuple(Endpoint(**fields) for fields in content["endpoints"])
        except OSError as error:
            raise StorageError(f"cannot read {path}: {error.strerror}") from error
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
        self._write(state.position.name, state, keep=keep)
        self._prune(state.position)

    def keep_weights(self, state: State) -> None:
        """Write the weights of an endpoint, which stay for good.

        Args:
            state: At exactly the horizon of its position; what the model carries is written.

        Raises:
            ConflictError: If a later attempt has claimed the folder.
            StorageError: If the disk is full; what was there before is untouched.
        """
        carried = {n: t for n, t in state.tensors.items() if n.startswith((WEIGHT, KEPT))}
        name = self._endpoint_name(state.position)
        self._write(name, dataclasses.replace(state, tensors=carried), keep=True)

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

    def newest(self) -> State | None:
        """The sound state after the most steps, on whatever path; None if there is none."""
        for position in sorted(self._positions(), key=lambda one: one.step, reverse=True):
            with contextlib.suppress(CheckpointError):
                return self.load(position)
        return None

    def load(self, position: Position) -> State:
        """Read and verify one checkpoint.

        Raises:
            CheckpointError: If it is damaged, of another run, or past its horizon.
        """
        return self._read(position.name, position)

    def weights(self, tokens: int) -> State:
        """What the model carried when it was measured at a horizon, and nothing else.

        Raises:
            CheckpointError: If they are not there, damaged or of another run.
        """
        position = Position(horizon=tokens, step=tokens // self._batch_tokens)
        name = self._endpoint_name(position)
        if not (self._folder / f"{name}.json").exists():
            raise CheckpointError(
                f"{self._folder} holds no weights of the endpoint at {tokens} tokens"
            )
        return self._read(name, position)

    def _write(self, name: str, state: State, *, keep: bool) -> None:
        self._check_attempt()
        position = state.position
        seal = write_tensors(self._folder / f"{name}.safetensors", state.tensors)
        sidecar = {
            "run_id": self._run_id,
            "attempt": self._attempt,
            "keep": keep,
            "horizon": position.horizon,
            "step": position.step,
            "tokens": position.step * self._batch_tokens,
            "seconds": state.seconds,
            "counters": counters(self._spec, position),
            **asdict(seal),
        }
        durable.write(self._folder / f"{name}.json", json.dumps(sidecar, indent=1).encode())

    def _read(self, name: str, position: Position) -> State:
        path = self._folder / f"{name}.safetensors"
        try:
            sidecar = json.loads((self._folder / f"{name}.json").read_text())
            seal = Seal(bytes=sidecar["bytes"], sha256=sidecar["sha256"])
            refusal = self._refusal(position, sidecar) or seal.broken_by(path)
            tensors = {} if refusal else load_file(path)
            rows = len(tensors.get("history", ()))
            if "history" in tensors and rows != position.step:
                refusal = f"its history has {rows} steps"
            state = State(position=position, seconds=float(sidecar["seconds"]), tensors=tensors)
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            refusal = f"it cannot be read: {error!r}"
        if refusal:
            raise CheckpointError(f"checkpoint {path} refused: {refusal}")
        return state

    def _refusal(self, position: Position, sidecar: dict[str, Any]) -> str | None:
        if sidecar["run_id"] != self._run_id:
            return f"it belongs to run {sidecar['run_id']}, this is {self._run_id}"
        if (sidecar["horizon"], sidecar["step"]) != (position.horizon, position.step):
            return "its name and its sidecar disagree"
        stands = sidecar["counters"]
        for name, expected in counters(self._spec, position).items():
            if stands[name] != expected:
                return f"its {name} is {stands[name]}, of this run it is {expected}"
        tokens = position.step * self._batch_tokens
        if position.horizon is not None and tokens > position.horizon:
            return f"it is over-shot: {tokens} tokens for a horizon of {position.horizon}"
        return None

    def _check_attempt(self) -> None:
        path = self._folder / "attempt"
        if not path.exists():
            return
        try:
            text = path.read_text(errors="replace").strip()
        except OSError as error:
            raise StorageError(f"cannot read {path}: {error.strerror}") from error
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

    @staticmethod
    def _endpoint_name(position: Position) -> str:
        return f"endpoint-{position.horizon}"

    def _file(self, position: Position, ending: str) -> Path:
        return self._folder / f"{position.name}.{ending}"
