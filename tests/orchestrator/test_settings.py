import os
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from orchestrator.settings import ExecutorKind, Settings, load_settings
from sweeps.errors import InputError


def test_defaults_put_everything_under_the_home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = load_settings({})
    home = tmp_path / ".gridlaw"
    assert settings.home == home
    assert settings.database_url == f"sqlite:///{home}/gridlaw.db"
    assert settings.mlflow_url == f"sqlite:///{home}/mlflow/mlflow.db"
    assert settings.ray_address is None
    layout = settings.layout
    assert {layout.runs, layout.cache, layout.reports, layout.mlflow} == {
        home / name for name in ("runs", "cache", "reports", "mlflow")
    }


def test_loading_settings_makes_nothing(tmp_path):
    load_settings({"GRIDLAW_HOME": str(tmp_path / "home")})
    assert not list(tmp_path.iterdir())


def test_slots_are_the_cores_that_this_process_may_use():
    assert load_settings({}).slots == len(os.sched_getaffinity(0))


def test_a_home_moves_the_databases_with_it():
    settings = load_settings({"GRIDLAW_HOME": "/srv/lab"})
    assert settings.database_url == "sqlite:////srv/lab/gridlaw.db"


def test_a_home_under_tilde_is_the_users():
    assert load_settings({"GRIDLAW_HOME": "~/lab"}).home == Path.home() / "lab"


@pytest.mark.parametrize("name", ["plain", "a b", "c#d", "what?", "50%", "p%41q", "é@:&=[x]"])
def test_the_urls_of_any_home_open_the_files_in_it(tmp_path, name):
    settings = load_settings({}, home=tmp_path / name)
    settings.layout.mlflow.mkdir(parents=True)
    for url, file in (
        (settings.database_url, settings.layout.database),
        (settings.mlflow_url, settings.layout.mlflow / "mlflow.db"),
    ):
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE t (x)")
        engine.dispose()
        assert file.is_file()
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_a_home_of_nobody_is_refused():
    with pytest.raises(InputError, match="home = ~no-such-user/lab: there is no such user"):
        load_settings({"GRIDLAW_HOME": "~no-such-user/lab"})


def test_every_field_has_its_variable():
    values = {
        "home": "/srv/lab",
        "database_url": "postgresql+psycopg://lab@db/lab",
        "mlflow_url": "http://mlflow:5000",
        "ray_address": "ray://head:10001",
        "executor": "local",
        "slots": "3",
        "gpu_memory_bytes": "80000000000",
        "accelerate": "0",
        "tick_seconds": "0.5",
        "lease_seconds": "30",
        "stop_grace_seconds": "5",
        "min_free_bytes": "1000",
    }
    assert set(values) == set(Settings.model_fields)
    settings = load_settings({f"GRIDLAW_{key.upper()}": value for key, value in values.items()})
    assert settings.executor is ExecutorKind.LOCAL
    assert settings.slots == 3
    for key, value in values.items():
        found = getattr(settings, key)
        assert str(found) == value or float(found) == float(value)


def test_an_override_wins_and_none_is_no_override():
    settings = load_settings({"GRIDLAW_SLOTS": "3"}, slots=5, ray_address=None)
    assert settings.slots == 5
    assert load_settings({"GRIDLAW_SLOTS": "3"}, slots=None).slots == 3


def test_an_empty_variable_counts_as_unset():
    assert load_settings({"GRIDLAW_RAY_ADDRESS": ""}).ray_address is None


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("GRIDLAW_SLOTS", "0"),
        ("GRIDLAW_SLOTS", "many"),
        ("GRIDLAW_LEASE_SECONDS", "nan"),
        ("GRIDLAW_TICK_SECONDS", "-1"),
        ("GRIDLAW_EXECUTOR", "slurm"),
        ("GRIDLAW_MIN_FREE_BYTES", "1GB"),
        ("GRIDLAW_GPU_MEMORY_BYTES", "0"),
        ("GRIDLAW_ACCELERATE", "fast"),
    ],
)
def test_a_bad_value_is_named_with_its_variable(variable, value):
    with pytest.raises(InputError, match=f"^{variable} = {value}: "):
        load_settings({variable: value})


def test_a_bad_override_is_named_as_the_option_it_is():
    with pytest.raises(InputError, match=r"^slots = 0: "):
        load_settings({"GRIDLAW_SLOTS": "2"}, slots=0)


def test_a_misspelt_variable_is_refused_with_a_suggestion():
    with pytest.raises(InputError, match="GRIDLAW_SLOT is not a setting; did you mean GRIDLAW_SLO"):
        load_settings({"GRIDLAW_SLOT": "2"})


def test_variables_of_others_are_left_alone():
    assert load_settings({"PATH": "/bin", "grid": "x"}) == load_settings({})


@pytest.mark.parametrize("field", ["slots", "home"])
def test_settings_do_not_change(field):
    settings = load_settings({})
    with pytest.raises(ValueError, match="frozen"):
        setattr(settings, field, 9)


def test_the_variable_that_names_public_data_for_tests_is_no_setting(tmp_path):
    env = {"GRIDLAW_PUBLIC_DATA": str(tmp_path)}
    assert load_settings(env, home=tmp_path) == load_settings({}, home=tmp_path)
