"""The facade over a real corpus and a real store."""

from dataclasses import replace
from datetime import timedelta

import pytest

from kernels.presets import PRESETS
from orchestrator.service import Service, lay_out
from orchestrator.settings import load_settings
from orchestrator.states import State
from orchestrator.store import Store
from sweeps.errors import InputError
from sweeps.plan import Plan
from sweeps.spec import parse_spec
from tests.orchestrator.values import START, completed, plan_of


@pytest.fixture
def service(url, tmp_path):
    settings = load_settings({}, home=tmp_path / "home", database_url=url, slots=2)
    opened = Service(store=Store.open(settings), settings=settings, clock=lambda: START)
    yield opened
    opened.store.close()


@pytest.fixture
def spec(tmp_path):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for number in range(40):
        (corpus / f"{number}.txt").write_text(f"text number {number}\n" * 50)
    evaluation = {"held_out": 0.2, "tokens": "1024tok"}
    changes = {"corpus": str(corpus), "eval": evaluation}
    return parse_spec(plan_of().spec.model_dump(mode="json") | changes)


def train_all(service: Service, plan: Plan) -> None:
    for run in plan.runs:
        task = service.store.claim(run.run_id, START)
        assert task is not None
        service.store.apply(completed(task), START)


def test_planning_stores_nothing(service, spec):
    plan = lay_out(spec)
    price = service.price(plan)
    assert (price.cells, price.runs, price.reused) == (4, 2, 0)
    assert price.tokens == sum(run.tokens for run in plan.runs)
    assert price.eta_seconds > 0
    assert service.list() == ()


def test_what_was_trained_is_not_paid_for_again(service, spec):
    plan = lay_out(spec)
    service.submit(plan)
    train_all(service, plan)
    price = service.price(plan)
    assert (price.reused, price.tokens, price.flops, price.eta_seconds) == (2, 0, 0, 0.0)


def test_a_submitted_sweep_is_shown_listed_and_answered(service, spec):
    plan = lay_out(spec)
    summary = service.submit(plan)
    assert summary.sweep_id == plan.sweep_id
    assert service.list() == (summary,)
    assert service.show("small") == summary
    assert service.spec("small") == spec
    train_all(service, plan)
    assert service.show("small").is_over
    assert service.progress("small").cells_done == 4
    answer = service.answer("small")
    assert [record.run_id for record in answer.records] == [run.run_id for run in plan.runs]
    assert len(service.store.events(plan.runs[0].run_id)) == 3
    assert {run.state for run in service.runs("small")} == {State.SUCCEEDED}
    assert service.records("small") == service.store.records("small")


def test_cancel_and_retry_carry_the_clocks_time(service, spec):
    service.submit(lay_out(spec))
    assert service.cancel("small").cancelled_at == START
    assert service.retry("small").runs[State.QUEUED] == 2


def test_another_process_sees_the_same_sweep(service, spec):
    service.submit(lay_out(spec))
    other = Service.open(service.settings)
    assert other.show("small") == service.show("small")
    assert abs(other.clock() - START) > timedelta(0)
    other.store.close()


def test_a_corpus_that_is_not_there_cannot_be_laid_out(spec):
    missing = spec.model_copy(update={"corpus": "/nowhere/at/all"})
    with pytest.raises(InputError, match="/nowhere/at/all"):
        lay_out(missing)


def test_the_plan_that_was_shown_is_submitted_though_its_corpus_has_changed_since(
    service, spec, tmp_path
):
    plan = lay_out(spec)
    (tmp_path / "corpus" / "new.txt").write_text("a text that came later\n")
    assert lay_out(spec).corpus != plan.corpus
    assert service.submit(plan).sweep_id == plan.sweep_id
    assert [run.run_id for run in service.runs("small")] == [run.run_id for run in plan.runs]


def test_a_run_is_found_with_its_partners_and_all_that_any_sweep_measured_of_it(service):
    short = plan_of(name="short", recipes=("bf16", "ufp4"), budgets=("40960tok",))
    long = plan_of(name="long", recipes=("bf16", "e4m3"), budgets=("81920tok",))
    for plan in (short, long):
        service.submit(plan)
        train_all(service, plan)
    bf16, ufp4 = (service.run(f"m {recipe} s0") for recipe in ("bf16", "ufp4"))
    assert service.run(bf16.run_id[:10]) == bf16
    assert sorted(service.endpoints(bf16.run_id)) == [40960, 81920]
    assert sorted(service.endpoints(ufp4.run_id)) == [40960]
    assert sorted(service.recipes()) == ["bf16", "e4m3", "ufp4"]
    partner = service.trained_with(bf16, replace(ufp4.spec.recipe, name="by another name"))
    assert partner is not None
    assert partner.run_id == ufp4.run_id
    assert service.trained_with(bf16, PRESETS["nvfp4"]) is None
