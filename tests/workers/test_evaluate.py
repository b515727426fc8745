from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from workers.evaluate import measure

VOCABULARY, CONTEXT, SEQUENCES = 7, 5, 9


class Bigram(nn.Module):
    """Logits that depend on the present token alone."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.table = nn.Parameter(torch.randn(VOCABULARY, VOCABULARY, generator=generator))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.table[tokens]


@pytest.fixture
def windows() -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, VOCABULARY, (SEQUENCES, CONTEXT + 1), generator=generator)


def test_loss_and_error_equal_the_formula_in_double_precision(windows):
    model = Bigram()
    table = model.table.detach().double().numpy()
    losses = np.array(
        [
            [np.log(np.exp(table[a]).sum()) - table[a, b] for a, b in pairwise(window)]
            for window in windows.tolist()
        ]
    ).mean(axis=1)
    measured = measure(model, windows, batch=SEQUENCES)
    assert measured.loss == pytest.approx(losses.mean(), rel=1e-6)
    assert measured.loss_se == pytest.approx(losses.std(ddof=1) / SEQUENCES**0.5, rel=1e-5)


@pytest.mark.parametrize("batch", [1, 2, 4, 100])
def test_the_batch_of_an_evaluation_does_not_matter(windows, batch):
    model = Bigram()
    assert measure(model, windows, batch) == measure(model, windows, SEQUENCES)


def test_measuring_leaves_no_gradient(windows):
    model = Bigram()
    measure(model, windows, batch=3)
    assert model.table.grad is None
