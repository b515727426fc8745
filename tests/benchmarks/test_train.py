"""Which models are trained for `benchmarks.train`, and what their steps are counted as."""

from dataclasses import replace

import pytest
import torch

from benchmarks.results import Setting
from benchmarks.train import flops_of, runs, scale_of
from sweeps.families.ladder import PRESETS

CPU = torch.device("cpu")
SETTING = Setting(device=CPU, threads=(1,), quick=False)
PEAK = 2e11


def names(step_seconds: float) -> list[str]:
    scale = replace(scale_of(SETTING), step_seconds=step_seconds)
    return [spec.model.name for spec in runs(scale, CPU, PEAK)]


def test_a_longer_step_lets_larger_models_in() -> None:
    few, more = names(0.03), names(0.3)
    assert few[0] == "50k"
    assert set(few) < set(more)
    assert "1.5b" not in more


def test_models_come_in_the_order_of_the_ladder() -> None:
    found = names(0.3)
    assert found == [name for name in PRESETS if name in found]
    assert any(name.startswith("moe-") for name in found)


def test_a_model_that_no_memory_holds_is_left_out() -> None:
    assert "moe-124b" not in names(1e9)


def test_a_step_is_counted_for_all_of_its_tokens() -> None:
    scale = scale_of(SETTING)
    spec = next(runs(scale, CPU, PEAK))
    assert spec.training.batch_tokens == scale.batch_tokens == 2048
    # 50k: two blocks 64 wide, half as wide for keys and values, and 257 bytes with the separator.
    blocks, head, attention = 2 * (64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 64), 64 * 257, 2 * 128 * 64
    assert flops_of(spec) == 2048 * 3 * 2 * (blocks + head + 2 * attention)


def test_a_quick_run_is_content_with_small_models() -> None:
    quick = scale_of(replace(SETTING, quick=True))
    assert quick.step_seconds < scale_of(SETTING).step_seconds
    assert 1 <= len(list(runs(quick, CPU, PEAK))) <= 3


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_every_device_has_whole_sequences_in_a_step(kind: str) -> None:
    scale = scale_of(replace(SETTING, device=torch.device(kind)))
    assert scale.batch_tokens % scale.context == 0
