"""The tables that leave a sweep: complete, described, and enough to fit the same data again."""

import json
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from sweeps.answer import answer
from sweeps.endpoints import Row
from sweeps.errors import InputError
from sweeps.fit_json import models_of
from sweeps.fits.predict import predict
from sweeps.fits.settings import Settings
from sweeps.records import Outcome
from sweeps.samples import fit_samples
from sweeps.tables.exports import COLUMNS, OF_A_FIT, What, dictionary, fit_table, sweep_table
from sweeps.tables.run_columns import Columns, samples
from sweeps.tables.run_file import read_frame
from sweeps.tables.table import Form, Kind, Table, encode
from tests.sweeps.made_runs import made_grid, made_run, made_spec

QUICK = Settings(resamples=200)
EXPORTED = Columns(arm="recipe", group="cluster", label="label", excluded="excluded")


@pytest.fixture(scope="module")
def found():
    random = np.random.default_rng(0)
    runs = made_grid(
        {"bf16": 0.0, "ufp4": 0.02},
        widths=(32, 48, 64, 96),
        budgets=(10**6, 3 * 10**6, 10**7),
        seeds=(0, 1),
        noise=lambda: float(random.normal(0, 1e-3)),
    )
    lost = made_run(
        made_spec("ufp4", width=128), {}, horizons=(10**6,), outcome=Outcome.DIVERGED, detail="nan"
    )
    return answer([*runs, lost], resamples=QUICK.resamples)


def rows_of(table: Table) -> list[dict[str, Any]]:
    names = [column.name for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows]


@pytest.mark.parametrize("form", Form)
def test_fitting_the_exported_points_gives_the_numbers_of_the_sweep(found, tmp_path, form):
    path = tmp_path / f"points.{form}"
    path.write_bytes(encode(sweep_table(What.POINTS, found), form))
    again = fit_samples(samples(read_frame(path), EXPORTED, label="points"), QUICK)
    assert again == found.fits
    assert all(fit.solution is not None for fit in again)
    assert [len(fit.excluded) for fit in again] == [0, 1]


def test_every_planned_endpoint_is_a_row_with_all_that_is_known_of_it(found):
    table = sweep_table(What.ENDPOINTS, found)
    assert [column.name for column in table.columns] == [field.name for field in fields(Row)]
    assert len(table.rows) == len(found.rows) == 49
    lost = [row for row in rows_of(table) if row["outcome"] == "diverged"]
    assert [(row["loss"], row["gap"], row["detail"]) for row in lost] == [(None, None, "nan")]


def test_curves_are_a_grid_of_n_d_and_c_with_the_bands_of_the_predictions(found):
    rows = rows_of(sweep_table(What.CURVES, found))
    models = models_of(found.records)
    assert len(rows) == 2 * len(models) * 33
    of_size = {size.N: size.flops_per_token for size in models}
    fits = {fit.label: fit for fit in found.fits}
    for row in rows[::17]:
        assert row["flops"] == row["D"] * of_size[row["N"]]
        told = predict(fits[row["fit"]], row["N"], row["D"])
        assert (row["loss"], row["low"], row["high"]) == (told.loss, told.low, told.high)
        assert (row["loss"] is None) == (not told.allowed)
    spoken = [row for row in rows if row["loss"] is not None]
    assert len(spoken) > 100
    for row in spoken:
        assert row["new_low"] < row["loss"] < row["new_high"]
        assert row["low"] <= row["loss"] <= row["high"]


def test_parameters_are_the_estimates_and_theta_with_the_centre_gives_the_law_again(found):
    rows = rows_of(sweep_table(What.PARAMETERS, found))
    for fit in found.fits:
        mine = {row["constant"]: row for row in rows if row["fit"] == fit.label}
        assert set(mine) == {item.name for item in fit.estimates}
        for item in fit.estimates:
            row = mine[item.name]
            assert (row["value"], row["low"], row["high"]) == (item.value, item.low, item.high)
            assert row["identified"] == (row["value"] is not None) == (row["reason"] == "")
        assert fit.solution is not None
        law = fit.solution.law
        theta = np.array([mine[name]["theta"] for name in law.parameters])
        assert theta.tolist() == list(fit.solution.theta)
        assert {row["center_ln_N"] for row in mine.values()} == {law.x0}


