import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sweeps.corpora.document import Document
from sweeps.errors import InputError
from sweeps.sources import TokenizerKind, TokenizerRef
from workers.tokenizer import ByteTokenizer, LibraryTokenizer, open_tokenizer

TEXT = (Path(__file__).read_text() * 3 + "naïve ✓ 日本 \r\n\t end").encode()
BPE = TokenizerRef(kind=TokenizerKind.BPE, vocab_size=400)


def documents(text: bytes = TEXT) -> list[Document]:
    return [Document.of(text[:2000]), Document.of(text[2000:])]


@pytest.fixture(scope="module")
def bpe(tmp_path_factory: pytest.TempPathFactory) -> LibraryTokenizer:
    tokenizer = open_tokenizer(BPE, "key", documents, tmp_path_factory.mktemp("cache"))
    assert isinstance(tokenizer, LibraryTokenizer)
    return tokenizer


@given(st.lists(st.text(), max_size=3))
def test_bytes_are_their_own_tokens(texts):
    encoded = ByteTokenizer().encode([text.encode() for text in texts])
    assert [bytes(ids.tolist()) for ids in encoded] == [text.encode() for text in texts]


@settings(deadline=None)
@given(text=st.text())
def test_bpe_loses_nothing_and_counts_its_bytes(bpe, text):
    (tokens,) = bpe.encode([text.encode()])
    assert bpe.library.decode(tokens.tolist()) == text
    assert bpe.byte_lengths()[tokens].sum() == len(text.encode())
    assert bpe.separator not in tokens


def test_bpe_shortens_what_it_was_trained_on(bpe):
    assert len(bpe.encode([TEXT])[0]) < 0.6 * len(TEXT)


def test_documents_encoded_together_are_as_each_alone(bpe):
    texts = [TEXT[:700], b"", TEXT[700:900], b"one word"]
    for one, text in zip(bpe.encode(texts), texts, strict=True):
        assert np.array_equal(one, bpe.encode([text])[0])


def test_ids_fill_the_vocabulary(bpe):
    assert bpe.separator == BPE.vocab_size - 1
    assert len(bpe.byte_lengths()) == BPE.vocab_size
    assert (bpe.byte_lengths() > 0).sum() == BPE.vocab_size - 1
    assert ByteTokenizer().byte_lengths().tolist() == [1] * 256 + [0]


def test_training_twice_gives_the_same_file(tmp_path):
    for folder in ("one", "two"):
        open_tokenizer(BPE, "key", documents, tmp_path / folder)
    first, second = (next((tmp_path / folder).iterdir()) for folder in ("one", "two"))
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


def test_a_cached_tokenizer_is_not_trained_again(tmp_path):
    first = open_tokenizer(BPE, "key", documents, tmp_path)

    def unreadable() -> list[Document]:
        raise AssertionError("the corpus was read again")

    again = open_tokenizer(BPE, "key", unreadable, tmp_path)
    assert np.array_equal(first.encode([TEXT])[0], again.encode([TEXT])[0])


def test_another_corpus_has_another_cache_entry(tmp_path):
    open_tokenizer(BPE, "key", documents, tmp_path)
    other = open_tokenizer(BPE, "other", lambda: documents(TEXT.swapcase()), tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    assert isinstance(other, LibraryTokenizer)
    assert other.library.decode(other.encode([TEXT])[0].tolist()).encode() == TEXT


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        (TokenizerRef(vocab_size=256), r"vocab_size = 256: the byte tokenizer has 257"),
        (TokenizerRef(kind=TokenizerKind.BPE, vocab_size=257), r"vocab_size = 257: a bpe needs"),
        (
            TokenizerRef(kind=TokenizerKind.BPE, vocab_size=50_000),
            r"vocab_size = 50000: the corpus has only enough repetition for \d+",
        ),
    ],
)
def test_impossible_vocabularies_are_refused_by_name_and_value(tmp_path, ref, message):
    with pytest.raises(InputError, match=message):
        open_tokenizer(ref, "key", documents, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_two_processes_may_race_for_the_cache_and_agree_with_a_third(tmp_path):
    cache = tmp_path / "cache"
    script = f"""
from pathlib import Path
from sweeps.corpora.document import Document
from sweeps.sources import TokenizerKind, TokenizerRef
from workers.tokenizer import open_tokenizer
text = Path({__file__!r}).read_bytes()
ref = TokenizerRef(kind=TokenizerKind.BPE, vocab_size=300)
tokenizer = open_tokenizer(ref, "key", lambda: [Document.of(text)], Path({str(cache)!r}))
print(tokenizer.encode([text])[0].tolist())
"""
    racers = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) for _ in range(2)
    ]
    outputs = [racer.communicate()[0] for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0]
    assert len(list(cache.iterdir())) == 1
    text = Path(__file__).read_bytes()
    ref = TokenizerRef(kind=TokenizerKind.BPE, vocab_size=300)
    here = open_tokenizer(ref, "key", lambda: [Document.of(text)], tmp_path / "own")
    assert outputs == [f"{here.encode([text])[0].tolist()}\n".encode()] * 2
