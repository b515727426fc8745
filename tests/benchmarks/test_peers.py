"""The comparison with other libraries: what is here is measured, what is not is said."""

import json
import re
from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks import peers
from benchmarks.peers_agreement import on_grid, shares, tailed, wide
from benchmarks.peers_blocks import BLOCKS
from benchmarks.peers_elements import ELEMENTS
from benchmarks.peers_quantizer import (
    PINS,
    Missing,
    Peer,
    Quantizer,
    attempted,
    compiled,
    found,
    installed,
    not_installed,
)
from benchmarks.peers_rows import LEGEND, absent
from benchmarks.results import SPREAD_LEGEND, Setting
from kernels.formats import E2M1, E4M3, GRIDS, INT4, Grid
from kernels.operands import Operand, Rounding, Scale

PEERS = (*BLOCKS, *ELEMENTS)
PACKAGES = {peer.package for peer in PEERS}


NV = Operand(grid=E2M1, scale=Scale.E4M3)


def peer(load: Quantizer | Exception, operand: Operand, package: str = "torch") -> Peer:
    def loader() -> Quantizer:
        if isinstance(load, Exception):
            raise load
        return load

    return Peer(package=package, rule="any", load=loader, operand=operand, takes=torch.float32)


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    setting = Setting(device=torch.device("cpu"), threads=(1,), quick=True)
    found: dict[str, Any] = json.loads(json.dumps(peers.run(setting).as_json(), allow_nan=False))
    return found


def rows(result: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for table in result["tables"] for row in table["rows"]]


@pytest.mark.slow
def test_the_references_for_elements_agree_on_every_element_of_their_grids(
    result: dict[str, Any],
) -> None:
    exact = {(row["peer"], row["rule"]): row["equal"] for row in rows(result)}
    for name in ("e2m1", "e2m3", "e3m2", "e4m3", "e5m2"):
        assert exact["gfloat", name] == 1
        assert exact["ml-dtypes", name] == 1
    assert exact["gfloat", "e3m0"] == 1
    assert exact["gfloat", "e2m1, SR"] is None


@pytest.mark.slow
def test_a_row_that_was_measured_has_its_figures_and_the_version(result: dict[str, Any]) -> None:
    measured = [row for row in rows(result) if row["missing"] is None]
    assert {"gfloat", "ml-dtypes", "torch"} <= {row["peer"] for row in measured}
    for row in measured:
        assert row["version"] == installed(row["peer"])
        assert row["threads"] == 1
        assert row["how"] == "as it is"
        elements = row["shape"][0] * row["shape"][1]
        assert row["gelem_per_s"] == pytest.approx(elements / row["seconds"] / 1e9, rel=1e-2)
        assert row["ours_gelem_per_s"] > 0
        assert row["times"]["rounds"] == 3


@pytest.mark.slow
def test_a_package_that_is_not_installed_has_a_row_with_the_line_that_installs_it(
    result: dict[str, Any],
) -> None:
    of_package = {
        package: [row for row in rows(result) if row["peer"] == package] for package in PACKAGES
    }
    for package, its_rows in of_package.items():
        assert its_rows
        if installed(package) is None:
            kinds = sum(
                any(each.package == package for each in kind) for kind in (BLOCKS, ELEMENTS)
            )
            assert [row["missing"] for row in its_rows] == [not_installed(package)] * kinds


@pytest.mark.slow
def test_every_row_has_the_keys_that_the_legend_explains(result: dict[str, Any]) -> None:
    for row in rows(result):
        assert set(row) == set(LEGEND) - set(SPREAD_LEGEND)
        assert row["times"] is None or set(row["times"]) == set(SPREAD_LEGEND)
    assert set(result["legend"]) == set(LEGEND)


@pytest.mark.slow
def test_a_share_below_one_is_explained_below_the_table(result: dict[str, Any]) -> None:
    for table in result["tables"]:
        for row in table["rows"]:
            shares_of_row = [row["equal"], row["near"], *(row["wide"] or {}).values()]
            if any(share is not None and share < 1 for share in shares_of_row):
                assert row["differs"] in table["note"]
            else:
                assert row["differs"] is None


def test_a_package_that_nobody_has_is_missing_and_no_error() -> None:
    unheard_of = peer(torch.abs, NV, package="gridlaw-has-no-such-peer")
    assert found(unheard_of) == Missing("not installed: pip install gridlaw-has-no-such-peer")
    row = absent(unheard_of)
    assert row["missing"] == "not installed: pip install gridlaw-has-no-such-peer"
    assert row["version"] is row["how"] is row["equal"] is None


@pytest.mark.parametrize(
    "error",
    [
        AttributeError("it has moved"),
        ImportError("it needs another"),
        RuntimeError("Error building extension\nwith more below"),
        TypeError("unexpected keyword"),
    ],
)
def test_a_package_that_does_not_work_here_is_missing_with_what_it_said(error: Exception) -> None:
    failing = found(peer(error, NV))
    assert failing == Missing(f"fails: {type(error).__name__}: {str(error).splitlines()[0]}")


def test_a_quantizer_that_fails_when_called_is_missing() -> None:
    def quantizer(x: Tensor) -> Tensor:
        raise NotImplementedError("no such kernel on a CPU")

    said = Missing("fails: NotImplementedError: no such kernel on a CPU")
    assert attempted(quantizer, torch.ones(1, 16)) == said
    assert attempted(torch.abs, torch.ones(1, 16)) is torch.abs


