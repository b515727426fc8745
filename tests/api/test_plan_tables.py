"""The tables of a plan: exact counts, estimates with their unit, in the order of the spec."""

import io
from typing import Any

from rich.console import Console
from rich.table import Table

from api.plan_tables import plan_lines
from api.schemas import PlanView
from api.terminal import UNFOLDED
from sweeps.counts import active_non_embedding_parameters, non_embedding_parameters
from sweeps.families.ladder import PRESETS
from sweeps.memory import estimate
from sweeps.plan import expand
from sweeps.price import price
from sweeps.rates import Rates
from sweeps.spec import parse_spec
from tests.sweeps.specs import CORPUS, mapping, train

TRAIN = train(context=64, batch="65536tok", microbatch="2048tok", warmup="100ktok")


def plan_view(**changes: Any) -> PlanView:
    spec = parse_spec(mapping(budgets=["2Mtok"], train=TRAIN) | changes)
    plan = expand(spec, CORPUS)
    return PlanView.of(plan, price(plan, {}, Rates(slots=2)))


def printed(view: PlanView) -> list[str]:
    console = Console(file=io.StringIO(), width=UNFOLDED)
    for line in plan_lines(view, slots=2):
        console.print(line)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def rows(view: PlanView, heading: str) -> list[list[str]]:
    """The cells of a table, headed by its columns."""
    lines = list(plan_lines(view, slots=2))
    start = next(index for index, line in enumerate(lines) if heading in str(line))
    table = lines[start + 1]
    assert isinstance(table, Table)
    columns = [[str(column.header), *map(str, column.cells)] for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def test_every_preset_is_shown_with_its_exact_counts():
    view = plan_view(models=[*PRESETS], budgets=["1Btok"])
    header, *models = rows(view, "Models by parameters")
    assert header == [
        *("model", "N", "active", "attention", "mlp", "router", "norms", "embedding", "head")
    ]
    assert [row[0] for row in models] == [*PRESETS]
    for name, *counts in models:
        every, active, *buckets = (int(count.replace(",", "")) for count in counts)
        assert every == non_embedding_parameters(PRESETS[name]) == sum(buckets[:4])
        assert active == active_non_embedding_parameters(PRESETS[name])
        assert buckets[4:] == [257 * PRESETS[name].width] * 2


def test_flops_stand_beside_six_n_and_memory_beside_the_gpus_that_it_takes():
    view = plan_view(models=["200k", "moe-7.9b"], budgets=["1Btok"], resources={"gpus": 2})
    header, small, large = rows(view, "Models by FLOPs")
    assert header == [
        *("model", "FLOPs/token", "6 N active", "microbatch", "GPUs", "GiB each"),
        *("checkpointed", "80-GiB GPUs needed"),
    ]
    assert small[1:] == ["1,512,000", "1,219,776", "2048tok", "2", *small[5:7], "1"]
    memory = view.models[1]["memory"]
    assert float(large[5]) == float(f"{memory['total_bytes'] / 2**30:.1f}")
    assert float(large[6]) == float(f"{memory['checkpointed_bytes'] / 2**30:.1f}")
    assert float(large[6]) <= float(large[5])
    assert int(large[7]) == memory["least_gpus"] > 1


def test_a_model_that_fits_on_no_number_of_gpus_has_a_dash():
    one_part = train(context=64, batch="2048tok", warmup="100ktok")
    view = plan_view(models=["moe-124b"], budgets=["1Btok"], train=one_part)
    assert rows(view, "Models by FLOPs")[1][-1] == "-"


def test_recipes_stand_in_the_order_of_the_spec_with_what_they_can_gain():
    view = plan_view(models=["50k", "1.6m"], recipes=["mxfp8", "bf16", "ufp4"])
    header, *found = rows(view, "quantized GEMMs")
    assert header == ["model", "recipe", "quantized", "GEMMs faster by", "bound"]
    assert [row[:2] for row in found] == [
        *(["50k", "mxfp8"], ["50k", "ufp4"], ["1.6m", "mxfp8"], ["1.6m", "ufp4"]),
    ]
    assert [row[3] for row in found] == ["2x", "4x", "2x", "4x"]
    share = view.models[1]["recipes"][1]["quantized_share"]
    assert found[3][2] == f"{100 * share:.0f} %"
    assert found[3][4] == f"{1 / (1 - share + share / 4):.2f}x"


def test_a_plan_of_bf16_alone_has_nothing_to_gain():
    text = "\n".join(printed(plan_view(recipes=["bf16"])))
    assert "quantized GEMMs" not in text
    assert "Runs, in launch order" in text


def test_the_memory_of_a_model_is_that_of_its_most_demanding_run():
    view = plan_view(models=["50k"], recipes=["bf16", "ufp4"])
    plan = expand(parse_spec(mapping(budgets=["2Mtok"], train=TRAIN, models=["50k"])), CORPUS)
    memory = view.models[0]["memory"]
    assert memory["total_bytes"] == max(estimate(run.spec).total_bytes for run in plan.runs)
    assert memory["checkpointed_bytes"] < memory["total_bytes"]


def test_each_run_has_its_batch_and_rate():
    (header, *runs) = rows(plan_view(models=["50k"]), "Runs, in launch order")
    assert header == ["run", "batch", "rate", "tokens", "FLOPs", "horizons"]
    assert [row[:3] for row in runs] == [
        *(["50k bf16 s0", "65536tok", "0.01"], ["50k ufp4 s0", "65536tok", "0.01"]),
    ]
