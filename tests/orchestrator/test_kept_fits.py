"""Kept fits in the store: each once, found by its id, whole, and no reason to fail an answer."""

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from orchestrator.store import Store
from sweeps.errors import InputError, NotFoundError, StorageError
from sweeps.fits.fit import fit
from sweeps.fits.points import make_points
from sweeps.fits.settings import Settings
from sweeps.tables.kept_fit import fit_id
from tests.orchestrator.values import LEASE

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def found():
    random = np.random.default_rng(0)
    grid = np.meshgrid(np.geomspace(3e7, 1e9, 4), [10, 30, 100, 300])
    sizes, tokens = grid[0].ravel(), (grid[0] * grid[1]).ravel()
    noise = np.exp(random.normal(0, 0.002, sizes.size))
    points = make_points(sizes, tokens, (1.7 + 400 / sizes**0.34 + 1000 / tokens**0.33) * noise)
    return [fit(points, label=label, settings=Settings(resamples=100)) for label in "ab"]


def test_a_kept_fit_comes_back_whole_by_the_start_of_its_id(store, found):
    ids = store.keep_fits(found, "sweep-1", NOW)
    assert ids == tuple(map(fit_id, found))
    for identity, one in zip(ids, found, strict=True):
        assert store.fit(identity) == one
        assert store.fit(identity[:12]) == one


def test_the_same_again_is_no_new_row_and_keeps_the_first_moment_and_place(store, found):
    first = store.keep_fits(found, "sweep-1", NOW)
    again = store.keep_fits(found, "runs.csv", NOW + timedelta(hours=1))
    assert again == first
    listed = store.fits()
    assert len(listed) == 2
    assert {(one.source, one.created_at) for one in listed} == {("sweep-1", NOW)}


def test_the_list_is_newest_first_and_says_law_status_and_input(store, found):
    store.keep_fits(found[:1], "sweep-1", NOW)
    store.keep_fits(found[1:], "runs.csv", NOW + timedelta(hours=1))
    newest, oldest = store.fits()
    assert (newest.label, oldest.label) == ("b", "a")
    assert newest.input_hash == found[1].input_hash
    assert (newest.law, newest.status) == (found[1].law_name, found[1].status.value)
    assert newest.method_version == found[1].method_version


def test_a_fit_that_is_not_there_and_one_of_several_are_sentences(store, found):
    many = [replace(found[0], label=f"fit {number}") for number in range(17)]
    store.keep_fits(many, "sweep-1", NOW)
    for word in ("", "zzzz"):
        with pytest.raises(NotFoundError, match=f"there is no fit {word!r}"):
            store.fit(word)
    starts = [fit_id(one)[0] for one in many]
    twice = next(start for start in starts if starts.count(start) > 1)
    with pytest.raises(InputError, match=f"fit {twice!r} may be any of"):
        store.fit(twice)


def test_a_store_in_a_folder_that_may_not_be_written_answers_and_keeps_nothing(
    store, url, tmp_path, found, monkeypatch
):
    if not url.startswith("sqlite"):
        pytest.skip("a server's own rights decide there")
    store.keep_fits(found[:1], "sweep-1", NOW)
    store.close()
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and allowed(path, mode))
    frozen = Store(url, runs=tmp_path / "runs", lease=LEASE)
    try:
        (kept,) = frozen.fits()
        assert frozen.fit(kept.fit_id) == found[0]
        assert frozen.keep_fits(found[:1], "sweep-1", NOW) == (kept.fit_id,)
        with pytest.raises(StorageError, match="is not writable"):
            frozen.keep_fits(found[1:], "sweep-1", NOW)
        assert [path.name for path in (tmp_path / "home").iterdir()] == ["gridlaw.db"]
    finally:
        frozen.close()
