"""One question to `python -m workers.numerics`, which alone may load torch, and its answer."""

import subprocess
import tempfile
from typing import TypeVar

from pydantic import TypeAdapter

from api.interrupts import ending_as_interrupt
from api.worker_side import command, environment
from sweeps.errors import GridlawError, InputError
from sweeps.questions import Question

Answer = TypeVar("Answer")


def ask(question: Question, answer: type[Answer]) -> Answer:
    """The answer to a question; the process ends with it, or with an interrupt of this one.

    Args:
        question: What is asked.
        answer: The type of what comes back, a frozen dataclass.

    Raises:
        InputError: If the question makes no sense.
        GridlawError: If it cannot be answered.
    """
    asked = TypeAdapter(type(question)).dump_json(question)
    with ending_as_interrupt():
        try:
            done = subprocess.run(
                command("workers.numerics"), input=asked, env=environment(), capture_output=True
            )
        except OSError as error:
            raise GridlawError(f"cannot start the numerics process: {error}") from error
    if done.returncode == 0:
        return TypeAdapter(answer).validate_json(done.stdout)
    raise _failure(done.returncode, done.stderr.decode(errors="replace").strip())


def _failure(code: int, words: str) -> GridlawError:
    *_, sentence = words.splitlines() or [f"exit code {code}"]
    if code in (1, 2) and "Traceback (most recent call last)" not in words:
        return InputError(sentence) if code == 2 else GridlawError(sentence)
    how = f"was killed by signal {-code}" if code < 0 else f"broke off ({sentence})"
    return GridlawError(f"the numerics process {how}; what it said is in {_kept(words)}")


def _kept(words: str) -> str:
    with tempfile.NamedTemporaryFile(
        "w", prefix="gridlaw-", suffix=".log", delete=False, encoding="utf-8"
    ) as file:
        file.write(words)
    return file.name
