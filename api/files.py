"""Writing a file whole or not at all."""

import os
import tempfile
from pathlib import Path

from sweeps.errors import StorageError


def write_whole(path: Path, content: str | bytes, *, make_folder: bool = False) -> None:
    """Write a file; a reader sees the old text or the new one. Devices and pipes are written to.

    Args:
        path: The file.
        content: What it will hold; text as UTF-8.
        make_folder: Whether a missing folder is made rather than reported.

    Raises:
        StorageError: If it cannot be written.
    """
    data = content.encode() if isinstance(content, str) else content
    try:
        if make_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            Path(draft).chmod(0o644)
            Path(draft).replace(path)
        except OSError:
            Path(draft).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from error
