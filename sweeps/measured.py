"""Which of the losses that a sweep asked for were measured, and whether they are comparable.

Every run counts once. Only endpoints at exactly a planned token count are measurements. A loss that
is not a positive finite number is none: under cross-entropy it can only come from a run that left
the finite numbers.
"""

from collections.abc import Iterable
from dataclasses import replace
from math import isfinite

from sweeps.errors import InputError
from sweeps.metrics import Endpoint
from sweeps.records import RunRecord


def measured(record: RunRecord, tokens: int) -> Endpoint | None:
    """The endpoint at exactly this many tokens, if its loss is a positive finite number."""
    point = record.endpoint(tokens)
    return point if point is not None and isfinite(point.loss) and point.loss > 0 else None


def distinct(records: Iterable[RunRecord]) -> tuple[RunRecord, ...]:
    """Every run once, in the order of first appearance; repeats add their horizons and endpoints.

    A run belongs to as many sweeps as ask for it, so records of two sweeps put together name a
    shared baseline twice.

    Raises:
        InputError: If two different recipes carry one name, under which results would be mixed.
    """
    runs: dict[str, RunRecord] = {}
    for record in records:
        known = runs.get(record.run_id)
        runs[record.run_id] = record if known is None else _merge(known, record)
    _refuse_shared_names(tuple(runs.values()))
    return tuple(runs.values())


def mixture(records: Iterable[RunRecord]) -> str:
    """Why the losses of these runs are not comparable; empty if they are."""
    texts = {
        (
            *(run.spec.corpus.kind, run.spec.corpus.fingerprint),
            *(replace(run.spec.tokenizer, path=""), run.spec.evaluation),
        )
        for run in records
    }
    if len(texts) < 2:
        return ""
    return (
        f"its runs read {len(texts)} different texts, tokenizers or held-out sets, whose losses "
        "are not comparable"
    )


def _merge(first: RunRecord, second: RunRecord) -> RunRecord:
    points = {point.tokens: point for point in (*second.endpoints, *first.endpoints)}
    return replace(
        first,
        horizons=tuple(sorted({*first.horizons, *second.horizons})),
        endpoints=tuple(points[tokens] for tokens in sorted(points)),
    )


def _refuse_shared_names(runs: tuple[RunRecord, ...]) -> None:
    identities: dict[str, str] = {}
    for run in runs:
        # One spec lent to all recipes: what differs in its run_id is then the recipe alone.
        identity = replace(runs[0].spec, recipe=run.spec.recipe).run_id
        name = run.spec.recipe.name
        if identities.setdefault(name, identity) != identity:
            raise InputError(f"recipe name {name!r} stands for two different recipes; rename one")
