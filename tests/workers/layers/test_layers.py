"""Layers between the linear ones against their formulas in FP64, by the C kernels and by torch."""

import pytest
import torch
from torch import Tensor

from tests.workers.layers.paths import assert_near, drawn, in_fp64, outcome, path  # noqa: F401
from workers.layers.activations import squared_relu, swiglu
from workers.layers.attention import attend
from workers.layers.loss import mean_loss, token_losses
from workers.layers.norm import rms_norm
from workers.layers.rotary import rotations


def norm_by_hand(x: Tensor, gain: Tensor) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * gain


def turned_by_hand(x: Tensor, base: float = 1e4) -> Tensor:
    positions, width = x.shape[1], x.shape[-1]
    frequency = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = torch.outer(torch.arange(positions, dtype=torch.float64), frequency)[:, None]
    a, b = x[..., 0::2], x[..., 1::2]
    pairs = (a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos())
    return torch.stack(pairs, -1).flatten(-2)


def attended_by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    share = q.shape[2] // k.shape[2]
    k, v = (x.repeat_interleave(share, 2) for x in (k, v))
    scores = torch.einsum("bthd,bshd->bhts", q, k) / q.shape[-1] ** 0.5
    future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return torch.einsum("bhts,bshd->bthd", scores.masked_fill(future, -torch.inf).softmax(-1), v)


@pytest.mark.parametrize("width", [2, 5, 16, 33, 96])
def test_norm(path: str, width: int) -> None:  # noqa: F811
    inputs = [drawn(3, 7, width) * 5, drawn(width, seed=1).float() + 1]
    assert_near(outcome(rms_norm, inputs), outcome(norm_by_hand, in_fp64(inputs)))


@pytest.mark.parametrize("width", [2, 12, 16, 34])
def test_heads_are_normed_and_then_turned(path: str, width: int) -> None:  # noqa: F811
    turns = rotations(9, width, 1e4)
    inputs = [drawn(2, 9, 3, width), drawn(width, seed=1).float() + 1]
    expected = outcome(lambda x, g: turned_by_hand(norm_by_hand(x, g)), in_fp64(inputs))
    assert_near(outcome(lambda x, g: rms_norm(x, g, turns), inputs), expected)


@pytest.mark.parametrize("shape", [(3,), (2, 8), (5, 7, 33)])
def test_swiglu(path: str, shape: tuple[int, ...]) -> None:  # noqa: F811
    inputs = [drawn(*shape) * 3, drawn(*shape, seed=1)]
    expected = outcome(lambda z, u: z / (1 + (-z).exp()) * u, in_fp64(inputs))
    roundings = 1.0 if path == "kernels" else 2.0  # torch rounds silu on the way
    assert_near(outcome(swiglu, inputs), expected, roundings)


def test_squared_relu(path: str) -> None:  # noqa: F811
    inputs = [drawn(4, 37)]
    assert_near(
        outcome(squared_relu, inputs),
        outcome(lambda u: u.clamp(min=0) ** 2, in_fp64(inputs)),
        1.0 if path == "kernels" else 2.0,
    )


@pytest.mark.parametrize(
    ("sequences", "positions", "heads", "shared", "width"),
    [(2, 16, 2, 2, 16), (1, 1, 1, 1, 2), (2, 33, 4, 2, 12), (1, 70, 3, 1, 34), (3, 64, 2, 2, 32)],
)
def test_attention(
    path: str, sequences: int, positions: int, heads: int, shared: int, width: int  # noqa: F811
) -> None:  # fmt: skip
    sizes = [(sequences, positions, count, width) for count in (heads, shared, shared)]
    inputs = [drawn(*size, seed=seed) for seed, size in enumerate(sizes)]
    # Probabilities and their gradients are rounded to BF16 between.
    assert_near(outcome(attend, inputs), outcome(attended_by_hand, in_fp64(inputs)), 2.5)


def test_a_position_does_not_see_later_ones(path: str) -> None:  # noqa: F811
    q, k, v = (drawn(2, 50, 2, 16, seed=seed) for seed in range(3))
    before = attend(q, k, v)
    for place in (1, 31, 32, 49):
        changed = [x.clone() for x in (k, v)]
        for x in changed:
            x[:, place:] = drawn(*x[:, place:].shape, seed=7)
        after = attend(q, *changed)
        assert torch.equal(before[:, :place], after[:, :place])
        assert not torch.equal(before[:, place], after[:, place])


@pytest.mark.parametrize("vocabulary", [1, 3, 23, 256, 1000])
def test_losses_of_tokens(path: str, vocabulary: int) -> None:  # noqa: F811
    targets = torch.randint(vocabulary, (3, 5), generator=torch.Generator().manual_seed(1))
    inputs = [drawn(3, 5, vocabulary) * 4]
    found = outcome(lambda x: token_losses(x, targets), inputs)

    def by_hand(x: Tensor) -> Tensor:
        return -x.log_softmax(-1).gather(-1, targets[..., None])[..., 0]

    expected = outcome(by_hand, in_fp64(inputs))
    assert found[0].dtype is torch.float32
    torch.testing.assert_close(found[0].double(), expected[0], rtol=1e-6, atol=2e-6)
    assert_near(found[1:], expected[1:])


