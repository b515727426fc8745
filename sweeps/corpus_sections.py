"""The sections `corpus` and `tokenizer` of a sweep spec: which text, and what its tokens are.

    corpus      stdlib | PATH | {text: PATH} | {jsonl: PATH, column: text}
                | {parquet: PATH, column: text} | {shards: PATH, separator: 50256, type: uint16}
                | {dataset: NAME, subset: S, split: train, column: text, revision: COMMIT}
    tokenizer   byte | {bpe: N} | {file: tokenizer.json, separator: "<|endoftext|>"}
                | {ids: N, file: tokenizer.json}

PATH is a file, a folder or a glob. Token shards go with `ids`, all else with the others. What a
`tokenizer.json` says is read when its ids are asked for, so that a spec can be shown without it.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from sweeps.errors import InputError, Problem, SpecError
from sweeps.sections import Section, text_or_mapping
from sweeps.sources import CorpusKind, CorpusRef, TokenizerKind, TokenizerRef
from sweeps.tokenizer_file import TokenizerFile, read_tokenizer
from sweeps.wording import listed

PathText = Annotated[str, Field(min_length=1, max_length=4096)]
Word = Annotated[str, Field(min_length=1, max_length=256)]
LARGEST_ID = 2**31 - 2
SOURCES = ("text", "jsonl", "parquet", "shards", "dataset")
ROWS = frozenset({"jsonl", "parquet", "dataset"})
BELONGS = {
    "column": ROWS,
    "subset": frozenset({"dataset"}),
    "split": frozenset({"dataset"}),
    "revision": frozenset({"dataset"}),
    "separator": frozenset({"shards"}),
    "type": frozenset({"shards"}),
}
"""Which sources each other key is for."""

PATH_KEYS = {"corpus": SOURCES[:4], "tokenizer": ("file",)}
"""Keys that hold a path, by section."""


class CorpusSection(Section):
    """Documents by the one source that is given."""

    text: PathText | None = None
    jsonl: PathText | None = None
    parquet: PathText | None = None
    shards: PathText | None = None
    dataset: Word | None = None
    column: Word | None = None
    subset: Word | None = None
    split: Word | None = None
    revision: Word | None = None
    separator: int | None = Field(default=None, strict=True, ge=0, le=LARGEST_ID)
    type: Literal["uint16", "uint32"] | None = None

    @model_validator(mode="after")
    def _is_one_source(self) -> "CorpusSection":
        given = [source for source in SOURCES if getattr(self, source) is not None]
        if len(given) != 1:
            raise ValueError(f"needs exactly one of {', '.join(SOURCES)}")
        for key, sources in BELONGS.items():
            if getattr(self, key) is not None and given[0] not in sources:
                raise ValueError(f"{key} belongs to {listed(sorted(sources))}")
        if self.shards is not None and self.separator is None:
            raise ValueError("shards need separator, the id between documents")
        return self

    def source(self) -> CorpusRef:
        """The corpus before it is read."""
        kind = next(source for source in SOURCES if getattr(self, source) is not None)
        path: str = getattr(self, kind)
        return _source(
            CorpusKind(kind),
            path,
            column=self.column or "text",
            subset=self.subset,
            split=self.split or "train",
            revision=self.revision,
            token_type=self.type,
            separator=self.separator,
        )


class TokenizerSection(Section):
    """Token ids by the one source that is given.

    `bpe`: learnt on the corpus, of this vocabulary (256 bytes and the separator included). `file`:
    a `tokenizer.json`; `separator` names its token that ends a document, else one is added. `ids`:
    the corpus holds ids below this number; `file` may tell which bytes they stand for.
    """

    bpe: int | None = Field(default=None, strict=True, ge=258, le=65536)
    file: PathText | None = None
    ids: int | None = Field(default=None, strict=True, ge=2, le=LARGEST_ID)
    separator: Word | None = None

    @model_validator(mode="after")
    def _is_one_source(self) -> "TokenizerSection":
        if self.bpe is not None and (self.file, self.ids, self.separator) != (None, None, None):
            raise ValueError("bpe stands alone")
        if self.bpe is None and self.file is None and self.ids is None:
            raise ValueError("needs bpe, file or ids")
        if self.ids is not None and self.separator is not None:
            raise ValueError("separator belongs to file; of ids, the corpus says it")
        return self

    def ref(self) -> TokenizerRef:
        """The tokenizer; its file is read.

        Raises:
            SpecError: If the file cannot be read, has no such separator, or has too many ids.
        """
        if self.bpe is not None:
            return TokenizerRef(kind=TokenizerKind.BPE, vocab_size=self.bpe)
        file = self._read_file()
        if self.ids is not None:
            if file is not None and file.vocab_size > self.ids:
                raise _wrong("ids", self.ids, f"{file.path} has {file.vocab_size} ids")
            path = "" if file is None else file.path
            return TokenizerRef(kind=TokenizerKind.IDS, vocab_size=self.ids, path=path)
        assert file is not None
        separator = self._separator(file)
        return TokenizerRef(
            kind=TokenizerKind.FILE,
            vocab_size=file.vocab_size + (separator is None),
            separator=separator,
            fingerprint=file.fingerprint,
            path=file.path,
        )

    def _read_file(self) -> TokenizerFile | None:
        if self.file is None:
            return None
        try:
            file = read_tokenizer(self.file)
        except InputError as error:
            raise _wrong("file", self.file, str(error)) from error
        if file.vocab_size >= LARGEST_ID:
            message = f"has the id {file.vocab_size - 1}; ids must be below {LARGEST_ID - 1}"
            raise _wrong("file", self.file, message)
        return file

    def _separator(self, file: TokenizerFile) -> int | None:
        if self.separator is None:
            return None
        found = file.added.get(self.separator, file.vocab.get(self.separator))
        if found is None:
            special = ", ".join(sorted(file.special)[:8]) or "none"
            message = f"is no token of {file.path}; its special tokens are {special}"
            raise _wrong("separator", self.separator, message)
        return found


CorpusEntry = Annotated[
    Annotated[PathText, Tag("<text>")] | Annotated[CorpusSection, Tag("<mapping>")],
    Discriminator(text_or_mapping),
]
TokenizerEntry = Annotated[
    Annotated[Literal["byte"], Tag("<text>")] | Annotated[TokenizerSection, Tag("<mapping>")],
    Discriminator(text_or_mapping),
]


def corpus_of(entry: str | CorpusSection) -> CorpusRef:
    """The corpus that `corpus` names, before it is read."""
    match entry:
        case CorpusSection():
            return entry.source()
        case CorpusKind.STDLIB:
            return _source(CorpusKind.STDLIB, "")
        case str():
            return _source(CorpusKind.TEXT, entry)


def tokenizer_of(entry: str | TokenizerSection) -> TokenizerRef:
    """The tokenizer that `tokenizer` names.

    Raises:
        SpecError: If it has a file that will not do.
    """
    match entry:
        case TokenizerSection():
            return entry.ref()
        case str():
            return TokenizerRef()


def check_sources(
    corpus: str | CorpusSection, tokenizer: str | TokenizerSection
) -> Iterator[Problem]:
    """Token shards go with ids that are told, text with a tokenizer of text."""
    ids = tokenizer.ids if isinstance(tokenizer, TokenizerSection) else None
    shards = corpus.separator if isinstance(corpus, CorpusSection) else None
    if shards is None and ids is not None:
        yield _problem("tokenizer.ids", ids, "is for token shards; this corpus holds text")
    elif shards is not None and ids is None:
        message = "does not fit token shards; write {ids: N}, the ids that they were written with"
        yield _problem("tokenizer", _shown(tokenizer), message)
    elif shards is not None and ids is not None and shards >= ids:
        yield _problem("corpus.separator", shards, f"is not below tokenizer.ids = {ids}")


def paths_of(given: Mapping[Any, Any]) -> dict[str, str]:
    """Every path in a spec's plain mapping, by its key."""
    paths = {}
    corpus = given.get("corpus")
    if isinstance(corpus, str) and corpus not in ("", CorpusKind.STDLIB):
        paths["corpus"] = corpus
    for section, keys in PATH_KEYS.items():
        entry = given.get(section)
        if isinstance(entry, dict):
            texts = {key: value for key, value in entry.items() if isinstance(value, str) and value}
            paths |= {f"{section}.{key}": texts[key] for key in keys if key in texts}
    return paths


