"""Results that are kept in docs/results: their claims, worked out anew from their endpoints.

Python evaluates a claim's statement on the losses of each seed, and scipy gives the intervals.
"""

import csv
import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "results"
KEPT = sorted(FOLDER.glob("*/claims.json"))
Losses = dict[tuple[str, str], dict[str, float]]
"""Of each recipe by model and seed, at the longest budget of the model."""


def losses(folder: Path) -> Losses:
    with (folder / "endpoints.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["loss"]]
    longest: defaultdict[str, int] = defaultdict(int)
    for row in rows:
        longest[row["model"]] = max(longest[row["model"]], int(row["tokens"]))
    found: defaultdict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for row in rows:
        if int(row["tokens"]) == longest[row["model"]]:
            found[row["model"], row["seed"]][row["recipe"]] = float(row["loss"])
    return dict(found)


def contrasts(statement: str, table: Losses, model: str) -> list[float]:
    """Left side less right side, in each seed that has every recipe of it."""
    python = re.sub(r"gap\(([^)]*)\)", r"(L['\1'] - L['bf16'])", statement)
    left, right = re.split(r" [<>]=? ", python)
    recipes = {"bf16", *re.findall(r"gap\(([^)]*)\)", statement)}
    return [
        eval(left, {"L": own}) - eval(right, {"L": own})
        for (name, _), own in table.items()
        if name == model and recipes <= set(own)
    ]


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.parent.name)
def test_every_kept_claim_follows_from_the_kept_endpoints(path: Path) -> None:
    table = losses(path.parent)
    claims: list[dict[str, Any]] = json.loads(path.read_text())["claims"]
    for claim in claims:
        for part in claim["parts"]:
            estimate, names = part["estimate"], [model["model"] for model in part["models"]]
            values = [np.array(contrasts(claim["statement"], table, name)) for name in names]
            for model, own in zip(part["models"], values, strict=True):
                assert sorted(model["values"]) == pytest.approx(sorted(own), abs=1e-9)
            assert estimate["value"] == pytest.approx(np.mean([own.mean() for own in values]))
            if len(values) == 1:
                low, high = stats.ttest_1samp(values[0], 0).confidence_interval(claim["level"])
                assert (estimate["low"], estimate["high"]) == pytest.approx((low, high))
        assert (claim["verdict"] != "undecided") is (claim["p"] < 1 - claim["level"])


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.parent.name)
def test_every_verdict_on_the_page_is_the_kept_one(path: Path) -> None:
    page = (FOLDER / f"{path.parent.name}.md").read_text()
    for claim in json.loads(path.read_text())["claims"]:
        line = rf"^{re.escape(claim['name'])} +(\w+) "
        assert re.findall(line, page, re.MULTILINE) == [claim["verdict"]]
