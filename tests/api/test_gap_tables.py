"""What the terminal shows of gaps: every number with its n, nothing cut at 80 columns."""

import io
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from api.gap_tables import gap_lines
from api.terminal import print_lines
from sweeps.answer import Answer, answer
from sweeps.records import Outcome, RunRecord
from tests.sweeps.made_runs import made_grid

RECIPES = {"bf16": 0.0, "ufp4-rht-fprop-wgrad": 0.02, "mxfp8": 0.001}
GRID = {"widths": (32, 64, 128, 256), "budgets": tuple(10**6 * 2**k for k in range(6))}


def made(seeds: int, **grid: Sequence[int]) -> list[RunRecord]:
    random = np.random.default_rng(1)
    return made_grid(
        RECIPES, seeds=range(seeds), noise=lambda: float(random.normal(0, 0.002)), **grid
    )


def shown(found: Answer, width: int = 80, *, floors: bool = False) -> str:
    text = io.StringIO()
    console = Console(file=text, width=width, highlight=False, markup=False, emoji=False)
    print_lines(console, gap_lines(found, floors=floors))
    return text.getvalue()


def row(text: str, start: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.startswith(start)]


@pytest.fixture(scope="module")
def repeated() -> Answer:
    return answer(made(3), resamples=100)


def test_a_sweep_with_repeated_seeds_fits_into_80_columns(repeated: Answer) -> None:
    text = shown(repeated)
    assert max(len(line) for line in text.splitlines()) <= 80
    for words in ("bootstrap", "over models", "pair s.d.", "rho", "detects", "resolve", "halve"):
        assert words in text


def test_each_recipe_has_its_mean_interval_wins_and_verdict(repeated: Answer) -> None:
    text = shown(repeated)
    for summary in repeated.gaps.summaries:
        cells = row(text, summary.recipe)[0]
        assert cells[1:4] == [f"{x:+.4f}" for x in (summary.mean, summary.low, summary.high)]
        assert cells[5] == f"{summary.n_bf16_wins}/{summary.n_pairs}"
    assert row(text, "mxfp8")[0][-1] == "within"
    assert row(text, "ufp4-rht-fprop-wgrad")[0][-1] == "above"


def test_each_cell_has_its_seeds_mean_and_half_width(repeated: Answer) -> None:
    text = shown(repeated)
    cells = [one for one in repeated.cells if one.gap is not None]
    recipes = ("mxfp8", "ufp4-rht-fprop-wgrad")
    lines = [line for line in row(text, "w") if len(line) > 1 and line[1] in recipes]
    assert len(lines) == len(cells) == 12
    for line, cell in zip(lines, cells, strict=True):
        assert cell.gap is not None
        assert cell.gap.high is not None
        assert line[3] == "3"
        assert line[5:7] == [f"{cell.gap.mean:+.4f}", f"{cell.gap.high - cell.gap.mean:.4f}"]


def test_recipes_come_lowest_gap_first(repeated: Answer) -> None:
    text = shown(repeated, 120)
    table = text[text.index("Gap to bf16 by recipe") :]
    assert table.index("mxfp8") < table.index("ufp4-rht-fprop-wgrad")


def test_the_noise_has_its_degrees_and_intervals(repeated: Answer) -> None:
    text = shown(repeated, 120)
    for summary in repeated.gaps.summaries:
        noise = summary.noise
        assert noise is not None
        low, high = noise.pair_interval
        assert f"{noise.pair_sd:.4f} ({low:.4f} to {high:.4f})" in text
        assert row(text, summary.recipe)[2][1:4] == ["3", "9", "6"]


def test_an_irreducible_loss_that_cannot_be_tested_says_what_it_takes(repeated: Answer) -> None:
    text = " ".join(shown(repeated, floors=True).split())
    assert (
        "not tested for any recipe: it takes a law of the bf16 losses with an E, and a C_mult"
        in text
    )


def test_one_seed_says_that_its_interval_is_over_models_and_shows_no_noise() -> None:
    text = shown(answer(made(1), resamples=100))
    assert "one seed: the interval is over models" in text
    assert "low, high: over models" in text
    assert "rho" not in text
    assert "+/-" not in text


@pytest.mark.slow
def test_a_grid_shows_what_a_recipe_is_worth_with_intervals() -> None:
    found = answer(made(2, **GRID), resamples=100)
    text = shown(found)
    assert max(len(line) for line in text.splitlines()) <= 80
    (worth,) = [one for one in found.formats.effective if one.label == "ufp4-rht-fprop-wgrad"]
    one = worth.C_mult
    assert one.value is not None
    assert f"{one.value:.3f} ({one.low:.3f}-{one.high:.3f})" in text


def test_without_a_law_the_reason_stands_in_place_of_the_worth(repeated: Answer) -> None:
    assert "C_mult of mxfp8 and ufp4-rht-fprop-wgrad: not identified, " in " ".join(
        shown(repeated, 400).split()
    )


def test_endpoints_without_a_gap_are_listed_with_seeds_and_reason() -> None:
    runs = made(3)
    for place, run in enumerate(runs):
        match run.spec.label:
            case "w64 mxfp8 s0" | "w64 mxfp8 s2":
                why = "loss is nan at step 9"
                runs[place] = replace(run, outcome=Outcome.DIVERGED, endpoints=(), detail=why)
            case "w32 mxfp8 s1":
                runs[place] = replace(run, outcome=Outcome.WAITING, endpoints=())
    text = shown(answer(runs, resamples=100), 120)
    assert "Without a gap: 6 endpoints" in text
    tokens = "1,000,000 and 4,000,000"
    assert f"w64    mxfp8   0, 2  {tokens}  diverged: loss is nan at step 9" in text
    assert f"w32    mxfp8   1     {tokens}  unfinished" in text
    assert "2 diverged" in text


def test_many_endpoints_without_a_gap_are_counted_after_the_first_lines() -> None:
    grid = {"widths": range(32, 224, 16), "budgets": (10**6, 4 * 10**6)}
    runs = [run for run in made(1, **grid) if not run.spec.recipe.is_bf16]
    text = shown(answer(runs, resamples=100), 120)
    assert "Without a gap: 48 endpoints" in text
    assert text.count("no baseline") == 20 + 48
    assert "and 4 more lines; --json lists every endpoint" in text


@pytest.mark.slow
def test_an_irreducible_loss_of_its_own_is_told_where_it_was_asked_for() -> None:
    asked = answer(made(2, **GRID), resamples=100, floors=True)
    assert "Irreducible loss E" not in shown(asked)
    text = shown(asked, floors=True)
    assert max(len(line) for line in text.splitlines()) <= 80
    rows = [row.split() for row in text[text.index("Irreducible loss E") :].splitlines()]
    told = {row[0]: row[-1] for row in rows if len(row) == 6 and row[0] in RECIPES}
    assert told == {"mxfp8": "no", "ufp4-rht-fprop-wgrad": "yes"}  # a gap of 0.02 at every size


@pytest.mark.parametrize("runs", [[], made_grid({"bf16": 0.0})], ids=["none", "baselines"])
def test_a_sweep_without_quantized_runs_has_a_table_all_the_same(runs: list[RunRecord]) -> None:
    text = shown(answer(runs, resamples=100))
    assert text.startswith("Cells: ")
    assert "Gap to bf16 by recipe" not in text