def from_folder(given: Mapping[Any, Any], folder: Path) -> dict[Any, Any]:
    """A spec's plain mapping with relative paths counted from a folder.

    Raises:
        SpecError: If a path begins with the home of nobody.
    """
    made = dict(given)
    for key, path in paths_of(given).items():
        section, _, inner = key.partition(".")
        absolute = _absolute(key, path, folder)
        made[section] = made[section] | {inner: absolute} if inner else absolute
    return made


def _absolute(key: str, path: str, folder: Path) -> str:
    try:
        return str(folder.absolute() / Path(path).expanduser())
    except RuntimeError as error:
        raise SpecError(_problem(key, path, "there is no such user")) from error


def _source(kind: CorpusKind, path: str, **rest: Any) -> CorpusRef:
    absolute = kind not in (CorpusKind.STDLIB, CorpusKind.DATASET)
    return CorpusRef(
        name=path or kind.value,
        kind=kind,
        path=_resolved(path) if absolute else path,
        fingerprint="",
        num_bytes=0,
        num_documents=0,
        **rest,
    )


def _resolved(path: str) -> str:
    try:
        return str(Path(path).expanduser().absolute())
    except RuntimeError as error:
        raise InputError(f"corpus path {path!r} cannot be read: {error}") from error


def _shown(entry: str | TokenizerSection) -> str:
    return entry if isinstance(entry, str) else str(entry.model_dump(exclude_none=True))


def _problem(key: str, value: object, message: str) -> Problem:
    return Problem(key=key, value=str(value), message=message)


def _wrong(key: str, value: object, message: str) -> SpecError:
    return SpecError(_problem(f"tokenizer.{key}", value, message))
