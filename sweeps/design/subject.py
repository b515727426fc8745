"""The sweep that is asked about: its arms, largest cell, FLOPs and corpus, and where runs diverged.

    most tokens = max_epochs (1 - held_out) bytes of the corpus / bytes a token

Bytes a token are those measured on the held-out text. Before the first endpoint they are the fewest
that the tokenizer can have, 4 of stored ids and 1 of any other.
"""

from collections.abc import Collection, Sequence
from difflib import get_close_matches

import numpy as np

from sweeps.design.wanted import Place, Term, Wanted
from sweeps.errors import InputError
from sweeps.plan import PlannedRun
from sweeps.records import Outcome, RunRecord
from sweeps.sources import TokenizerKind
from sweeps.spec import SweepSpec


def arms_of(wanted: Wanted, spec: SweepSpec) -> tuple[tuple[str, ...], ...]:
    """Names of the recipes of each arm: all that are BF16, then the recipe asked about.

    Raises:
        InputError: If the sweep has no such quantized recipe.
    """
    recipes = spec.all_recipes()
    baselines = tuple(recipe.name for recipe in recipes if recipe.is_bf16) or ("bf16",)
    if wanted.recipe is None or (wanted.recipe in baselines and wanted.what is Term.LOSS):
        return (baselines,)
    quantized = [recipe.name for recipe in recipes if recipe.is_quantized]
    if wanted.recipe in quantized:
        return baselines, (wanted.recipe,)
    close = get_close_matches(wanted.recipe, quantized, n=1)
    known = f"did you mean {close[0]}?" if close else f"they are {', '.join(quantized) or 'none'}"
    raise InputError(
        f"want = {wanted.text}: {wanted.recipe!r} is no quantized recipe of the sweep; {known}"
    )


def largest(records: Sequence[RunRecord]) -> Place:
    """The cell of most FLOPs that the sweep asks for."""
    run = max(records, key=lambda run: max(run.horizons) * run.flops_per_token)
    return Place(N=float(run.N), D=float(max(run.horizons)))


def flops_of(records: Sequence[RunRecord]) -> float:
    """FLOPs of all runs of the sweep, trunks and cooldowns."""
    return float(sum(_planned(run).flops for run in records))


def most_tokens(records: Sequence[RunRecord], spec: SweepSpec) -> float:
    """Training tokens that the corpus has for one run, in as many epochs as are allowed."""
    run = records[0].spec
    measured = [
        point.bytes_per_token
        for record in records
        for point in record.endpoints
        if point.bytes_per_token
    ]
    least = 4.0 if run.tokenizer.kind is TokenizerKind.IDS else 1.0
    bytes_per_token = float(np.mean(measured)) if measured else least
    epoch = (1 - run.evaluation.held_out) * run.corpus.num_bytes / bytes_per_token
    return spec.train.max_epochs * epoch


def diverged(records: Sequence[RunRecord], recipes: Collection[str]) -> frozenset[tuple[int, int]]:
    """(N, D) at which a run of these recipes diverged."""
    return frozenset(
        (run.N, tokens)
        for run in records
        if run.spec.recipe.name in recipes and run.outcome is Outcome.DIVERGED
        for tokens in run.horizons
        if run.endpoint(tokens) is None
    )


def _planned(run: RunRecord) -> PlannedRun:
    return PlannedRun(
        run_id=run.run_id,
        spec=run.spec,
        horizons=run.horizons,
        N=run.N,
        flops_per_token=round(run.flops_per_token),
    )
