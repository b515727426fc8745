"""Any `tokenizer.json`: what it encodes, where its separator is, and the bytes of its tokens."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from sweeps.corpora.document import Document
from sweeps.corpus_sections import TokenizerSection
from sweeps.errors import InputError
from sweeps.runspec import Evaluation
from sweeps.sources import CorpusKind, CorpusRef, TokenizerKind, TokenizerRef
from sweeps.training import Training
from tests.corpora import pinned, pinned_text
from workers.data.dataset import Dataset, open_dataset
from workers.tokenizer import IdsTokenizer, LibraryTokenizer, open_tokenizer

END = "<|endoftext|>"
TEXT = "Die Würde des Menschen ist unantastbar.\n\tdef f(x):  return x + 1  # ✓ 日本\n" * 20


def byte_level() -> Tokenizer:
    """As GPT-2, Llama 3 and Qwen have it, with a template that adds a token to every text."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(" ", behavior="merged_with_next"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator([TEXT], trainer)
    made.add_tokens([AddedToken("Würde!", normalized=False)])
    made.post_processor = processors.TemplateProcessing(
        single=f"{END} $A", special_tokens=[(END, 0)]
    )
    made.enable_truncation(8)
    made.enable_padding(length=16)
    return made


def metaspace() -> Tokenizer:
    """As SentencePiece has it, bytes where a letter is not in the vocabulary."""
    made = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<unk>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))],
        show_progress=False,
    )
    made.train_from_iterator([TEXT], trainer)
    given = json.loads(made.to_str())
    given["added_tokens"] = [one for one in given["added_tokens"] if one["id"] < 2]
    given["decoder"] = {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
        ],
    }
    return Tokenizer.from_str(json.dumps(given))


def unigram() -> Tokenizer:
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.Replace(" ", "\u2581")
    trainer = trainers.UnigramTrainer(
        vocab_size=80, special_tokens=["<unk>", "</s>"], unk_token="<unk>", show_progress=False
    )
    made.train_from_iterator([TEXT], trainer)
    return made


def word_piece() -> Tokenizer:
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordPieceTrainer(
        vocab_size=200, special_tokens=["[UNK]", "[SEP]"], show_progress=False
    )
    made.train_from_iterator([TEXT], trainer)
    return made


def saved(folder: Path, library: Tokenizer) -> Path:
    path = folder / "tokenizer.json"
    library.save(str(path))
    return path


def opened(path: Path, separator: str | None = None) -> tuple[TokenizerRef, LibraryTokenizer]:
    ref = TokenizerSection(file=str(path), separator=separator).ref()
    found = open_tokenizer(ref, "key", list[Document], path.parent)
    assert isinstance(found, LibraryTokenizer)
    return ref, found


@pytest.fixture(scope="module")
def gpt(tmp_path_factory):
    return opened(saved(tmp_path_factory.mktemp("gpt"), byte_level()), END)


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return opened(saved(tmp_path_factory.mktemp("llama"), metaspace()), "</s>")


def test_the_section_reads_size_separator_and_fingerprint_off_the_file(tmp_path):
    path = saved(tmp_path, byte_level())
    ref = TokenizerSection(file=str(path), separator=END).ref()
    assert ref == TokenizerRef(
        kind=TokenizerKind.FILE,
        vocab_size=Tokenizer.from_file(str(path)).get_vocab_size(),
        separator=0,
        fingerprint=hashlib.sha256(path.read_bytes()).hexdigest(),
        path=str(path),
    )
    added = TokenizerSection(file=str(path)).ref()
    assert (added.vocab_size, added.separator) == (ref.vocab_size + 1, None)
    assert opened(path)[1].separator == ref.vocab_size


@settings(deadline=None)
@given(text=st.text())
def test_byte_level_tokens_lose_nothing_and_count_their_bytes(gpt, text):
    _, tokenizer = gpt
    (ids,) = tokenizer.encode([text.encode()])
    assert tokenizer.library.decode(ids.tolist()) == text
    assert tokenizer.byte_lengths()[ids].sum() == len(text.encode())
    assert tokenizer.separator not in ids


@settings(deadline=None)
@given(text=st.text().filter(lambda text: "\u2581" not in text))
def test_metaspace_tokens_with_byte_fallback_count_their_bytes(llama, text):
    _, tokenizer = llama
    (ids,) = tokenizer.encode([text.encode()])
    assert tokenizer.byte_lengths()[ids].sum() == len(text.encode())


def test_what_a_file_would_do_to_a_text_beside_encoding_it_is_not_done(gpt):
    _, tokenizer = gpt
    (ids,) = tokenizer.encode([TEXT.encode()])
    assert len(ids) > 100  # neither cut to 8 nor begun with a token of its own
    assert ids[0] != tokenizer.separator
    (short,) = tokenizer.encode([b"a"])
    assert len(short) == 1  # nor filled up to 16


def test_a_separator_that_a_document_writes_out_is_its_letters(gpt):
    _, tokenizer = gpt
    written = f"a{END}b".encode()
    (ids,) = tokenizer.encode([written])
    assert tokenizer.separator not in ids
    assert tokenizer.byte_lengths()[ids].sum() == len(written)


def test_added_tokens_count_their_text_and_special_ones_nothing(gpt, llama):
    _, tokenizer = gpt
    (ids,) = tokenizer.encode(["Würde!".encode()])
    assert tokenizer.byte_lengths()[ids].tolist() == [7]
    assert tokenizer.byte_lengths()[tokenizer.separator] == 0
    first = llama[1].byte_lengths()
    assert first is not None
    assert first[:2].tolist() == [0, 0]  # <unk> and </s>


