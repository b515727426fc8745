"""Libraries that only some corpora need: loaded when one is read, missed in one sentence."""

from importlib import import_module
from types import ModuleType

from sweeps.errors import InputError


def optional(module: str, *, kind: str, install: str) -> ModuleType:
    """A module of a library that need not be installed.

    Args:
        module: Its full name.
        kind: The kind of corpus that needs it.
        install: What pip is asked for.

    Raises:
        InputError: If it is not installed here.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise InputError(
            f"a corpus of kind {kind} needs {error.name}, which is not installed here: "
            f"pip install {install!r}"
        ) from error
