"""The held-out split: by each document's own hash, whatever else is in the corpus."""

import pytest
from hypothesis import given, strategies as st

from sweeps.corpora.document import Document
from sweeps.corpora.pin import pin
from sweeps.corpora.split import check_sides, is_held_out
from sweeps.errors import InputError
from sweeps.sources import CorpusKind
from tests.corpora import source

DOCUMENTS = [Document.of(str(number).encode()) for number in range(4000)]


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_about_the_asked_share_is_held_out(share):
    held_out = sum(is_held_out(document, share) for document in DOCUMENTS)
    assert held_out / len(DOCUMENTS) == pytest.approx(share, abs=0.02)


@given(st.binary(min_size=32, max_size=32), st.floats(1e-4, 0.5))
def test_the_first_eight_bytes_of_the_hash_are_a_fraction_of_one(digest, share):
    fraction = sum(byte / 256.0 ** (place + 1) for place, byte in enumerate(digest[:8]))
    if abs(fraction - share) > 1e-12:
        assert is_held_out(Document(b"", digest), share) is (fraction < share)


@given(st.floats(0.0, 0.5), st.floats(0.0, 0.5))
def test_a_larger_share_keeps_what_a_smaller_one_held_out(one, other):
    small, large = sorted((one, other))
    for document in DOCUMENTS[:50]:
        assert is_held_out(document, small) <= is_held_out(document, large)


def test_a_side_without_documents_is_refused_with_the_numbers():
    with pytest.raises(InputError, match=r"held_out = 1e-09 leaves 10 training and 0 validation"):
        check_sides(10, 0, 1e-9)
    with pytest.raises(InputError, match=r"leaves 0 training and 3 validation documents of 3"):
        check_sides(0, 3, 0.5)


def test_a_pinned_corpus_knows_both_sides(tmp_path):
    texts = [f"document {number}" for number in range(200)]
    for number, text in enumerate(texts):
        (tmp_path / f"{number:03}").write_text(text)
    pinned = pin(source(CorpusKind.TEXT, tmp_path), 0.25)
    held = [text for text in texts if is_held_out(Document.of(text.encode()), 0.25)]
    assert 20 < len(held) < 80
    assert (pinned.train.documents, pinned.held_out.documents) == (200 - len(held), len(held))
    assert pinned.held_out.tokens == sum(len(text) + 1 for text in held)
    assert pinned.train.tokens + pinned.held_out.tokens == sum(len(text) + 1 for text in texts)
    assert pinned.largest_id is None
