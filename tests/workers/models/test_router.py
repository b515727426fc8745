"""Scores, choices and gates against numpy; what the bias may move and what not."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from sweeps.shapes import Experts, Router as Scores
from workers.models.router import Router

Array = np.ndarray[Any, Any]
WIDTH = 12
EXPERTS = Experts(count=8, active=3, width=1, shared_width=0)
kinds = pytest.mark.parametrize("kind", list(Scores))


def router(kind: Scores, rate: float = 0.01) -> Router:
    made = Router(replace(EXPERTS, router=kind, balance_rate=rate), WIDTH)
    with torch.no_grad():
        made.weight.normal_(generator=torch.Generator().manual_seed(0))
    return made


def inputs(rows: int = 50) -> Tensor:
    return torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(1)).bfloat16()


def scores_by_hand(made: Router, x: Tensor) -> Array:
    logits = x.double().numpy() @ made.weight.detach().double().numpy().T
    scores: Array = 1 / (1 + np.exp(-logits))
    if made._experts.router is Scores.SOFTMAX:
        scores = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return scores


@kinds
def test_the_largest_scores_are_chosen_and_shared_out(kind):
    made, x = router(kind), inputs()
    chosen, gates = made(x)
    scores = scores_by_hand(made, x)
    assert chosen.dtype is torch.int64
    assert gates.dtype is torch.float32
    for row, token in enumerate(scores):
        best = set(np.argsort(token)[-3:].tolist())
        assert set(chosen[row].tolist()) == best
        expected = token[chosen[row].numpy()] / token[list(best)].sum()
        np.testing.assert_allclose(gates[row].detach().numpy(), expected, rtol=1e-5)


@kinds
def test_the_bias_moves_the_choice_and_never_the_gate(kind):
    made, x = router(kind), inputs()
    with torch.no_grad():
        before, _ = made(x)
        made.bias[5] = 10.0
        chosen, gates = made(x)
    assert (chosen == 5).any(1).all()
    assert not (before == 5).any(1).all()
    scores = scores_by_hand(made, x)
    picked = np.take_along_axis(scores, chosen.numpy(), 1)
    np.testing.assert_allclose(gates.numpy(), picked / picked.sum(1, keepdims=True), rtol=1e-5)


def test_scores_that_are_all_zero_give_gates_without_nan():
    made = router(Scores.SIGMOID)
    with torch.no_grad():
        made.weight.fill_(-1e4)
    _, gates = made(torch.ones(4, WIDTH))
    assert gates.isfinite().all()


def test_loads_are_counted_in_training_alone_and_over_passes():
    made, x = router(Scores.SIGMOID), inputs()
    with torch.no_grad():
        made(x)
    assert not made.load.any()
    chosen = [made(x)[0], made(inputs(20))[0]]
    expected = torch.cat([one.flatten() for one in chosen]).bincount(minlength=8)
    assert torch.equal(made.load, expected)


def test_the_bias_moves_by_the_rate_against_the_load_and_the_count_begins_anew():
    made = router(Scores.SIGMOID)
    made(inputs())
    load = made.load.clone()
    made.balance(load)
    expected = torch.where(load > load.float().mean(), -0.01, 0.01)
    expected[load == load.float().mean()] = 0
    assert torch.equal(made.bias, expected)
    assert not made.load.any()
    made.balance(torch.full((8,), 3))
    assert torch.equal(made.bias, expected)


def test_a_rate_of_zero_leaves_the_bias_alone():
    made = router(Scores.SIGMOID, rate=0.0)
    made(inputs())
    made.balance(made.load.clone())
    assert not made.bias.any()
