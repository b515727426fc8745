"""The numerics process: `python -m workers.numerics`, one question in, one answer out.

    standard input    a question of `sweeps.questions` as JSON
    standard output   its answer as JSON, and nothing else
    standard error    one sentence if there is no answer
    exit code         0; 2 if the question makes no sense, 1 if it cannot be answered

The front doors start it for what needs torch. To add a verb: its question (and its answer, if that
is a new type) in `sweeps.questions`, where it joins `Question`; a function from question to answer
in a file of its own here; a case in `_answer`, which imports that file when it is asked. In front,
`api.numerics_cli` gets a command that calls `api.numerics_process.ask`.
"""

import sys
from typing import Annotated, Any, assert_never

from pydantic import Field, TypeAdapter

from sweeps.errors import GridlawError, InputError
from sweeps.questions import (
    BiasQuestion,
    PreflightQuestion,
    Question,
    TableQuestion,
    TensorQuestion,
    grid_of,
)
from sweeps.run_questions import PtqQuestion, RunQuestion


def main() -> int:
    """Answer the question on standard input; returns the exit code."""
    question: Question = TypeAdapter[Any](
        Annotated[Question, Field(discriminator="verb")]
    ).validate_json(sys.stdin.buffer.read())
    try:
        answer = _answer(question)
    except GridlawError as error:
        sys.stderr.write(f"{error}\n")
        return 2 if isinstance(error, InputError) else 1
    sys.stdout.buffer.write(TypeAdapter(type(answer)).dump_json(answer))
    return 0


def _answer(question: Question) -> Any:
    match question:
        case TableQuestion():
            from kernels.surveys import survey

            return survey(question.samples)
        case BiasQuestion():
            from kernels.surveys import grid_bias

            return grid_bias(grid_of(question.format), question.samples)
        case TensorQuestion():
            from workers.tensor_file import tensor_quality

            return tensor_quality(question)
        case PreflightQuestion():
            from kernels.preflight import preflight
            from workers.device import device_at_hand

            return preflight(device_at_hand())
        case RunQuestion():
            from workers.run_quality import run_quality

            return run_quality(question)
        case PtqQuestion():
            from workers.ptq import cast_endpoints

            return cast_endpoints(question)
        case never:
            assert_never(never)


if __name__ == "__main__":
    sys.exit(main())