def test_the_pins_are_those_of_the_peers_of_what_two_of_them_need_and_of_the_other_fitter() -> None:
    pinned = re.findall(r"(?:^|(?<= ))([a-z-]+)==[0-9.]+$", PINS.read_text(), re.MULTILINE)
    assert sorted(pinned) == sorted({*PACKAGES, "ninja", "transformers", "chinchilla"})


def test_what_is_to_be_done_about_a_missing_package_is_the_pinned_line() -> None:
    assert not_installed("torchao").startswith("not installed: pip install torchao==")
    command = not_installed("fouroversix")
    assert command.startswith("not installed: SKIP_CUDA_BUILD=1 pip install --no-build-isolation ")


def test_a_rule_is_asked_of_a_package_once() -> None:
    for kind in (BLOCKS, ELEMENTS):
        asked = [(each.package, each.rule) for each in kind]
        assert len(asked) == len(set(asked))


@pytest.mark.parametrize("package", ["gfloat", "ml-dtypes"])
def test_a_reference_rounds_half_way_to_the_even_code(package: str) -> None:
    quantizer = found(next(each for each in ELEMENTS if each.package == package))
    assert not isinstance(quantizer, Missing)
    assert quantizer(torch.tensor([[0.75, 2.5, -5.0]])).tolist() == [[1, 2, -4]]


# Shares


def altered(operand: Operand, change: torch.Tensor) -> Peer:
    """A peer that multiplies our numbers, in FP32."""
    ours = peer(torch.abs, operand)
    return peer(lambda x: ours.ours(x) * change, operand)


def test_shares_count_the_elements_that_are_equal_and_those_that_are_near() -> None:
    x = torch.ones(1, 16)
    change = torch.tensor([1.0] * 12 + [1 + 2.0**-7] * 3 + [1.5])
    each = altered(Operand(grid=E2M1), change)
    assert shares(each, each.load(), x) == {"equal": 12 / 16, "near": 15 / 16}


def test_ours_is_rounded_once_to_the_type_that_the_peer_returns() -> None:
    x = torch.full((1, 16), 1 + 2.0**-20)  # under an FP32 scale it stays what it is
    each = peer(lambda x: x.to(torch.bfloat16), Operand(grid=E2M1))
    assert shares(each, each.load(), x) == {"equal": 1.0, "near": 1.0}
    kept = peer(lambda x: x.to(torch.bfloat16).float(), Operand(grid=E2M1))
    assert shares(kept, kept.load(), x) == {"equal": 0.0, "near": 1.0}


def test_zeros_of_both_signs_are_equal_and_a_lost_number_is_not_near() -> None:
    x = torch.tensor([[0.0] * 8 + [6.0] * 8])
    each = altered(NV, torch.tensor([-1.0] * 8 + [0.0] * 2 + [1.0] * 6))
    assert shares(each, each.load(), x) == {"equal": 14 / 16, "near": 14 / 16}


def test_a_stochastic_peer_has_no_shares() -> None:
    each = peer(torch.abs, Operand(grid=E2M1, rounding=Rounding.SR))
    assert shares(each, each.load(), torch.ones(1, 16)) is None


def test_a_peer_without_scales_is_not_compared_where_scales_are_not_one() -> None:
    without = next(each for each in ELEMENTS if each.package == "torch")
    with pytest.raises(ValueError, match="must reach 448"):
        shares(without, torch.abs, torch.ones(1, 16))


# Tensors


@pytest.mark.parametrize("grid", [E2M1, INT4, E4M3, GRIDS["e3m0"]], ids=lambda grid: grid.name)
def test_on_a_grid_the_scale_is_one_and_many_elements_are_half_way(grid: Grid) -> None:
    x = on_grid(64, 512, grid)
    assert (x.view(64, -1, 16).abs().amax(2) == grid.maximum).all()
    magnitudes = torch.tensor(grid.magnitudes)
    halves = (magnitudes[1:] + magnitudes[:-1]) / 2
    share = torch.isin(x.abs(), halves).float().mean()
    assert 0.2 < share < 0.3
    ours = peer(torch.abs, Operand(grid=grid, scale=Scale.E8M0_FLOOR)).ours(x)
    assert torch.isin(ours.abs(), magnitudes).all()


def test_the_wide_tensor_falls_over_the_whole_range_and_has_rows_of_zeros() -> None:
    x = wide(256, 512).float()
    sizes = x.abs().amax(1)
    assert (sizes[::16] == 0).all()
    assert sizes[1] > 1
    assert sizes[-1] < 2.0**-26


def test_the_tailed_tensor_has_few_large_entries() -> None:
    x = tailed(256, 512).float()
    assert x.abs().max() > 200
    assert 0.002 < (x.abs() > 6).float().mean() < 0.008


@pytest.mark.slow
def test_a_compiled_cast_gives_the_numbers_of_the_cast() -> None:
    cast = next(each for each in ELEMENTS if each.package == "torch")
    x = on_grid(16, 64, E4M3)
    quantizer = found(cast)
    assert not isinstance(quantizer, Missing)
    way = compiled(quantizer, x)
    assert not isinstance(way, Missing)
    assert way is not quantizer
    assert shares(cast, way, x) == {"equal": 1.0, "near": 1.0}
