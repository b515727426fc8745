"""CorpusRef and TokenizerRef: which text a run trains on and what its tokens are, as plain values.

A corpus is pinned by its fingerprint, a tokenizer from a file by the file's own. Where the bytes
lie and how they are found is said beside it and is no part of a run's identity.
Standard library only: this also runs on a bare GPU node.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from sweeps.identity import COSMETIC, LATER


class CorpusKind(StrEnum):
    """Where documents come from.

    `stdlib`: the interpreter's own standard-library sources. `text`: UTF-8 files. `jsonl`: lines of
    JSON Lines files. `parquet`: rows of Parquet files. `shards`: token files (`.bin`). `dataset`:
    rows of a Hugging Face dataset.
    """

    STDLIB = "stdlib"
    TEXT = "text"
    JSONL = "jsonl"
    PARQUET = "parquet"
    SHARDS = "shards"
    DATASET = "dataset"


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusRef:
    """Which text, pinned by a hash of what was read.

    Attributes:
        name: What the user wrote.
        kind: How the documents are found.
        path: Absolute file, folder or glob; the name of a Hugging Face dataset; empty for `stdlib`.
        fingerprint: SHA-256 over the SHA-256 of each document, in order.
        num_bytes: Bytes in all documents; of token shards 4 a token, whatever the files hold.
        num_documents: Documents read.
        column: Of `jsonl`, `parquet` and `dataset`: the field that holds the text.
        subset: Of `dataset`: its configuration; None for the only one.
        split: Of `dataset`: which of its splits.
        revision: Of `dataset`: the commit; None for the newest.
        token_type: Of `shards` without a header: `uint16` or `uint32`; None where a header says it.
        separator: Of `shards`: the id that stands between documents.
    """

    name: str
    kind: CorpusKind
    path: str = field(default="", metadata=COSMETIC)
    fingerprint: str
    num_bytes: int
    num_documents: int
    column: str = field(default="text", metadata=COSMETIC)
    subset: str | None = field(default=None, metadata=COSMETIC)
    split: str = field(default="train", metadata=COSMETIC)
    revision: str | None = field(default=None, metadata=COSMETIC)
    token_type: str | None = field(default=None, metadata=COSMETIC)
    separator: int | None = field(default=None, metadata=LATER)


class TokenizerKind(StrEnum):
    """How text becomes ids.

    `byte`: 256 byte values and one document separator. `bpe`: trained on the corpus. `file`: a
    `tokenizer.json`. `ids`: the corpus holds token ids already.
    """

    BYTE = "byte"
    BPE = "bpe"
    FILE = "file"
    IDS = "ids"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerRef:
    """Kind and vocabulary size, document separator included.

    Attributes:
        kind: How ids come about.
        vocab_size: Ids, the separator among them.
        separator: Of `file`: the id that ends a document; None for one that is added to its ids. Of
            `ids` the corpus says it.
        fingerprint: Of `file`: SHA-256 of the file; of others empty.
        path: Of `file`: absolute path of the `tokenizer.json`; of `ids` too, where one tells the
            bytes that each id stands for; else empty.
    """

    kind: TokenizerKind = TokenizerKind.BYTE
    vocab_size: int = 257
    separator: int | None = field(default=None, metadata=LATER)
    fingerprint: str = field(default="", metadata=LATER)
    path: str = field(default="", metadata=COSMETIC)