@pytest.mark.parametrize("stray", [7, -1, 1 << 40, -(1 << 40)])
@pytest.mark.parametrize("place", [0, 14])
def test_a_target_outside_the_vocabulary_is_refused(path: str, place: int, stray: int) -> None:  # noqa: F811
    targets = torch.arange(15) % 7
    targets[place] = stray
    with pytest.raises(IndexError, match=rf"arget {stray} is "):
        token_losses(drawn(3, 5, 7), targets.reshape(3, 5))


@pytest.mark.parametrize(
    "targets",
    [
        torch.zeros(3, 4, dtype=torch.int64),
        torch.zeros(15, dtype=torch.int64),
        torch.zeros(3, 5, dtype=torch.int32),
        torch.zeros(3, 5),
    ],
)
def test_targets_of_other_axes_or_types_are_refused(path: str, targets: Tensor) -> None:  # noqa: F811
    with pytest.raises(ValueError, match=r"logits \[3, 5, 7\] need one int64 id for each position"):
        token_losses(drawn(3, 5, 7), targets)


def test_the_mean_loss_is_that_of_all_tokens(path: str) -> None:  # noqa: F811
    logits, targets = drawn(4, 6, 11), torch.arange(24).reshape(4, 6) % 11
    losses = token_losses(logits, targets)
    assert mean_loss(logits, targets).item() == pytest.approx(losses.double().mean().item())


@pytest.mark.parametrize("size", [1e4, 3e38])
def test_large_logits_have_finite_losses(path: str, size: float) -> None:  # noqa: F811
    logits = torch.tensor([[[size, 0.0, -size]]], dtype=torch.bfloat16)
    assert token_losses(logits, torch.tensor([[0]])).item() == 0.0
    assert token_losses(logits, torch.tensor([[1]])).item() == logits[0, 0, 0].item()


def test_layers_of_numbers_of_any_size_are_finite_where_their_formulas_are(path: str) -> None:  # noqa: F811
    sizes = torch.logspace(-38, 38.5, 300, dtype=torch.float64)
    x = torch.cat((-sizes, torch.zeros(1, dtype=torch.float64), sizes)).to(torch.bfloat16)
    ones = torch.ones_like(x)
    leaves = [x.clone().requires_grad_(), ones.clone().requires_grad_()]
    y = swiglu(*leaves)
    found = [y, *torch.autograd.grad(y, leaves, ones)]
    wide = x.double()
    # Without the overflow of e^-z, which FP64 has too where z is far below -700.
    silu = wide * wide.sigmoid()
    slope = wide.sigmoid() * (1 + wide * (-wide).sigmoid())
    for ours, expected in zip(found, (silu, slope, silu), strict=True):
        top = torch.finfo(torch.bfloat16).max
        assert ours.isfinite().all()
        assert_near([ours / (1 + x.abs())], [expected.clamp(-top, top) / (1 + wide.abs())], 2.0)


def test_what_is_wider_than_fp32_beside_bf16_is_left_to_torch(path: str) -> None:  # noqa: F811
    x, gain, turns = drawn(2, 9, 3, 16), drawn(16, seed=1).float(), rotations(9, 16, 1e4)
    expected = rms_norm(x, gain, turns)
    for wider in ((gain, turns.double()), (gain.double(), turns)):
        assert_near([rms_norm(x, *wider)], [expected])


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_what_is_not_finite_is_not_lost(path: str, bad: float) -> None:  # noqa: F811
    x, other = drawn(1, 4, 1, 20), drawn(1, 4, 1, 20, seed=1)
    x[0, 2, 0, 19] = bad
    targets = torch.zeros(1, 4, dtype=torch.int64)
    results = {
        "norm": rms_norm(x, torch.ones(20)),
        "turned": rms_norm(x, torch.ones(20), rotations(4, 20, 1e4)),
        "gate": swiglu(x, other),
        "squared": squared_relu(x),
        "loss": token_losses(x[:, :, 0], targets),
    }
    if path == "kernels":  # torch gives zeros to a query that is not finite
        results["queries"] = attend(x, other, other)
    for name, y in results.items():
        assert not y[0, 2].isfinite().all(), name
        assert y[0, :2].isfinite().all(), name
    assert not attend(other, other, x)[0, 2:].isfinite().all()


@pytest.mark.parametrize("turned", [False, True])
def test_gradients_in_fp64_are_those_of_finite_differences(turned: bool) -> None:
    turns = rotations(3, 6, 1e4) if turned else None
    x, gain = drawn(2, 3, 2, 6).double().requires_grad_(), torch.ones(6).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x, g: rms_norm(x, g, turns), (x, gain))
    heads = [drawn(1, 5, count, 4, seed=count).double() for count in (2, 1)]
    q, k, v = (x.clone().requires_grad_() for x in (*heads, heads[1] * 2))
    assert torch.autograd.gradcheck(attend, (q, k, v))
