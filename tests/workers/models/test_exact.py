"""The whole model without any rounding, in FP64: against the formulas and finite differences."""

import re

import numpy as np
import pytest
import torch
from torch import Tensor

from kernels.recipe_module import unrounded
from tests.workers.models.by_hand import ByHand
from tests.workers.models.shapes import CONTEXT, SHAPES, VOCABULARY, made, tokens
from workers.models.decoder import Decoder

shapes = pytest.mark.parametrize("name", SHAPES)
STEP = 1e-5
"""Of the differences: the third derivative adds some 1e-10, cancellation as much."""


def spread(model: Decoder) -> Decoder:
    """A model in FP64 whose vectors are no longer all ones, and whose biases are not zero."""
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 1:
                weight.add_(torch.randn(weight.shape, generator=generator), alpha=0.3)
        for bias in model.kept().values():
            bias.add_(torch.randn(bias.shape, generator=generator), alpha=0.05)
    return model.double()


@shapes
def test_logits_equal_the_formulas(name):
    model = spread(made(SHAPES[name], "ufp4"))
    with torch.no_grad(), unrounded(model):
        logits = model(tokens()).numpy()
    expected = ByHand(model, SHAPES[name]).logits(tokens().numpy())
    assert np.abs(logits - expected).max() < 2e-6 * np.abs(expected).max()  # angles are FP32


@shapes
def test_gradients_of_every_kind_of_parameter_equal_finite_differences(name):
    model = spread(made(SHAPES[name], "ufp4"))
    generator = torch.Generator().manual_seed(5)
    pull = torch.randn(2, CONTEXT, VOCABULARY, generator=generator, dtype=torch.float64)

    def loss() -> Tensor:
        logits: Tensor = model(tokens())
        return (logits.log_softmax(-1) * pull).sum() / 10

    with unrounded(model):
        torch.autograd.backward(loss())
        kinds = {re.sub(r"\d+", "N", name): name for name, _ in model.named_parameters()}
        for last in kinds.values():
            weight = model.get_parameter(last)
            assert weight.grad is not None
            towards = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
            towards /= towards.norm()
            slope = (weight.grad * towards).sum().item()
            sides = []
            with torch.no_grad():
                for sign in (1, -1):
                    weight.add_(towards, alpha=sign * STEP)
                    sides.append(loss().item())
                    weight.sub_(towards, alpha=sign * STEP)
            difference = (sides[0] - sides[1]) / (2 * STEP)
            assert slope == pytest.approx(difference, rel=1e-6, abs=1e-8), last
            assert abs(slope) > 1e-6, last


@shapes
def test_it_ends_with_its_context(name):
    model = made(SHAPES[name], "ufp4")
    with torch.no_grad():
        before = model(tokens())
        with unrounded(model):
            assert not torch.equal(model(tokens()), before)
        assert torch.equal(model(tokens()), before)
