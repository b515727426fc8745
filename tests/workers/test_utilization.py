import re
import time
from pathlib import Path

import pytest
import torch

from workers.utilization import PEAKS, measured_peak, memory_held, peak_flops, stated_peak

CPU = torch.device("cpu")

NAMES = {
    "NVIDIA B200": 2250e12,
    "NVIDIA GB200": 2500e12,
    "NVIDIA GH200 480GB": 989.4e12,
    "NVIDIA H200": 989.4e12,
    "NVIDIA H200 NVL": 835.5e12,
    "NVIDIA H100 80GB HBM3": 989.4e12,
    "NVIDIA H100 PCIe": 756.5e12,
    "NVIDIA H100 NVL": 835.5e12,
    "NVIDIA A100-SXM4-80GB": 312e12,
    "NVIDIA A100-PCIE-40GB": 312e12,
    "NVIDIA A10": 125e12,
    "NVIDIA L4": 121e12,
    "NVIDIA L40S": 362e12,
    "NVIDIA RTX A6000": 154.8e12,
    "NVIDIA RTX 6000 Ada Generation": 364.2e12,
    "NVIDIA GeForce RTX 4090": 165.2e12,
    "AMD Instinct MI300X": 1307.4e12,
}


@pytest.mark.parametrize(("name", "peak"), NAMES.items(), ids=NAMES.keys())
def test_a_gpu_is_known_by_the_name_that_torch_gives_it(name, peak):
    assert stated_peak(name) == peak


@pytest.mark.parametrize("name", ["Tesla T4", "NVIDIA A1000", "NVIDIA L40", "NVIDIA H20", ""])
def test_nothing_is_said_of_a_gpu_that_is_not_listed(name):
    assert stated_peak(name) is None


def test_no_entry_hides_another():
    for index, (words, peak) in enumerate(PEAKS):
        assert stated_peak(words) == peak, index


def test_a_cpu_is_measured_once_and_faster_than_plain_loops(monkeypatch):
    measured_peak.cache_clear()
    first = peak_flops(CPU)
    assert first is not None
    assert first > 1e8
    monkeypatch.setattr(torch, "mm", None)
    assert peak_flops(CPU) == first
    measured_peak.cache_clear()


def test_the_rate_is_that_of_products_done_one_after_the_other(monkeypatch):
    """With a clock on which the fastest product takes 2 ms and two take longer."""
    readings = iter([0.0, 0.004, 0.004, 0.006, 0.006, 0.056, 0.056])
    monkeypatch.setattr(time, "perf_counter", lambda: next(readings))
    assert measured_peak.__wrapped__() == pytest.approx(2 * 512**3 / 0.002)


def test_memory_held_is_what_the_kernel_says_of_the_process():
    block = torch.ones(2**24)
    held = memory_held(CPU)
    status = Path("/proc/self/status").read_text()
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert peak is not None
    assert held == pytest.approx(int(peak.group(1)) * 1024, rel=0.02)
    assert held > block.nbytes
