"""A worker starts on the GPUs that it was given and on no other."""

import os
import subprocess
import sys

import pytest
import torch

from sweeps.errors import GridlawError
from workers.assignment import Assignment, disagreement

A, B, C = "GPU-aaaa", "GPU-bbbb", "GPU-cccc"
UUIDS = {"0": A, "1": B, "2": C}


@pytest.mark.parametrize(
    ("ids", "seen"),
    [
        ([], []),
        (["0"], [A]),
        (["2"], [C]),
        (["1", "2"], [B, C]),
        ([B], [B]),
    ],
)
def test_what_was_given_is_taken(ids, seen):
    assert disagreement(ids, seen, UUIDS) is None


@pytest.mark.parametrize(
    ("ids", "seen", "sentence"),
    [
        (["0"], [], f"this worker was given {A} and sees no GPU; it does not start"),
        ([], [A], f"this worker was given no GPU and sees {A}; it does not start"),
        (["1"], [A], f"this worker was given {B} and sees {A}; it does not start"),
        (["1"], [A, B], f"this worker was given {B} and sees {A}, {B}; it does not start"),
        (
            ["0", "1"],
            [B, A],
            f"this worker was given {A}, {B} and sees {B}, {A}; it does not start",
        ),
        (["0", "1"], [A], f"this worker was given {A}, {B} and sees {A}; it does not start"),
    ],
)
def test_anything_else_is_refused_in_a_sentence_that_names_both(ids, seen, sentence):
    assert disagreement(ids, seen, UUIDS) == sentence


def test_without_the_drivers_list_the_number_alone_is_compared():
    assert disagreement(["3"], [A], {}) is None
    expected = "this worker was given GPU 3 and sees no GPU; it does not start"
    assert disagreement(["3"], [], {}) == expected


def test_a_part_of_a_gpu_that_is_divided_in_hardware_is_compared_by_number():
    assert disagreement(["MIG-1234"], [A], UUIDS) is None
    assert disagreement(["MIG-1234"], [], UUIDS) is not None


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU to see")
def test_a_worker_that_was_given_a_gpu_does_not_train_on_the_cpu_instead():
    with pytest.raises(GridlawError, match="given GPU 0 and sees no GPU; it does not start"):
        Assignment(ids=("0",)).take()


def test_a_worker_without_a_gpu_sees_none():
    code = (
        "from workers.assignment import Assignment; given = Assignment(ids=());"
        "given.hide_others(); given.take(); import torch; print(torch.cuda.device_count())"
    )
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "0"}
    run = [sys.executable, "-c", code]
    assert subprocess.run(run, check=True, capture_output=True, env=environment).stdout == b"0\n"


@pytest.mark.gpu
@pytest.mark.parametrize("share", [0.5, 0.125])
def test_a_share_bounds_the_tensors_of_the_process(share):
    Assignment(ids=("0",), share=share).take()
    total = torch.cuda.get_device_properties(0).total_memory
    try:
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(int(share * total), dtype=torch.uint8, device="cuda")
        held = torch.empty(int(share * total) - 2**30 - 2**22, dtype=torch.uint8, device="cuda")
        assert held.is_cuda
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
