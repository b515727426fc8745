"""Conditions over the columns: what they keep, and one sentence for each that is none."""

import pytest
from pandas import DataFrame

from sweeps.errors import InputError
from sweeps.tables.where import select


@pytest.fixture
def frame():
    return DataFrame(
        {
            "N": [10, 20, 30, 40],
            "phase": ["hot", "cool", "hot", None],
            "my col": [1.0, 2.0, 3.0, 4.0],
        },
        index=[1, 2, 3, 4],
    )


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("N > 15", [2, 3, 4]),
        ("phase == 'hot' and N >= 30", [3]),
        ("phase in ['cool', 'hot']", [1, 2, 3]),
        ("not (N == 10 or `my col` > 2.5)", [2]),
        ("N / `my col` == 10 and phase != 'hot'", [2, 4]),
        ("N == N", [1, 2, 3, 4]),
    ],
)
def test_a_condition_keeps_its_rows_with_their_numbers(frame, condition, rows):
    assert select(frame, condition).index.tolist() == rows


@pytest.mark.parametrize(
    ("condition", "sentence"),
    [
        ("n > 15", "name 'n' is not defined; the columns are N, phase, my col"),
        ("phase = 'hot'", "sets a column; equality is =="),
        ("phase == hot'", "is not an expression; equality is =="),
        ("N >", "is not an expression"),
        ("(N > 3", "is not an expression"),
        ("1 / 0 > N", "zero"),
        ("N > " + "-" * 5000 + "1", "recursion|is not an expression|nested"),
        ("N + 1", "gives no yes or no for each row"),
        ("True", "gives no yes or no for each row"),
        ("phase > 3", "nvalid comparison|not supported"),
        ("N > 100", "holds for none of 4 rows"),
        ("phase == 'Hot'", "holds for none of 4 rows; phase is one of hot, cool"),
        ("@frame", "@ has no meaning here"),
        ("__import__('os').getcwd()", "not a supported function"),
        ("phase.nothing > 3", "no attribute 'nothing'"),
        ("", "empty"),
    ],
)
def test_what_is_no_condition_is_refused_in_one_sentence(frame, condition, sentence):
    with pytest.raises(InputError, match=sentence) as raised:
        select(frame, condition)
    assert str(raised.value).startswith(f"where = {condition}: ")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["int64", "uint64", "Int64"])
def test_products_of_counts_do_not_wrap_around(name):
    counts = DataFrame({"N": [1e9, 2e9, 3e9], "D": [2e9, 2e9, 2e9]}).astype(name)
    assert select(counts, "6 * N * D > 1.5e19").index.tolist() == [1, 2]
    assert select(counts, "N ** 3 < 1e28").index.tolist() == [0, 1]
