"""Writes the golden vectors: `python -m tests.kernels.golden.make_golden`.

One file for each group of cases, beside this script. Of a case `name` it holds

    name/values   FP32 [rows, k']     the rounded elements times what follows, to the precision
    name/codes    uint16 [rows, k']   index of the magnitude, with 0x8000 for a minus
    name/scales   FP32 [blocks]       what the magnitudes of a block are multiplied by, row-major
    name/factor   FP32 [] or [0]      the operand's factor, empty where there is none

and inputs.npz holds the inputs, FP32 [rows, k]. An operand without a grid has values alone.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.recipes import Precision
from tests.kernels.golden.arithmetic import KNOWN_PHILOX, bf16, philox
from tests.kernels.golden.cases import AT, GROUPS, Case, inputs
from tests.kernels.golden.oracle import filled, key, multiplied, quantized

FOLDER = Path(__file__).parent
Arrays = dict[str, NDArray[np.generic]]


def arrays(case: Case) -> Arrays:
    """What a file holds of a case."""
    x = filled(inputs()[case.source], case.rht, AT)
    if case.operand.grid is None:
        carried = np.array([[bf16(element) for element in row] for row in x], np.float32)
        return {f"{case.name}/values": _multiplied(carried, case.precision)}
    made = quantized(x, case.operand, key(AT, case.word))
    return {
        f"{case.name}/values": _multiplied(made.values, case.precision),
        f"{case.name}/codes": made.codes,
        f"{case.name}/scales": made.scales,
        f"{case.name}/factor": np.array([] if made.factor is None else made.factor, np.float32),
    }


def _multiplied(values: NDArray[np.float32], precision: Precision) -> NDArray[np.float32]:
    rows = [[multiplied(value, precision) for value in row] for row in values.tolist()]
    return np.array(rows, np.float32)


def main() -> None:
    """Writes every file."""
    for counter, words, expected in KNOWN_PHILOX:
        assert philox(counter, words) == expected
    _write("inputs", {name: np.array(x, np.float32) for name, x in inputs().items()})
    for group, cases in GROUPS.items():
        assert len({case.name for case in cases}) == len(cases)
        made: Arrays = {}
        for case in cases:
            made |= arrays(case)
        _write(group, made)


def _write(group: str, made: Mapping[str, NDArray[np.generic]]) -> None:
    named: dict[str, Any] = dict(made)
    np.savez_compressed(FOLDER / f"{group}.npz", allow_pickle=False, **named)


if __name__ == "__main__":
    main()
