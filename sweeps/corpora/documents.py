"""The documents of a corpus of any kind, one after another and never all in memory."""

from collections.abc import Iterator

from sweeps.corpora.document import Document
from sweeps.corpora.hub import hub_documents
from sweeps.corpora.jsonl import jsonl_documents
from sweeps.corpora.parquet import parquet_documents
from sweeps.corpora.shards import shard_documents
from sweeps.corpora.texts import stdlib_documents, text_documents
from sweeps.errors import InputError
from sweeps.sources import CorpusKind, CorpusRef


def documents(ref: CorpusRef) -> Iterator[Document]:
    """What is there now, in order; whether it is what was pinned is `pin.read`'s to say.

    Raises:
        InputError: If something is missing, unreadable or no document.
    """
    match ref.kind:
        case CorpusKind.STDLIB:
            return stdlib_documents()
        case CorpusKind.TEXT:
            return text_documents(ref.path)
        case CorpusKind.JSONL:
            return jsonl_documents(ref.path, ref.column)
        case CorpusKind.PARQUET:
            return parquet_documents(ref.path, ref.column)
        case CorpusKind.SHARDS:
            if ref.separator is None:
                raise InputError("corpus.separator: token shards need the id between documents")
            return shard_documents(ref.path, ref.separator, ref.token_type)
        case CorpusKind.DATASET:
            return hub_documents(ref)
