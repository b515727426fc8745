"""Hugging Face data sets by name, through the optional `datasets`: a row is a document.

The data set is downloaded once into the library's own cache and memory-mapped there, so that a
worker without a network can read what the machine has already seen.
"""

from collections.abc import Iterator
from typing import Any

from sweeps.corpora.document import Document
from sweeps.corpora.optional import optional
from sweeps.corpora.rows import no_column, row_document
from sweeps.errors import InputError
from sweeps.sources import CorpusKind, CorpusRef

ROWS = 1024
"""Rows in memory at once."""


def hub_documents(ref: CorpusRef) -> Iterator[Document]:
    """The rows of a data set's split, in order; blank texts are left out.

    Raises:
        InputError: If `datasets` is missing, if the data set cannot be had, or with its number, if
            a row has no valid text in the column.
    """
    rows = _load(ref)
    place = f"data set {ref.path}, split {ref.split!r}"
    if ref.column not in rows.column_names:
        raise no_column(ref.column, rows.column_names, place)
    number = 0
    for batch in rows.select_columns([ref.column]).iter(batch_size=ROWS):
        for value in batch[ref.column]:
            number += 1
            document = row_document(value, ref.column, f"{place}, row {number}")
            if document is not None:
                yield document


def _load(ref: CorpusRef) -> Any:
    datasets = optional("datasets", kind=CorpusKind.DATASET, install="gridlaw[datasets]")
    try:
        return datasets.load_dataset(ref.path, ref.subset, split=ref.split, revision=ref.revision)
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        first = str(error).strip().partition("\n")[0]
        raise InputError(f"data set {ref.path!r} cannot be loaded: {first}") from error
