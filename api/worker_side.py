"""Modules of the worker side run as processes of their own, which alone may load torch and Ray."""

import os
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]


def command(module: str) -> tuple[str, ...]:
    """The command line that runs a module, as in `workers`."""
    return (sys.executable, "-P", "-m", module)


def environment() -> dict[str, str]:
    """The child's environment: this one's, and where the modules are."""
    # The working directory is a person's own: it must not be where the child looks for modules.
    paths = [str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