def test_covariance_is_symmetric_that_of_the_draws_and_its_correlation_has_ones(found):
    rows = rows_of(sweep_table(What.COVARIANCE, found))
    for fit in found.fits:
        assert fit.solution is not None
        draws = fit.solution.samples.array()
        names = fit.solution.law.parameters
        mine = {(row["constant"], row["other"]): row for row in rows if row["fit"] == fit.label}
        assert len(mine) == len(names) ** 2
        expected = np.cov(draws, rowvar=False)
        for i, one in enumerate(names):
            for j, other in enumerate(names):
                row = mine[one, other]
                assert row["covariance"] == mine[other, one]["covariance"]
                assert row["covariance"] == pytest.approx(expected[i, j], rel=1e-3, abs=1e-10)
            assert mine[one, one]["correlation"] == pytest.approx(1)


@pytest.mark.parametrize("what", What)
def test_the_dictionary_describes_every_column_of_every_table(found, what):
    table = sweep_table(what, found)
    assert table.columns == tuple(COLUMNS[what])
    described = {row["column"]: row for row in rows_of(dictionary()) if row["table"] == what.value}
    assert list(described) == [column.name for column in table.columns]
    for row in described.values():
        assert row["meaning"].endswith(".")
        assert row["type"] in set(Kind)


@pytest.mark.parametrize("what", What)
def test_every_cell_is_of_the_type_that_its_column_says(found, what):
    kinds: dict[Kind, Any] = {
        Kind.TEXT: str,
        Kind.INTEGER: int,
        Kind.NUMBER: (int, float),
        Kind.BOOLEAN: bool,
    }
    table = sweep_table(what, found)
    for row in table.rows:
        for column, cell in zip(table.columns, row, strict=True):
            assert cell is None or isinstance(cell, kinds[column.kind]), column.name
    for form in Form:
        assert encode(table, form)


def test_the_checklist_names_what_a_reader_needs_to_fit_again(found):
    rows = rows_of(sweep_table(What.CHECKLIST, found))
    values = {(row["section"], row["item"]): row["value"] for row in rows}
    assert values["training", "learning_rate"] == "0.001"
    assert values["training", "batch_tokens"] == "1024"
    assert values["tokenizer", "kind"] == "byte"
    assert values["evaluation", "tokens"] == "4096"
    assert values["runs", "seeds"] == "s0; s1"
    assert values["runs", "outcomes"] == "16 succeeded, 1 diverged"
    assert values["fit of ufp4", "not fitted"] == "1 diverged"
    for item in ("input hash", "law fitted", "Huber delta", "starts", "intervals", "residual"):
        assert values["fit of bf16", item]
    assert values["fits", "to fit them again"].startswith("gridlaw fit points.csv --arm-col")
    assert values["software", "scipy"]
    assert all(row["value"] is not None for row in rows)


def test_the_checklist_says_what_a_file_cannot():
    fits = fit_samples([], Settings())
    values = {
        (row["section"], row["item"]): row["value"]
        for row in rows_of(fit_table(What.CHECKLIST, fits))
    }
    assert values["data", "tokenizer"] == "not recorded"
    assert values["counting", "N"] == "not recorded"


def test_a_kept_fit_has_no_endpoints_and_says_so(found):
    for what in OF_A_FIT:
        assert fit_table(what, found.fits).columns == tuple(COLUMNS[what])
    with pytest.raises(InputError, match="a kept fit holds curves, parameters"):
        fit_table(What.POINTS, found.fits)


def test_the_json_of_a_table_says_what_its_columns_mean(found):
    given = json.loads(encode(sweep_table(What.CURVES, found), Form.JSON))
    assert {column["name"]: column["unit"] for column in given["columns"]}["flops"] == "FLOPs"
    assert given["rows"][0]["fit"] == "bf16"
