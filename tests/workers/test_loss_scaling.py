import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from kernels.loss_scaling import LossScaling
from workers.loss_scaling import LEAST, LossScaler

CPU = torch.device("cpu")
RULE = LossScaling(initial=1024.0, growth=2.0, backoff=0.5, interval=3)
GOOD, OVERFLOW = 1.0, math.inf


def judged(scaler: LossScaler, norm: float, loss: float = 2.0) -> tuple[bool, float]:
    skip, told = scaler.judge(torch.tensor(loss), torch.tensor(norm))
    assert skip.dtype is torch.float32
    return bool(skip), told.item()


def by_hand(norms: list[float]) -> tuple[float, int, int]:
    """Scale, good steps and skipped steps, as the docstring of `LossScaling` has them."""
    scale, good, skipped = RULE.initial, 0, 0
    for norm in norms:
        if math.isfinite(norm):
            good += 1
            if good == RULE.interval:
                scale, good = scale * RULE.growth, 0
        else:
            scale, good, skipped = scale * RULE.backoff, 0, skipped + 1
    return scale, good, skipped


@pytest.mark.parametrize("kind", [math.inf, math.nan])
def test_the_scale_follows_the_rule_through_any_sequence(kind):
    generator = torch.Generator().manual_seed(0)
    draws = torch.rand(200, generator=generator).tolist()
    norms = [GOOD if draw < 0.8 else kind for draw in draws]
    scaler = LossScaler(RULE, CPU)
    seen = set()
    for count, norm in enumerate(norms, start=1):
        skip, told = judged(scaler, norm)
        assert skip is not math.isfinite(norm)
        assert told == (norm if math.isfinite(norm) else 0.0)
        assert tuple(scaler.state().tolist()) == by_hand(norms[:count])
        seen.add(scaler.state()[0].item())
    assert min(seen) < RULE.initial < max(seen)
    assert scaler.skipped() == by_hand(norms)[2]


def test_a_gradient_comes_out_of_scaling_as_it_would_without():
    weight, twin = (nn.Linear(3, 2) for _ in range(2))
    twin.load_state_dict(weight.state_dict())
    scaler = LossScaler(RULE, CPU)
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))

    def loss(model: nn.Module) -> Tensor:
        squares: Tensor = model(x).square().mean()
        return squares

    torch.autograd.backward(loss(twin))
    torch.autograd.backward(scaler.scaled(loss(weight)))
    assert weight.bias.grad is not None
    assert twin.bias.grad is not None
    assert torch.equal(weight.bias.grad, twin.bias.grad * 1024)
    scaler.unscale(weight)
    for ours, theirs in zip(weight.parameters(), twin.parameters(), strict=True):
        assert ours.grad is not None
        assert theirs.grad is not None
        assert torch.equal(ours.grad, theirs.grad)


def test_without_a_rule_nothing_is_scaled_or_forgiven():
    scaler = LossScaler(None, CPU)
    loss = torch.tensor(3.0)
    assert scaler.scaled(loss) is loss
    assert judged(scaler, GOOD) == (False, GOOD)
    assert judged(scaler, OVERFLOW) == (True, math.inf)
    assert scaler.state().tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("rule", [None, RULE])
@pytest.mark.parametrize("loss", [math.inf, math.nan])
def test_a_loss_that_is_not_finite_is_beyond_help(rule, loss):
    scaler = LossScaler(rule, CPU)
    assert judged(scaler, math.nan, loss)[0]
    before = scaler.state()
    skip, told = judged(scaler, OVERFLOW)
    assert skip
    assert told == math.inf  # nothing is forgiven from here on
    assert torch.equal(scaler.state(), before)


@pytest.mark.parametrize("rule", [None, RULE])
def test_no_step_is_taken_after_one_that_diverged(rule):
    scaler = LossScaler(rule, CPU)
    assert judged(scaler, GOOD, math.inf)[0]
    for _ in range(5):
        assert judged(scaler, GOOD) == (True, GOOD)
    scaler.restart()
    assert judged(scaler, GOOD) == (False, GOOD)


def test_a_gradient_that_overflows_at_the_least_scale_is_told_as_it_is():
    scaler = LossScaler(RULE, CPU)
    steps = round(math.log2(RULE.initial / LEAST))
    assert [judged(scaler, OVERFLOW) for _ in range(steps)] == [(True, 0.0)] * steps
    assert scaler.state().tolist() == [LEAST, 0.0, steps]
    assert judged(scaler, OVERFLOW) == (True, math.inf)
    assert scaler.state().tolist() == [LEAST, 0.0, steps]


def test_the_scale_stays_a_number_of_fp32():
    scaler = LossScaler(LossScaling(initial=2.0**120, interval=1), CPU)
    for _ in range(20):
        judged(scaler, GOOD)
    assert scaler.state()[0] == 2.0**127


@pytest.mark.parametrize(
    ("key", "value"),
    [("initial", 0.0), ("initial", math.nan), ("growth", 1.0), ("backoff", 1.0), ("backoff", 0.0),
     ("interval", 0)],
)  # fmt: skip
def test_a_scale_that_could_not_move_both_ways_is_refused(key, value):
    with pytest.raises(ValueError, match=rf"^loss scaling: {key} must .*, got {value}$"):
        replace(RULE, **{key: value})


def test_a_restored_scaler_goes_on_as_the_first():
    scaler, other = LossScaler(RULE, CPU), LossScaler(RULE, CPU)
    norms = [GOOD, OVERFLOW, GOOD, GOOD, GOOD, GOOD, OVERFLOW, GOOD]
    for norm in norms[:5]:
        judged(scaler, norm)
    other.restore(scaler.state())
    for norm in norms[5:]:
        assert judged(other, norm) == judged(scaler, norm)
        assert torch.equal(other.state(), scaler.state())
