"""The sections `corpus` and `tokenizer`: what each form means, a sentence for each mistake."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from sweeps.corpus_sections import CorpusSection, TokenizerSection, corpus_of, paths_of
from sweeps.errors import SpecError
from sweeps.sources import CorpusKind, CorpusRef, TokenizerKind, TokenizerRef
from sweeps.spec import load_spec, parse_spec, spec_text, stored_spec
from tests.sweeps.specs import mapping

PAGE = Path(__file__).parents[2].joinpath("docs", "data.md").read_text(encoding="utf-8")
SHARDS = {"shards": "/data/*.bin", "separator": 50256}
IDS = {"ids": 50257}


def tokenizer_json(folder: Path, **changes: object) -> Path:
    given = {
        "added_tokens": [
            {"id": 9, "content": "<|endoftext|>", "special": True},
            {"id": 4, "content": "word", "special": False},
        ],
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": []},
    }
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(given | changes))
    return path


def ref_of(entry: Any) -> CorpusRef:
    return corpus_of(parse_spec(mapping(corpus=entry)).corpus)


@pytest.mark.parametrize(
    ("entry", "kind", "path", "rest"),
    [
        ("stdlib", CorpusKind.STDLIB, "", {}),
        ("/data/texts", CorpusKind.TEXT, "/data/texts", {}),
        ({"text": "/data/*.txt"}, CorpusKind.TEXT, "/data/*.txt", {}),
        ({"jsonl": "/data/*.jsonl"}, CorpusKind.JSONL, "/data/*.jsonl", {"column": "text"}),
        ({"parquet": "/d.parquet", "column": "body"}, CorpusKind.PARQUET, "/d.parquet",
         {"column": "body"}),
        ({"dataset": "HuggingFaceFW/fineweb"}, CorpusKind.DATASET, "HuggingFaceFW/fineweb",
         {"column": "text", "split": "train", "subset": None, "revision": None}),
        ({"dataset": "a/b", "subset": "s", "split": "test", "column": "c", "revision": "9f"},
         CorpusKind.DATASET, "a/b",
         {"column": "c", "split": "test", "subset": "s", "revision": "9f"}),
    ],
)  # fmt: skip
def test_each_form_names_a_corpus(entry, kind, path, rest):
    ref = ref_of(entry)
    assert (ref.kind, ref.path, ref.fingerprint) == (kind, path, "")
    assert {key: getattr(ref, key) for key in rest} == rest


BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)
ENTRIES = [
    yaml.safe_load(text.replace("\\|", "|"))
    for text in re.findall(r"^\| .*?`(\{.*?\})` \|", PAGE, re.M)
]


@pytest.mark.parametrize("block", BLOCKS)
def test_what_the_page_writes_out_is_a_spec(block, tmp_path):
    given = yaml.safe_load(block)
    assert given.keys() <= {"corpus", "tokenizer"}
    if "file" in given["tokenizer"]:
        given["tokenizer"]["file"] = str(tokenizer_json(tmp_path))
    spec = parse_spec(mapping(**given))
    assert spec.tokenizer_ref().vocab_size == next(iter(given["tokenizer"].values()))


def test_the_tables_of_the_page_show_every_key():
    keys = {key for entry in ENTRIES for key in entry}
    assert keys == {*CorpusSection.model_fields, *TokenizerSection.model_fields}
    assert len(ENTRIES) == 8


def test_shards_go_with_ids():
    entry = SHARDS | {"type": "uint16"}
    spec = parse_spec(mapping(corpus=entry, tokenizer=IDS))
    ref = corpus_of(spec.corpus)
    assert (ref.kind, ref.separator, ref.token_type) == (CorpusKind.SHARDS, 50256, "uint16")
    assert spec.tokenizer_ref() == TokenizerRef(kind=TokenizerKind.IDS, vocab_size=50257)


def test_a_path_counts_from_where_the_process_is_and_a_data_set_has_none(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert ref_of({"jsonl": "a/*.jsonl"}).path == str(tmp_path / "a/*.jsonl")
    assert ref_of({"dataset": "a/b"}).path == "a/b"


@pytest.mark.parametrize("key", ["text", "jsonl", "parquet", "shards"])
def test_relative_paths_of_a_sweep_file_count_from_its_folder(tmp_path, key):
    tokenizer_json(tmp_path)
    corpus = {key: "data/*"} | ({"separator": 9} if key == "shards" else {})
    tokenizer = {"file": "tokenizer.json"} | ({"ids": 10} if key == "shards" else {})
    file = tmp_path / "sweep.yaml"
    file.write_text(yaml.safe_dump(mapping(corpus=corpus, tokenizer=tokenizer)))
    spec = load_spec(file)
    paths = {f"corpus.{key}": "data/*", "tokenizer.file": "tokenizer.json"}
    expected = {where: str(tmp_path / path) for where, path in paths.items()}
    assert paths_of(spec.model_dump()) == expected
    assert spec.tokenizer_ref().path == str(tmp_path / "tokenizer.json")
    (tmp_path / "again").mkdir()
    again = tmp_path / "again" / "sweep.yaml"
    again.write_text(spec_text(spec))
    assert load_spec(again) == spec


def test_a_data_set_and_the_standard_library_are_no_paths(tmp_path):
    for corpus in ("stdlib", {"dataset": "a/b"}):
        file = tmp_path / "sweep.yaml"
        file.write_text(yaml.safe_dump(mapping(corpus=corpus)))
        spec = load_spec(file)
        assert paths_of(spec.model_dump()) == {}
        assert corpus_of(spec.corpus).path in ("", "a/b")


def test_a_tokenizer_file_has_ids_up_to_its_largest(tmp_path):
    path = tokenizer_json(tmp_path)
    spec = parse_spec(mapping(tokenizer={"file": str(path), "separator": "<|endoftext|>"}))
    assert spec.tokenizer_ref() == TokenizerRef(
        kind=TokenizerKind.FILE,
        vocab_size=10,
        separator=9,
        fingerprint=hashlib.sha256(path.read_bytes()).hexdigest(),
        path=str(path),
    )
    plain = parse_spec(mapping(tokenizer={"file": str(path)})).tokenizer_ref()
    assert (plain.vocab_size, plain.separator) == (11, None)  # one more, for the separator
    of_model = parse_spec(mapping(tokenizer={"file": str(path), "separator": "ab"}))
    assert of_model.tokenizer_ref().separator == 2


def test_a_unigram_vocabulary_is_a_list(tmp_path):
    vocab = [["<unk>", 0.0], ["a", -1.5], ["b", -2.0]]
    path = tokenizer_json(tmp_path, model={"type": "Unigram", "vocab": vocab}, added_tokens=[])
    spec = parse_spec(mapping(tokenizer={"file": str(path), "separator": "a"}))
    assert (spec.tokenizer_ref().vocab_size, spec.tokenizer_ref().separator) == (3, 1)


def test_a_stored_spec_is_shown_although_its_files_are_gone(tmp_path):
    path = tokenizer_json(tmp_path)
    spec = parse_spec(mapping(tokenizer={"file": str(path)}))
    path.unlink()
    assert stored_spec(spec.model_dump_json()) == spec
    with pytest.raises(SpecError, match=r"tokenizer.file = .* cannot be read: No such file"):
        parse_spec(json.loads(spec.model_dump_json()))


def test_a_file_is_read_once_until_it_changes(tmp_path, monkeypatch):
    path = tokenizer_json(tmp_path)
    spec = parse_spec(mapping(tokenizer={"file": str(path)}))
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", None)
        assert spec.tokenizer_ref().vocab_size == 11
    path.write_text(path.read_text().replace('"id": 9', '"id": 19'))
    assert spec.tokenizer_ref().vocab_size == 21


MISTAKES = [
    # what is written, key, value, words of the message
    ({"corpus": 3}, "corpus", "3", "must be a mapping of keys to values, or 'stdlib' or a path"),
    ({"corpus": {"text": ""}}, "corpus.text", "", "must not be empty"),
    ({"corpus": {"txt": "/a"}}, "corpus.txt", "/a", "did you mean 'text'?"),
    ({"corpus": {}}, "corpus", "{}",
     "needs exactly one of text, jsonl, parquet, shards, dataset"),
    ({"corpus": {"text": "/a", "jsonl": "/b"}}, "corpus", '{"text": "/a", "jsonl": "/b"}',
     "needs exactly one of"),
    ({"corpus": {"text": "/a", "column": "b"}}, "corpus", '{"text": "/a", "column": "b"}',
     "column belongs to dataset, jsonl and parquet"),
    ({"corpus": {"jsonl": "/a", "split": "b"}}, "corpus", '{"jsonl": "/a", "split": "b"}',
     "split belongs to dataset"),
    ({"corpus": {"jsonl": "/a", "separator": 1}}, "corpus", '{"jsonl": "/a", "separator": 1}',
     "separator belongs to shards"),
    ({"corpus": {"shards": "/a"}}, "corpus", '{"shards": "/a"}', "shards need separator, the id"),
    ({"corpus": {"shards": "/a", "separator": -1}}, "corpus.separator", "-1", "must be at least 0"),
    ({"corpus": SHARDS | {"type": "int8"}}, "corpus.type", "int8", "must be 'uint16' or 'uint32'"),
    ({"corpus": SHARDS}, "tokenizer", "byte",
     "does not fit token shards; write {ids: N}, the ids that they were written with"),
    ({"tokenizer": IDS}, "tokenizer.ids", "50257", "is for token shards; this corpus holds text"),
    ({"corpus": SHARDS, "tokenizer": {"ids": 50256}}, "corpus.separator", "50256",
     "is not below tokenizer.ids = 50256"),
    ({"tokenizer": {}}, "tokenizer", "{}", "needs bpe, file or ids"),
    ({"tokenizer": {"bpe": 300, "ids": 9}}, "tokenizer", '{"bpe": 300, "ids": 9}',
     "bpe stands alone"),
    ({"corpus": SHARDS, "tokenizer": IDS | {"separator": "a"}}, "tokenizer",
     '{"ids": 50257, "separator": "a"}', "separator belongs to file; of ids, the corpus says it"),
    ({"tokenizer": {"file": "/no/such.json"}}, "tokenizer.file", "/no/such.json",
     "cannot be read: No such file or directory"),
    ({"tokenizer": {"file": "/tmp"}}, "tokenizer.file", "/tmp", "cannot be read: Is a directory"),
    ({"tokenizer": {"file": "~no-such-user/a"}}, "tokenizer.file", "~no-such-user/a", "home"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "key", "value", "words"), MISTAKES)
def test_one_mistake_is_one_problem_with_key_and_value(changes, key, value, words):
    with pytest.raises(SpecError) as caught:
        parse_spec(mapping() | changes)
    assert len(caught.value.problems) == 1, caught.value
    problem = caught.value.problems[0]
    assert (problem.key, problem.value) == (key, value)
    assert words in problem.message
    assert "\n" not in str(problem)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"model": {}}',
        b'{"model": {"vocab": {}}}',
        b'{"model": {"vocab": []}}',
        b'{"model": {"vocab": {"a": "b"}}}',
        b'{"model": {"vocab": {"a": -1}}}',
        b'{"model": {"vocab": ["a"]}}',
        b'{"model": {"vocab": {"a": 0}}, "added_tokens": [3]}',
        b"[" * 100_000,
    ],
)
def test_a_file_that_is_no_tokenizer_is_named(tmp_path, content):
    file = tmp_path / "tokenizer.json"
    file.write_bytes(content)
    with pytest.raises(SpecError, match=r"tokenizer.file = .*tokenizer.json: is no tokenizer.json"):
        parse_spec(mapping(tokenizer={"file": str(file)}))


def test_a_file_that_will_not_do_hides_no_other_problem():
    wrong = mapping(tokenizer={"file": "/no/such.json"}, seeds=[0, 0], eval={"tokens": "32tok"})
    with pytest.raises(SpecError) as caught:
        parse_spec(wrong)
    keys = [problem.key for problem in caught.value.problems]
    assert keys == ["seeds[1]", "eval.tokens", "tokenizer.file"]


@pytest.mark.parametrize("largest", [2**31 - 3, 2**31, 10**30])
def test_a_file_whose_ids_are_no_vocabulary_is_named_with_the_largest(tmp_path, largest):
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps({"model": {"vocab": {"a": 0, "b": largest}}}))
    with pytest.raises(SpecError, match=rf"tokenizer.file = .*: has the id {largest}; ids must be"):
        parse_spec(mapping(tokenizer={"file": str(file)}))


def test_a_separator_that_the_file_does_not_have_is_named_with_those_it_has(tmp_path):
    path = tokenizer_json(tmp_path)
    with pytest.raises(
        SpecError,
        match=r"tokenizer.separator = </s>: is no token of .*; its special tokens are <\|",
    ):
        parse_spec(mapping(tokenizer={"file": str(path), "separator": "</s>"}))


def test_a_file_with_more_ids_than_the_shards_may_hold_is_a_mismatch(tmp_path):
    tokenizer = {"ids": 9, "file": str(tokenizer_json(tmp_path))}
    corpus = {"shards": "/a.bin", "separator": 3}
    with pytest.raises(SpecError, match=r"tokenizer.ids = 9: .*tokenizer.json has 10 ids"):
        parse_spec(mapping(corpus=corpus, tokenizer=tokenizer))


def test_a_relative_path_in_the_home_of_nobody_is_named(tmp_path):
    file = tmp_path / "sweep.yaml"
    file.write_text(yaml.safe_dump(mapping(corpus={"jsonl": "~no-such-user/x"})))
    with pytest.raises(SpecError, match=r"corpus.jsonl = ~no-such-user/x: there is no such user"):
        load_spec(file)
