"""JSON Lines: one JSON object a line, one of its fields is a document. `.gz` files are unpacked.

Source: https://jsonlines.org (UTF-8, a value a line; blank lines are passed over here).
"""

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from sweeps.corpora.document import Document
from sweeps.corpora.places import files_of
from sweeps.corpora.rows import no_column, row_document
from sweeps.errors import InputError


def jsonl_documents(path: str, column: str) -> Iterator[Document]:
    """The field `column` of every line of every file of a path; blank texts are left out.

    Raises:
        InputError: With file and line, if a line is no JSON object with text in that field.
    """
    for file in files_of(path):
        try:
            with _opened(file) as lines:
                for number, line in enumerate(lines, start=1):
                    document = _document(line, column, f"corpus file {file}, line {number}")
                    if document is not None:
                        yield document
        except (OSError, EOFError, zlib.error) as error:  # the last two of a damaged .gz
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"corpus file {file} cannot be read: {reason}") from error


def _opened(file: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(file)) if file.suffix == ".gz" else file.open("rb")


def _document(line: bytes, column: str, place: str) -> Document | None:
    try:
        text = line.decode()
        row = json.loads(text) if text.strip() else {column: ""}
    except UnicodeDecodeError as error:
        raise InputError(f"{place} is not UTF-8 text: {error}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place} is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise InputError(f"{place} is of type {type(row).__name__}, not an object with {column!r}")
    if column not in row:
        raise no_column(column, row, place)
    return row_document(row[column], column, place)
