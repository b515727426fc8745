"""A row's text: what JSON Lines, Parquet and data sets share, and what is refused of it."""

from collections.abc import Iterable

from sweeps.corpora.document import Document, is_blank
from sweeps.errors import InputError


def row_document(value: object, column: str, place: str) -> Document | None:
    """The document in a row's column; None if it is blank.

    Args:
        value: Text, or bytes that ought to be UTF-8.
        column: Which column it stands in.
        place: File and line, or row, for the sentence of an error.

    Raises:
        InputError: If it is null, of another type, or no valid text.
    """
    match value:
        case str() | bytes():
            text = _utf8(value, column, place)
            return None if is_blank(text) else Document.of(text)
        case None:
            raise InputError(f"{place}: column {column!r} is null, not text")
        case _:
            kind = type(value).__name__
            raise InputError(f"{place}: column {column!r} is of type {kind}, not text")


def no_column(column: str, columns: Iterable[str], place: str) -> InputError:
    """The error of a column that is not there."""
    known = ", ".join(columns) or "none"
    return InputError(f"{place}: there is no column {column!r}; the columns are {known}")


def _utf8(value: str | bytes, column: str, place: str) -> bytes:
    try:
        if isinstance(value, str):
            return value.encode()
        value.decode()
    except UnicodeError as error:
        raise InputError(f"{place}: column {column!r} is not UTF-8 text: {error}") from error
    return value
