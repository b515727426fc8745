"""The settings under which a GPU repeats its bits, in a process of their own."""

import os
import subprocess
import sys

import pytest
import torch
from torch.nn.functional import embedding, scaled_dot_product_attention

from workers.repeatability import repeat_bits

QUESTION = """
import os, torch
from workers.repeatability import repeat_bits
repeat_bits(torch.device({device!r}))
print(torch.are_deterministic_algorithms_enabled(),
      torch.is_deterministic_algorithms_warn_only_enabled(),
      torch.utils.deterministic.fill_uninitialized_memory,
      os.environ.get("CUBLAS_WORKSPACE_CONFIG"))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("device", "given", "expected"),
    [
        ("cpu", None, "False False True None"),
        ("cuda", None, "True False False :4096:8"),
        ("cuda", ":16:8", "True False False :16:8"),
    ],
)
def test_a_gpu_is_held_to_algorithms_that_repeat_and_a_cpu_left_alone(device, given, expected):
    environment = {key: value for key, value in os.environ.items() if "CUBLAS" not in key}
    if given is not None:
        environment["CUBLAS_WORKSPACE_CONFIG"] = given
    run = [sys.executable, "-c", QUESTION.format(device=device)]
    answer = subprocess.run(run, check=True, capture_output=True, text=True, env=environment)
    assert answer.stdout.strip() == expected


@pytest.mark.gpu
def test_attention_and_embedding_repeat_their_gradients_on_a_gpu():
    device = torch.device("cuda")
    repeat_bits(device)
    generator = torch.Generator(device).manual_seed(0)
    ids = torch.randint(16, (8, 2048), generator=generator, device=device)
    table = torch.randn(16, 512, generator=generator, device=device, dtype=torch.bfloat16)
    table.requires_grad_()

    def gradient() -> torch.Tensor:
        x = embedding(ids, table).view(8, 2048, 8, 64).transpose(1, 2)
        y = scaled_dot_product_attention(x, x, x, is_causal=True)
        (found,) = torch.autograd.grad(y.float().square().sum(), table)
        return found

    first = gradient()
    assert all(torch.equal(gradient(), first) for _ in range(5))
