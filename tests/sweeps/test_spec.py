"""What a valid spec means, and that YAML, JSON and the notebook object are one thing."""

import hashlib
import json
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings

from sweeps.errors import InputError, SpecError
from sweeps.model_sections import ModelSection
from sweeps.pinning import pin_corpus
from sweeps.runspec import Seeds
from sweeps.shapes import Mlp
from sweeps.sources import CorpusKind, CorpusRef, TokenizerKind, TokenizerRef
from sweeps.spec import SweepSpec, load_spec, parse_spec, spec_text
from tests.sweeps.specs import SPECS, mapping, train

EXAMPLES = Path(__file__).parents[2] / "examples"


@settings(max_examples=30, deadline=None)
@given(written=SPECS)
def test_yaml_spec_and_json_all_say_the_same(written, tmp_path_factory):
    spec = parse_spec(written)
    file = tmp_path_factory.mktemp("spec") / "sweep.yaml"
    file.write_text(yaml.safe_dump(written, allow_unicode=True), encoding="utf-8")
    assert load_spec(file) == spec
    assert parse_spec(json.loads(spec.model_dump_json())) == spec
    assert SweepSpec(**written) == spec
    file.write_text(spec_text(spec), encoding="utf-8")
    assert load_spec(file) == spec


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda file: file.name)
def test_every_example_is_a_valid_spec_named_as_its_file(file):
    assert load_spec(file).name == file.stem


def test_the_recipes_that_the_readme_writes_out_are_recipes():
    readme = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(recipes:.*?)```", readme, re.S)
    models = [{"layers": 4, "width": 64, "heads": 2, "mlp_width": 192}]
    spec = parse_spec(mapping(models=models) | yaml.safe_load(block))
    assert len(spec.all_recipes()) == 6 + 32


def test_the_models_and_the_corpus_that_the_readme_writes_out_are_such():
    readme = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(models:.*?)```", readme, re.S)
    spec = parse_spec(mapping(recipes=["bf16"]) | yaml.safe_load(block))
    assert [shape.name for shape in spec.shapes()] == ["400k", "1.6m", "moe-4m", "4x256h8k2-m768"]
    assert spec.tokenizer_ref().vocab_size == 4096


def test_a_model_gets_its_name_and_mlp_width_from_its_shape():
    usual = ModelSection(layers=2, width=48, heads=3).shape()
    assert (usual.name, usual.mlp_width, usual.mlp) == ("2x48h3", 128, Mlp.SWIGLU)
    assert ModelSection(layers=2, width=64, heads=4).shape().mlp_width == 176  # 170.7 rounded up
    squared = ModelSection(layers=1, width=64, heads=4, mlp=Mlp.RELU2).shape()
    assert (squared.name, squared.mlp_width) == ("1x64h4-relu2", 256)
    own = ModelSection(layers=1, width=64, heads=4, mlp_width=96).shape()
    assert (own.name, own.mlp_width) == ("1x64h4-m96", 96)
    assert ModelSection(layers=1, width=64, heads=4, name="tiny").shape().name == "tiny"


def test_one_integer_seeds_all_streams_and_a_mapping_each_alone():
    spec = parse_spec(mapping(seeds=[3, {"data": 1, "rht": 2}]))
    assert spec.all_seeds() == (
        Seeds(init=3, data=3, sr=3, rht=3),
        Seeds(init=0, data=1, sr=0, rht=2),
    )


def test_the_tokenizer_is_bytes_or_a_bpe_of_its_size():
    assert parse_spec(mapping()).tokenizer_ref() == TokenizerRef()
    bpe = parse_spec(mapping(tokenizer={"bpe": 512})).tokenizer_ref()
    assert bpe == TokenizerRef(kind=TokenizerKind.BPE, vocab_size=512)


def test_an_exponent_without_a_point_is_a_number_in_yaml(tmp_path):
    file = tmp_path / "sweep.yaml"
    text = yaml.safe_dump(mapping(train=train(learning_rate=1)))
    file.write_text(text.replace("learning_rate: 1", "learning_rate: 4e-3"), encoding="utf-8")
    assert load_spec(file).train.learning_rate == 0.004


def test_a_relative_corpus_counts_from_the_files_folder(tmp_path, monkeypatch):
    texts = corpus_of(tmp_path / "texts", (1025, 65))
    file = tmp_path / "sweep.yaml"
    file.write_text(yaml.safe_dump(ENOUGH | {"corpus": "texts/*.txt"}), encoding="utf-8")
    monkeypatch.chdir(tmp_path.parent)
    spec = load_spec(file)
    assert spec.corpus == str(texts / "*.txt")
    ref = pin_corpus(spec).ref
    assert (ref.kind, ref.num_documents, ref.num_bytes) == (CorpusKind.TEXT, 2, 1090)


