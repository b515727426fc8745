"""Run records, and which of their losses count as measured."""

from dataclasses import replace

import pytest

from kernels.formats import E4M3
from kernels.presets import compose
from sweeps.errors import InputError
from sweeps.measured import distinct, measured
from tests.sweeps.made_runs import made_run, made_spec


def test_an_endpoint_is_found_at_its_exact_token_count_only() -> None:
    run = made_run(made_spec(), {1000: 2.0, 2000: 1.9})
    point = run.endpoint(2000)
    assert point is not None
    assert point.loss == 1.9
    assert run.endpoint(1999) is None


def test_a_record_carries_the_identity_of_its_spec() -> None:
    spec = made_spec("ufp4")
    assert made_run(spec, {}).run_id == spec.run_id


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), 0.0, -1.0])
def test_a_loss_that_is_not_positive_and_finite_is_not_measured(loss: float) -> None:
    assert measured(made_run(made_spec(), {1000: loss}), 1000) is None
    assert measured(made_run(made_spec(), {1000: 2.0}), 1000) is not None


def test_a_run_listed_twice_is_one_run_with_all_its_horizons() -> None:
    first = made_run(made_spec(), {1000: 2.0})
    second = made_run(made_spec(), {1000: 2.0, 4000: 1.8}, horizons=(4000,))
    (run,) = distinct([first, second])
    assert run.horizons == (1000, 4000)
    assert [point.tokens for point in run.endpoints] == [1000, 4000]


def test_distinct_runs_keep_the_order_of_first_appearance() -> None:
    runs = [made_run(made_spec(width=width), {}) for width in (64, 32, 112)]
    assert distinct([*runs, runs[0]]) == tuple(runs)


def test_one_name_for_two_recipes_is_refused_by_name() -> None:
    spec = made_spec("ufp4")
    other = replace(spec, recipe=compose(E4M3, name="ufp4"))
    with pytest.raises(InputError, match="'ufp4'"):
        distinct([made_run(spec, {}), made_run(other, {})])


def test_no_records_are_no_runs() -> None:
    assert distinct([]) == ()
