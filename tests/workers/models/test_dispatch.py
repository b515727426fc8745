"""Rows sorted by expert, against a dictionary of lists; sums and gradients against FP64."""

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from workers.models.dispatch import Places, gather, places, send

TOKENS, ACTIVE, EXPERTS, WIDTH = 40, 3, 7, 8


def choice(seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(TOKENS, EXPERTS - 1, generator=generator)  # the last one gets nobody
    return scores.topk(ACTIVE, dim=1).indices


def tensors(where: Places) -> tuple[Tensor, Tensor, Tensor]:
    """x [t, C], done [rows, C] and gates [t, k], FP64."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(TOKENS, WIDTH, generator=generator, dtype=torch.float64)
    done = torch.randn(len(where.tokens), WIDTH, generator=generator, dtype=torch.float64)
    gates = torch.rand(TOKENS, ACTIVE, generator=generator, dtype=torch.float64)
    return x, done, gates


@settings(max_examples=60, deadline=None)
@given(data=st.data(), block=st.sampled_from([1, 4, 16]))
def test_each_experts_tokens_are_in_order_and_filled_up_to_whole_blocks(data, block):
    experts = data.draw(st.integers(1, 6))
    active = data.draw(st.integers(1, experts))
    one = st.permutations(range(experts)).map(lambda order: order[:active])
    chosen = torch.tensor(data.draw(st.lists(one, min_size=1, max_size=30)))
    where = places(chosen, experts, block)
    flat, rows = chosen.flatten().tolist(), where.rows.flatten().tolist()
    start = 0
    for expert in range(experts):
        theirs = [row for row, of in zip(rows, flat, strict=True) if of == expert]
        assert theirs == list(range(start, start + len(theirs)))
        start += -(-len(theirs) // block) * block
        assert where.ends[expert] == start
    of = where.tokens.tolist()
    assert [of[row] for row in rows] == [slot // active for slot in range(len(flat))]
    assert sum(token == len(chosen) for token in of) == len(of) - len(flat)
    assert start <= len(where.tokens) <= chosen.numel() + experts * (block - 1)


def test_the_number_of_rows_does_not_depend_on_the_choice():
    totals = {places(choice(seed), EXPERTS, 16).tokens.shape for seed in range(5)}
    everyone = torch.arange(ACTIVE).expand(TOKENS, ACTIVE)
    assert totals == {places(everyone, EXPERTS, 16).tokens.shape}


def test_what_is_sent_is_each_tokens_row_and_zero_elsewhere():
    where = places(choice(), EXPERTS, 16)
    x, _, _ = tensors(where)
    sent = send(x, where)
    for token in range(TOKENS):
        for row in where.rows[token]:
            assert torch.equal(sent[row], x[token])
    rest = torch.ones(len(where.tokens), dtype=torch.bool)
    rest[where.rows.flatten()] = False
    assert not sent[rest].any()


def test_what_is_gathered_is_the_gated_sum():
    where = places(choice(), EXPERTS, 4)
    _, done, gates = tensors(where)
    y = gather(done, gates, where)
    for token in range(TOKENS):
        parts = [gates[token, i] * done[where.rows[token, i]] for i in range(ACTIVE)]
        torch.testing.assert_close(y[token], torch.stack(parts).sum(0), rtol=1e-14, atol=1e-14)


def test_both_have_the_gradients_of_finite_differences():
    where = places(choice(), EXPERTS, 4)
    x, done, gates = (tensor.requires_grad_() for tensor in tensors(where))
    assert torch.autograd.gradcheck(lambda x: send(x, where), x)
    assert torch.autograd.gradcheck(lambda a, b: gather(a, b, where), (done, gates))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sums_of_sixteen_bit_rows_are_rounded_once(dtype):
    where = places(choice(), EXPERTS, 4)
    x, done, gates = tensors(where)
    done, gates = done.to(dtype).requires_grad_(), gates.float().requires_grad_()
    y = gather(done, gates, where)
    wide = (gates.double()[..., None] * done.double()[where.rows]).sum(1)
    assert y.dtype is dtype
    torch.testing.assert_close(y.double(), wide, rtol=torch.finfo(dtype).eps, atol=1e-6)
    x = x.to(dtype).requires_grad_()
    pull = done.detach()
    torch.autograd.backward(send(x, where), pull)
    assert x.grad is not None
    torch.testing.assert_close(
        x.grad.double(), pull.double()[where.rows].sum(1), rtol=torch.finfo(dtype).eps, atol=1e-6
    )


def test_results_do_not_depend_on_the_number_of_threads():
    generator = torch.Generator().manual_seed(1)
    chosen = torch.rand(3000, 9, generator=generator).topk(4, dim=1).indices
    where = places(chosen, 9, 16)
    done = torch.randn(len(where.tokens), 70, generator=generator).bfloat16()
    gates = torch.rand(3000, 4, generator=generator)
    pull = torch.randn(3000, 70, generator=generator).bfloat16()

    def results() -> list[Tensor]:
        a, b = done.clone().requires_grad_(), gates.clone().requires_grad_()
        y = gather(a, b, where)
        torch.autograd.backward(y, pull)
        x = pull.clone().requires_grad_()
        torch.autograd.backward(send(x, where), done)
        assert a.grad is not None
        assert b.grad is not None
        assert x.grad is not None
        return [y.detach(), a.grad, b.grad, x.grad]

    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(results())
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(other, found[0], strict=True))