ENOUGH = mapping(recipes=["bf16"], eval={"held_out": 0.5, "tokens": "64tok"})
"""Asks for more than 1024 training tokens, and for two sequences of 32 held out."""


def corpus_of(folder: Path, sizes: tuple[int, ...]) -> Path:
    """A training and a validation document (of a half held out) of so many bytes."""
    folder.mkdir()
    for side, size in zip((False, True), sizes, strict=True):
        texts = (f"{salt:x>{size}}".encode() for salt in range(1000))
        text = next(t for t in texts if (hashlib.sha256(t).digest()[0] < 128) is side)
        (folder / f"{side}.txt").write_bytes(text)
    return folder


@pytest.mark.parametrize("tokenizer", ["byte", {"bpe": 300}])
def test_a_corpus_must_hold_one_batch_and_the_held_out_tokens_to_the_last_target(
    tmp_path, tokenizer
):
    def pinned(name: str, *sizes: int) -> CorpusRef:
        folder = corpus_of(tmp_path / name, sizes)
        return pin_corpus(parse_spec(ENOUGH | {"corpus": str(folder), "tokenizer": tokenizer})).ref

    assert pinned("enough", 1024, 64).num_bytes == 1088
    with pytest.raises(SpecError, match=r"train.batch = 1024tok: .* at most 1024 training tokens"):
        pinned("little-training", 1023, 64)
    with pytest.raises(SpecError, match=r"eval.tokens = 64tok: .* have at most 32 tokens in whole"):
        pinned("little-validation", 1024, 63)
    with pytest.raises(SpecError) as caught:
        pinned("little", 10, 10)
    assert [problem.key for problem in caught.value.problems] == ["train.batch", "eval.tokens"]


def test_a_corpus_of_one_document_cannot_be_split(tmp_path):
    file = tmp_path / "one.txt"
    file.write_text("x" * 5000, encoding="utf-8")
    with pytest.raises(InputError, match="both need at least one"):
        pin_corpus(parse_spec(ENOUGH | {"corpus": str(file)}))


def test_a_corpus_in_the_home_of_nobody_is_named(tmp_path):
    file = tmp_path / "sweep.yaml"
    file.write_text(yaml.safe_dump(mapping(corpus="~no-such-user/x")), encoding="utf-8")
    with pytest.raises(SpecError, match=r"corpus = ~no-such-user/x: there is no such user"):
        load_spec(file)


def test_the_stdlib_corpus_needs_no_path():
    ref = pin_corpus(parse_spec(mapping())).ref
    assert (ref.kind, ref.path) == (CorpusKind.STDLIB, "")
    assert ref.num_bytes > 5_000_000


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "must hold keys such as name and models, but is empty"),
        (b"- a\n- b\n", "but is a list"),
        (b"just text", "but is a str"),
        (b"name: a\nmodels: [1,\n", "line 3 is not YAML"),
        (b"name: a\nname: b\n", "line 2 is not YAML: the key 'name' stands twice"),
        (b"train:\n  batch: 1tok\n  batch: 2tok\n", "line 3 is not YAML: the key 'batch'"),
        (b"name: !!python/object:os.system x\n", "line 1 is not YAML"),
        (b"? [a]\n: 1\n", "line 1 is not YAML: a key must be one word"),
        (b"name: \xff\xfe\n", "is not UTF-8 text"),
        (b"name: a\x00b\n", "is not YAML"),
        (b"n: " + b"9" * 5000, "is not YAML"),
    ],
)
def test_a_file_that_is_no_mapping_is_refused_in_one_sentence(content, sentence, tmp_path):
    file = tmp_path / "sweep.yaml"
    file.write_bytes(content)
    with pytest.raises(InputError) as caught:
        load_spec(file)
    assert str(caught.value).startswith(f"sweep file {file}")
    assert sentence in str(caught.value)


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(InputError, match=r"there is no sweep file .*gone\.yaml"):
        load_spec(tmp_path / "gone.yaml")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        load_spec(tmp_path)


def test_merge_keys_are_allowed_beside_a_key_that_overrides_them(tmp_path):
    file = tmp_path / "sweep.yaml"
    text = yaml.safe_dump(mapping(models=[]))
    models = "models:\n- &small {layers: 1, width: 64, heads: 2}\n- {<<: *small, layers: 2}\n"
    file.write_text(text.replace("models: []\n", models), encoding="utf-8")
    assert [shape.num_layers for shape in load_spec(file).shapes()] == [1, 2]
