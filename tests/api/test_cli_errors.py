"""When something is wrong: one sentence, the right exit code, nothing written."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.api.homes import TRAIN, mapping, write_spec

BAD_SPECS: dict[str, tuple[dict[str, object], tuple[str, ...]]] = {
    "unknown key": ({"modles": 3}, ("modles = 3", "did you mean 'models'?")),
    "unknown recipe": ({"recipes": ["bf17"]}, ("recipes[0] = bf17", "ufp4")),
    "size that no block divides": (
        {"models": [{"layers": 1, "width": 24, "heads": 1}]},
        ("models[0].width = 24", "16"),
    ),
    "heads that do not divide": (
        {"models": [{"layers": 1, "width": 32, "heads": 5}]},
        ("models[0].width = 32", "heads = 5"),
    ),
    "budget without a unit": ({"budgets": ["400"]}, ("budgets[0] = 400", "tpp")),
    "budget with a wrong unit": ({"budgets": ["4mtok"]}, ("budgets[0] = 4mtok", "Mtok")),
    "batch without a unit": ({"train": TRAIN | {"batch": 256}}, ("train.batch = 256", "tok")),
    "missing section": ({"train": None}, ("train",)),
    "corpus that is not there": ({"corpus": "nowhere"}, ("nowhere", "no file")),
    "corpus of nobody": ({"corpus": "~no-such-user/x"}, ("corpus = ~no-such-user/x", "user")),
    "corpus of a name too long": ({"corpus": "x" * 300}, ("File name too long",)),
    "corpus with a NUL": ({"corpus": "a\0b"}, ("a\\x00b", "no file")),
    "corpus without two sides": (
        {"corpus": "texts/0.txt"},
        ("held_out = 0.2", "1 validation documents of 1"),
    ),
    "corpus that is too small": (
        {"eval": {"held_out": 0.2, "tokens": "1Mtok"}},
        ("eval.tokens = 1000000tok", "held_out = 0.2"),
    ),
}


@pytest.mark.parametrize("verb", ["plan", "run", "submit"])
@pytest.mark.parametrize("case", BAD_SPECS)
def test_a_bad_spec_is_one_sentence_and_exit_2_and_makes_no_home(gridlaw, tmp_path, verb, case):
    changes, words = BAD_SPECS[case]
    said = gridlaw(verb, write_spec(tmp_path, **changes), "--home", tmp_path / "home")
    assert said.code == 2
    assert said.out == ""
    assert said.err.startswith("gridlaw: ")
    assert said.err.count("\n") == 1
    assert all(word in said.err for word in words), said.err
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("verb", ["plan", "run", "submit"])
def test_an_empty_corpus_makes_no_home(gridlaw, tmp_path, verb):
    spec = write_spec(tmp_path, corpus="empty")
    (tmp_path / "empty").mkdir()
    said = gridlaw(verb, spec, "--home", tmp_path / "home")
    assert said.code == 2
    assert "empty" in said.err
    assert not (tmp_path / "home").exists()


FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda _: None, "there is no sweep file"),
    "a folder": (lambda path: path.mkdir(), "cannot be read"),
    "a list": (lambda path: path.write_text("- a\n"), "but is a list"),
    "empty": (lambda path: path.write_text(""), "but is empty"),
    "no YAML": (lambda path: path.write_text("a: [1\n"), "is not YAML"),
    "a key twice": (lambda path: path.write_text("a: 1\na: 2\n"), "stands twice"),
    "a list as key": (lambda path: path.write_text("? [1]\n: 2\n"), "one word"),
    "no text": (lambda path: path.write_bytes(b"\xff\xfe\x00"), "not UTF-8"),
}


@pytest.mark.parametrize("case", FILES)
def test_a_file_that_is_no_sweep_is_one_sentence_and_exit_2(gridlaw, tmp_path, case):
    make, words = FILES[case]
    make(tmp_path / "x.yaml")
    said = gridlaw("run", tmp_path / "x.yaml", "--home", tmp_path / "home")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert words in said.err
    assert str(tmp_path / "x.yaml") in said.err
    assert not (tmp_path / "home").exists()


USAGE = {
    "no such verb": ["fly"],
    "no such option": ["list", "--jsn"],
    "no spec": ["run"],
    "too many": ["gaps", "a", "b"],
    "port out of range": ["serve", "--port", "70000"],
}


@pytest.mark.parametrize("case", USAGE)
def test_wrong_usage_is_exit_2(gridlaw, case):
    said = gridlaw(*USAGE[case])
    assert said.code == 2
    assert said.out == ""
    assert "Error: " in said.err
    assert "Traceback" not in said.err


READS = ["list", "show x", "gaps x", "fit x", "export x", "report x", "cancel x", "retry x"]


@pytest.mark.parametrize("words", READS)
def test_a_home_without_a_store_is_said_and_not_made(gridlaw, tmp_path, words):
    said = gridlaw(*words.split(), "--home", tmp_path / "home")
    assert said.code == 1
    assert f"there is no store in {tmp_path / 'home'}" in said.err
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("verb", ["show", "gaps", "fit", "report", "cancel", "retry"])
def test_a_sweep_that_is_not_there_is_exit_1(gridlaw, finished, verb):
    said = gridlaw(verb, "nope", "--home", finished.home)
    assert (said.code, said.err) == (1, "gridlaw: there is no sweep 'nope'\n")


def test_an_unknown_setting_is_exit_2_with_the_one_that_was_meant(gridlaw, monkeypatch):
    monkeypatch.setenv("GRIDLAW_SLOT", "3")
    said = gridlaw("list")
    assert said.code == 2
    assert "did you mean GRIDLAW_SLOTS?" in said.err


def test_a_store_that_is_no_database_is_exit_1(gridlaw, tmp_path):
    (tmp_path / "gridlaw.db").write_text("this is no database, and long enough to be seen as none")
    said = gridlaw("list", "--home", tmp_path)
    assert said.code == 1
    assert "is not a database file" in said.err
    assert said.err.count("\n") == 1


def test_a_place_that_cannot_be_written_leaves_nothing(gridlaw, finished, tmp_path):
    said = gridlaw("export", "tiny", "--home", finished.home, "--out", tmp_path / "no" / "x.csv")
    assert said.code == 1
    assert f"cannot write {tmp_path / 'no' / 'x.csv'}" in said.err
    assert list(tmp_path.iterdir()) == []


def test_an_unforeseen_error_is_one_sentence_with_the_place_of_its_traceback(
    gridlaw, tmp_path, monkeypatch
):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    # json.dumps is not ours; taking it away stands for any fault that nobody foresaw.
    monkeypatch.setattr("json.dumps", None)
    spec = write_spec(tmp_path)
    said = gridlaw("plan", spec, "--home", tmp_path / "home", "--json")
    assert said.code == 1
    assert said.err.count("\n") == 1
    log = Path(said.err.strip().rpartition(" ")[2])
    assert log.parent == tmp_path
    assert "TypeError" in said.err
    assert "Traceback" in log.read_text()


def test_the_valid_spec_of_these_tests_is_valid(gridlaw, tmp_path):
    assert mapping()["corpus"] == "texts"
    assert gridlaw("plan", write_spec(tmp_path), "--home", tmp_path / "home").code == 0
