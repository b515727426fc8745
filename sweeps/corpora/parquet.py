"""Parquet: one column of text, a row is a document. Read a batch of rows at a time, by pyarrow."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

from sweeps.corpora.document import Document
from sweeps.corpora.optional import optional
from sweeps.corpora.places import files_of
from sweeps.corpora.rows import no_column, row_document
from sweeps.errors import InputError
from sweeps.sources import CorpusKind

ROWS = 1024
"""Rows in memory at once."""


def parquet_documents(path: str, column: str) -> Iterator[Document]:
    """A column of every file of a path, in order; blank texts are left out.

    Raises:
        InputError: If pyarrow is missing, or with file and row, if a row has no valid text there.
    """
    arrow = optional("pyarrow", kind=CorpusKind.PARQUET, install="pyarrow")
    parquet = optional("pyarrow.parquet", kind=CorpusKind.PARQUET, install="pyarrow")
    for file in files_of(path):
        place = f"corpus file {file}"
        try:
            with parquet.ParquetFile(file) as opened:
                yield from _documents(opened, column, place, arrow)
        except OSError as error:
            reason = error.strerror or error
            raise InputError(f"{place} cannot be read: {reason}") from error
        except arrow.ArrowException as error:
            raise InputError(f"{place} is not a Parquet file: {error}") from error


def _documents(opened: Any, column: str, place: str, arrow: ModuleType) -> Iterator[Document]:
    schema = opened.schema_arrow
    if column not in schema.names:
        raise no_column(column, schema.names, place)
    kind = schema.field(column).type
    value_kind = kind.value_type if arrow.types.is_dictionary(kind) else kind
    if not (_is_text(value_kind, arrow) or _is_binary(value_kind, arrow)):
        raise InputError(f"{place}: column {column!r} holds {kind}, not text")
    number = 0
    for batch in opened.iter_batches(batch_size=ROWS, columns=[column]):
        # As bytes, since Arrow takes text on trust: what is not UTF-8 is found row by row.
        values = batch.column(0).cast(value_kind).cast(arrow.large_binary())
        for value in values.to_pylist():
            number += 1
            document = row_document(value, column, f"{place}, row {number}")
            if document is not None:
                yield document


def _is_text(kind: Any, arrow: ModuleType) -> bool:
    return bool(arrow.types.is_string(kind) or arrow.types.is_large_string(kind))


def _is_binary(kind: Any, arrow: ModuleType) -> bool:
    return bool(arrow.types.is_binary(kind) or arrow.types.is_large_binary(kind))
