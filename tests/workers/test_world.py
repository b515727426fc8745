"""What ranks tell each other, and what each holds of a tensor: three ranks against arithmetic."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sweeps.runspec import Sharding
from tests.workers.ranks import on_ranks
from workers.shards import fill, is_sharded, local, total, whole
from workers.world import ALONE, World

RANKS = 3
ROWS = torch.arange(20.0).reshape(5, 4)
FEW = torch.arange(4.0).reshape(1, 4)


class Pair(nn.Module):
    """Two weights, one with fewer rows than there are ranks, in a stack of one block."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = nn.ModuleList([nn.Linear(4, 5, bias=False)])
        self.few = nn.Parameter(FEW.clone())
        self.idle = nn.Parameter(torch.ones(2))

    @property
    def linear(self) -> nn.Linear:
        (linear,) = self.stack
        assert isinstance(linear, nn.Linear)
        return linear

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.linear(x * self.few)
        return made

    def learn(self, world: World) -> list[Tensor]:
        """Two passes on each rank, each over an input of its own; the gradient held after each."""
        held = []
        for index, last in enumerate((False, True)):
            with world.backward(self, last=last):
                made: Tensor = self(torch.full((1, 4), float(10 * world.rank + index)))
                torch.autograd.backward(made.sum())
            held.append(local(gradient(self.linear.weight)).clone())
        return held


def gradient(weight: Tensor) -> Tensor:
    assert weight.grad is not None
    return weight.grad


def on_rank(_none: None) -> dict[str, Any]:
    """Everything that a rank of three finds out."""
    from workers.parallel import Peers

    peers = Peers(Sharding.SHARD)
    rank = peers.rank
    called: list[int] = []

    def noted(part: int) -> Tensor:
        called.append(part)
        return torch.tensor(part * 10)

    tensors = {"a": torch.tensor([1.5]), "b": ROWS, "c": FEW} if rank == 0 else {}
    told = peers.told_tensors(tensors)
    model = Pair()
    peers.place(model, torch.device("cpu"))
    weight = model.linear.weight
    fill(weight, ROWS)
    fill(model.few, FEW)
    found = {
        "is_lead": peers.is_lead,
        "size": peers.size,
        "mine": peers.mine(6),
        "summed": peers.summed(torch.tensor([rank, 1.0])),
        "summed counts": peers.summed(torch.tensor(rank + 2**40)),
        "agreed": [peers.agreed(rank == 0), peers.agreed(rank != 0)],
        "told": peers.told({"rank": rank}),
        "first": [
            peers.first(None),
            peers.first(f"of {rank}" if rank else None),
            peers.first(f"of {rank}"),
        ],
        "each": peers.each(noted, [1, 2, 3, 4]),
        "called": called,
        "told tensors": [told.get("c"), told["a"], told.get("none"), len(told), list(told)],
        "local": local(weight),
        "whole": whole(weight),
        "few": [local(model.few), whole(model.few)],
        "total": total(local(weight).sum(), of=weight),
        "plain": [is_sharded(weight), is_sharded(ROWS), total(torch.tensor(2.0), of=ROWS)],
        "gathered": peers.gathered({"weight": weight, "plain": FEW}),
    }
    with peers.unsharded(model):
        found["unsharded"] = model.linear.weight.detach().clone()
    found["sharded again"] = local(model.linear.weight)
    found["held"] = model.learn(peers)
    found["gradient"] = whole(gradient(model.linear.weight))
    copy = Pair()
    replicas = Peers(Sharding.REPLICATE)
    replicas.place(copy, torch.device("cpu"))
    fill(copy.linear.weight, ROWS)
    copy.learn(replicas)
    found["replicated gradient"] = gradient(copy.linear.weight)
    found["idle gradient"] = gradient(copy.idle)
    return found


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return on_ranks(RANKS, on_rank, tmp_path_factory.mktemp("world") / "ranks", None)


def everywhere(found: Sequence[dict[str, Any]], key: str) -> list[Any]:
    return [one[key] for one in found]


pytestmark = pytest.mark.slow


def test_rank_0_leads(found):
    assert everywhere(found, "is_lead") == [True, False, False]
    assert everywhere(found, "size") == [RANKS] * RANKS


