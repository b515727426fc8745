"""Mixtures of experts as they train: balance, what is kept, and what one expert alone comes to."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from kernels.presets import PRESETS
from kernels.streams import Streams
from sweeps.shapes import Experts, Router
from tests.workers.models.shapes import EXPERTS, MOE, SWIGLU, made, tokens
from workers.models.decoder import Decoder
from workers.models.registry import make

VOCABULARY, CONTEXT = 64, 32


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Models as small as these lose time to a second one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def text(generator: torch.Generator, sequences: int = 4) -> Tensor:
    """Ids of which some are far more frequent than others, and the next often follows from one."""
    drawn = torch.rand(sequences, CONTEXT + 1, generator=generator).pow(3) * VOCABULARY
    ids = drawn.long()
    follows = torch.rand(ids.shape, generator=generator) < 0.6
    for place in range(1, CONTEXT + 1):
        after = (5 * ids[:, place - 1] + 3) % VOCABULARY
        ids[:, place] = torch.where(follows[:, place], after, ids[:, place])
    return ids


def lopsided(rate: float, kind: Router) -> Decoder:
    """A model whose tokens have much in common, so that all like the same experts best."""
    experts = Experts(count=8, active=2, width=16, shared_width=16, router=kind, balance_rate=rate)
    shape = replace(SWIGLU, mlp_width=64, experts=experts)
    model = make(
        shape,
        vocab_size=VOCABULARY,
        context=CONTEXT,
        recipe=PRESETS["bf16"],
        streams=Streams(sr=0, rht=0),
    )
    model.initialise(0)
    with torch.no_grad():
        model.embedding.weight += torch.randn(32, generator=torch.Generator().manual_seed(3))
    return model


def imbalances(model: Decoder, steps: int) -> Tensor:
    """Largest load / mean load, 4 when two experts of eight take all, after each step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95), fused=True)
    generator = torch.Generator().manual_seed(1)
    found = []
    for _ in range(steps):
        ids = text(generator)
        logits = model(ids[:, :-1]).flatten(0, 1).float()
        torch.autograd.backward(torch.nn.functional.cross_entropy(logits, ids[:, 1:].flatten()))
        optimizer.step()
        optimizer.zero_grad()
        worst = model.balance()
        assert worst is not None
        found.append(worst)
    return torch.stack(found)


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(Router))
def test_balancing_keeps_loads_within_bounds_where_they_would_stay_lopsided(kind):
    left_alone = imbalances(lopsided(0.0, kind), 60)
    balanced = imbalances(lopsided(0.01, kind), 150)
    assert left_alone[40:].mean() > 2.0
    assert balanced[50:].mean() < 1.65
    assert balanced[50:].max() < 2.6


@pytest.mark.slow
@pytest.mark.parametrize("shape", [SWIGLU, MOE], ids=["dense", "moe"])
def test_one_batch_is_learnt_by_heart_in_bf16(shape):
    model, ids = made(shape), tokens()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.95), fused=True)
    targets = ids.roll(-1, 1).flatten()
    for _ in range(120):
        loss = torch.nn.functional.cross_entropy(model(ids).flatten(0, 1).float(), targets)
        torch.autograd.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        model.balance()
    assert loss.item() < 0.01


@pytest.mark.parametrize("recipe", ["bf16", "ufp4-no-sr", "mxfp8"])
def test_an_expert_that_takes_every_token_is_a_dense_network(recipe):
    rules = replace(PRESETS[recipe], pad=True)
    one = Experts(count=1, active=1, width=SWIGLU.mlp_width, shared_width=0)
    dense, moe = made(SWIGLU, rules), made(replace(SWIGLU, experts=one), rules)
    weights = moe.state_dict()
    for name, weight in dense.state_dict().items():
        place = name.replace(".mlp.", ".mlp.experts.")
        weights[place] = weight.reshape(weights[place].shape)
    moe.load_state_dict(weights)
    found = []
    for model in (dense, moe):
        logits = model(tokens())
        torch.autograd.backward(logits.float().logsumexp(-1).sum())
        gradients = {
            name.replace(".experts.", "."): weight.grad
            for name, weight in model.named_parameters()
            if weight.grad is not None and "router" not in name
        }
        found.append({"logits": logits.detach(), **gradients})
    expected, ours = found
    if recipe == "ufp4-no-sr":  # whose signs go by the layer's name
        assert not torch.equal(ours["logits"], expected["logits"])
        return
    for name, tensor in expected.items():
        assert torch.equal(ours[name].reshape(tensor.shape), tensor), name


def test_what_a_run_goes_on_from_beside_its_parameters():
    model = made(MOE)
    assert list(model.kept()) == ["blocks.1.mlp.router.bias", "blocks.2.mlp.router.bias"]
    parameters = {name for name, _ in model.named_parameters()}
    assert model.state_dict().keys() == parameters | model.kept().keys()
    model(tokens())
    model.balance()
    assert all(bias.any() for bias in model.kept().values())
    model.initialise(0)
    assert not any(bias.any() for bias in model.kept().values())


def test_a_dense_model_keeps_nothing_and_has_nothing_to_balance():
    model = made(SWIGLU)
    model(tokens())
    assert model.kept() == {}
    assert model.balance() is None


def test_the_imbalance_is_that_of_the_worst_block_over_all_passes_since_the_last():
    model = made(MOE)
    model(tokens())
    model(tokens(3))
    with torch.no_grad():
        model(tokens(9))
    loads = [model.get_buffer(name.replace("bias", "load")).clone() for name in model.kept()]
    assert [int(load.sum()) for load in loads] == [5 * 16 * EXPERTS.active] * 2
    worst = model.balance()
    assert worst is not None
    assert worst.item() == pytest.approx(
        max(float(load.max() / load.float().mean()) for load in loads)
    )


def test_ranks_balance_by_the_sum_of_their_loads():
    whole, half = made(MOE), made(MOE)
    ids = tokens(4)
    whole(ids)
    half(ids[:2])
    there = made(MOE)
    there(ids[2:])
    other = torch.stack([there.get_buffer(name.replace("bias", "load")) for name in there.kept()])
    expected, ours = whole.balance(), half.balance(lambda loads: loads + other)
    assert ours == expected
    for name, bias in whole.kept().items():
        assert torch.equal(half.kept()[name], bias)


def test_blocks_that_are_checkpointed_count_evenly():
    plain, thrifty = (made(MOE, checkpoints=flag) for flag in (False, True))
    for model in (plain, thrifty):
        torch.autograd.backward(model(tokens()).float().logsumexp(-1).sum())
    assert plain.balance() == thrifty.balance()
    for name, bias in plain.kept().items():
        assert torch.equal(thrifty.kept()[name], bias)