def test_a_separator_stands_for_no_text_although_it_has_some(tmp_path):
    ref, tokenizer = opened(saved(tmp_path, byte_level()), "Würde!")
    lengths = tokenizer.byte_lengths()
    assert lengths is not None
    assert ref.separator == 300
    assert lengths[tokenizer.separator] == 0


def test_a_replaced_space_is_one_byte(tmp_path):
    _, tokenizer = opened(saved(tmp_path, unigram()), "</s>")
    (ids,) = tokenizer.encode([b"return x"])
    lengths = tokenizer.byte_lengths()
    assert lengths is not None
    assert lengths[ids].sum() == 8


def corpus_of(folder: Path) -> CorpusRef:
    for number in range(60):
        (folder / f"{number}.txt").write_text(f"{number} {TEXT[number : number + 300]}")
    return pinned_text(folder)


def opened_dataset(corpus: CorpusRef, ref: TokenizerRef, cache: Path) -> Dataset:
    training = Training(context=8, batch_tokens=64, learning_rate=1.0, warmup_tokens=0)
    return open_dataset(corpus, ref, training, Evaluation(held_out=0.3, tokens=64), cache)


def test_where_tokens_do_not_say_their_bytes_the_held_out_text_is_measured(tmp_path):
    (tmp_path / "texts").mkdir()
    corpus = corpus_of(tmp_path / "texts")
    ref, tokenizer = opened(saved(tmp_path, word_piece()), "[SEP]")
    assert tokenizer.byte_lengths() is None
    dataset = opened_dataset(corpus, ref, tmp_path / "cache")
    held = [p.read_bytes() for p in (tmp_path / "texts").iterdir() if is_held(p.read_bytes())]
    tokens = sum(len(ids) + 1 for ids in tokenizer.encode(held))
    assert dataset.bytes_per_token == sum(map(len, held)) / tokens


def is_held(text: bytes) -> bool:
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") / 2**64 < 0.3


def test_two_tokenizers_over_one_corpus_do_not_share_tokens(tmp_path):
    (tmp_path / "texts").mkdir()
    corpus = corpus_of(tmp_path / "texts")
    path = saved(tmp_path, byte_level())
    (tmp_path / "same").mkdir()
    other = Tokenizer.from_file(str(path))
    other.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    refs = [
        opened(path, END)[0],
        opened(path)[0],
        opened(saved(tmp_path / "same", other), END)[0],
    ]
    for ref in refs:
        opened_dataset(corpus, ref, tmp_path / "cache")
    assert len(list((tmp_path / "cache").glob("*train.ids"))) == 3


def test_a_file_that_changed_since_the_plan_is_refused(tmp_path):
    path = saved(tmp_path, byte_level())
    ref, _ = opened(path, END)
    saved(tmp_path, unigram())
    with pytest.raises(InputError, match=r"tokenizer.json has changed: the plan pinned"):
        open_tokenizer(ref, "key", list[Document], tmp_path)
    path.unlink()
    with pytest.raises(InputError, match=r"tokenizer.json cannot be read: No such file"):
        open_tokenizer(ref, "key", list[Document], tmp_path)


def test_a_file_with_a_part_that_the_library_does_not_know_is_refused(tmp_path):
    path = saved(tmp_path, byte_level())
    given = json.loads(path.read_text())
    given["decoder"] = {"type": "Future"}
    path.write_text(json.dumps(given))
    with pytest.raises(InputError, match=r"tokenizer.json is no tokenizer that can be used"):
        opened(path, END)


def test_ids_stand_for_what_a_file_tells_or_for_nothing(tmp_path, gpt):
    ref, tokenizer = gpt
    assert tokenizer.byte_lengths() is not None
    pieces = tokenizer.encode([f"{number} {TEXT[:40]}".encode() for number in range(40)])
    ids = np.concatenate([np.append(piece, 0) for piece in pieces]).astype(np.uint16)
    (tmp_path / "a.bin").write_bytes(ids.tobytes())
    corpus = pinned(CorpusKind.SHARDS, tmp_path / "a.bin", separator=0, token_type="uint16")
    plain = TokenizerRef(kind=TokenizerKind.IDS, vocab_size=512)
    assert opened_dataset(corpus, plain, tmp_path / "cache").bytes_per_token is None
    told = opened_dataset(corpus, replace(plain, path=ref.path), tmp_path / "cache")
    by_id = tokenizer.byte_lengths()
    assert by_id is not None
    lengths = by_id[told.validation[:, 1:]]
    assert told.bytes_per_token == lengths.mean()
    beyond = IdsTokenizer(512, 0, ref.path).byte_lengths()
    assert beyond is not None
    assert beyond[300:].tolist() == [7] + [0] * 211


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"model": {"byte_fallback": true}}',
        b'{"model": {"vocab": {"a": 512}, "byte_fallback": true}}',
        b'{"model": {"vocab": ["a"], "byte_fallback": true}}',
        b"[" * 100_000,
    ],
)
def test_a_file_that_no_longer_tells_what_ids_stand_for_is_named(tmp_path, content):
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"tokenizer.json does not tell what the 512 ids of the"):
        IdsTokenizer(512, 0, str(path)).byte_lengths()
