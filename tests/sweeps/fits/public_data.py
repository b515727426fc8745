"""Public run data, read where it lies; a test that needs it is skipped where it does not.

The folder is named by GRIDLAW_PUBLIC_DATA, or is `shared/data/scaling` beside the repository.
"""

import csv
import os
from pathlib import Path

import numpy as np
import pytest

from sweeps.laws.law import Array

FOLDER = Path(
    os.environ.get("GRIDLAW_PUBLIC_DATA")
    or Path(__file__).resolve().parents[4] / "shared" / "data" / "scaling"
)


def public_rows(name: str) -> list[dict[str, str]]:
    """Rows of a CSV file of public runs."""
    path = FOLDER / name
    if not path.is_file():
        pytest.skip(f"{path} is not here; GRIDLAW_PUBLIC_DATA names its folder")
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def column(rows: list[dict[str, str]], name: str) -> Array:
    """One column as numbers."""
    return np.array([float(row[name]) for row in rows])