def test_each_rank_takes_an_unbroken_stretch_of_the_microbatches(found):
    assert everywhere(found, "mine") == [range(2), range(2, 4), range(4, 6)]


def test_tensors_are_summed_over_ranks_and_counts_exactly(found):
    for one in found:
        assert one["summed"].tolist() == [3.0, 3.0]
        assert one["summed counts"].item() == 3 + 3 * 2**40


def test_the_lead_decides_and_tells(found):
    assert everywhere(found, "agreed") == [[True, False]] * RANKS
    assert everywhere(found, "told") == [{"rank": 0}] * RANKS


def test_the_lowest_rank_with_a_word_has_it(found):
    assert everywhere(found, "first") == [[None, "of 1", "of 0"]] * RANKS


def test_every_part_is_made_once_and_all_ranks_call_as_often(found):
    assert everywhere(found, "called") == [[1, 2], [3, 4], [4, 4]]
    for one in found:
        assert [made.item() for made in one["each"]] == [10, 20, 30, 40]


def test_the_leads_tensors_reach_all_by_name(found):
    for one in found:
        few, first, none, count, names = one["told tensors"]
        assert torch.equal(few, FEW)
        assert first.item() == 1.5
        assert none is None
        assert count == 3
        assert names == ["a", "b", "c"]


def test_ranks_hold_rows_as_chunks_and_the_whole_is_all_of_them(found):
    assert [len(rows) for rows in everywhere(found, "local")] == [2, 2, 1]
    assert torch.equal(torch.cat(everywhere(found, "local")), ROWS)
    for one in found:
        assert torch.equal(one["whole"], ROWS)
        assert torch.equal(one["few"][1], FEW)
        assert torch.equal(one["unsharded"], ROWS)
        assert torch.equal(one["sharded again"], one["local"])
    assert [len(one["few"][0]) for one in found] == [1, 0, 0]


def test_what_each_took_of_its_rows_adds_up_and_of_a_plain_tensor_is_the_sum(found):
    for one in found:
        assert one["total"].item() == ROWS.sum().item()
        assert one["plain"][:2] == [True, False]
        assert one["plain"][2].item() == 2.0


def test_the_lead_gathers_and_the_others_have_nothing(found):
    lead, *others = everywhere(found, "gathered")
    assert torch.equal(lead["weight"], ROWS)
    assert torch.equal(lead["plain"], FEW)
    assert others == [{}, {}]


def test_gradients_of_all_passes_of_all_ranks_are_summed(found):
    inputs = sum(10 * rank + index for rank in range(RANKS) for index in range(2))
    expected = (FEW * inputs).expand(5, 4)
    for one in found:
        assert torch.equal(one["gradient"], expected)
        assert torch.equal(one["replicated gradient"], expected)


def test_ranks_that_share_weights_hold_no_more_than_their_rows_of_gradients_between_passes(found):
    inputs = sum(10 * rank for rank in range(RANKS))
    for rows, held in zip((2, 2, 1), everywhere(found, "held"), strict=True):
        assert torch.equal(held[0], (FEW * inputs).expand(rows, 4))
        assert held[1].shape == (rows, 4)


def test_a_weight_that_no_pass_touched_has_a_gradient_of_zero_on_every_replica(found):
    for one in found:
        assert one["idle gradient"].tolist() == [0.0, 0.0]


def test_a_single_process_does_everything_itself(tmp_path: Path):
    model = Pair()
    ALONE.place(model, torch.device("cpu"))
    fill(model.few, FEW + 1)
    assert torch.equal(local(model.few), FEW + 1)
    assert local(model.few).data_ptr() == model.few.data_ptr() == whole(model.few).data_ptr()
    assert not local(model.few).requires_grad
    assert ALONE.mine(2) == range(2)
    assert [made.item() for made in ALONE.each(torch.tensor, [1, 2])] == [1, 2]
    assert ALONE.told("word") == ALONE.first("word") == "word"
    assert ALONE.agreed(True)
    assert not ALONE.agreed(False)
    tensors = {"a": ROWS}
    assert ALONE.gathered(tensors) is ALONE.told_tensors(tensors) is tensors
    assert ALONE.summed(ROWS) is ROWS
