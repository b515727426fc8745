"""The fits of a sweep: one for each recipe, on every endpoint that the sweep asked for.

    row       one planned endpoint of one run: its loss, or why it is not fitted
    cluster   the run: horizons of one run share its trunk, so that a bootstrap draws them together

Losses of different texts, tokenizers or held-out sets are not comparable in nats per token; a
recipe whose runs differ in one of these gets no fit.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sweeps.fits.evidence import Excluded
from sweeps.fits.fit import refuse
from sweeps.fits.points import make_points
from sweeps.fits.result import Fit
from sweeps.fits.settings import Settings
from sweeps.gaps.pair import absence
from sweeps.measured import distinct, measured, mixture
from sweeps.records import RunRecord
from sweeps.samples import Sample, fit_samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One planned endpoint as a fit sees it.

    Attributes:
        recipe: Name of the recipe.
        label: What tables call the run.
        model: Name of the model shape.
        N: Non-embedding parameters.
        tokens: Planned D.
        loss: Validation loss, nats per token; None where it is not fitted.
        loss_se: Its standard error over validation sequences; None with the loss.
        flops: C at this endpoint.
        seed: The `init` seed stream.
        run_id: The run, which is its cluster.
        reason: Why it is not fitted, in the words of `Missing`; empty if it is.
    """

    recipe: str
    label: str
    model: str
    N: int
    tokens: int
    loss: float | None
    loss_se: float | None
    flops: float
    seed: int
    run_id: str
    reason: str


def observations(records: Iterable[RunRecord]) -> tuple[Observation, ...]:
    """Every planned endpoint, BF16 first, then by recipe in the order of the records.

    Raises:
        InputError: If two different recipes carry one name.
    """
    runs = sorted(distinct(records), key=lambda run: not run.spec.recipe.is_bf16)
    order = list(dict.fromkeys(run.spec.recipe.name for run in runs))
    found = [_observation(run, tokens) for run in runs for tokens in sorted(set(run.horizons))]
    return tuple(
        sorted(
            found,
            key=lambda row: (order.index(row.recipe), row.N, row.model, row.tokens, row.seed),
        )
    )


def recipe_samples(records: Iterable[RunRecord]) -> tuple[Sample, ...]:
    """One sample for each recipe, BF16 first."""
    by_recipe: dict[str, list[Observation]] = {}
    for row in observations(records):
        by_recipe.setdefault(row.recipe, []).append(row)
    return tuple(_sample(recipe, rows) for recipe, rows in by_recipe.items())


def recipe_fits(records: Iterable[RunRecord], settings: Settings) -> tuple[Fit, ...]:
    """One fit for each recipe, BF16 first.

    Raises:
        InputError: If two different recipes carry one name.
    """
    runs = distinct(records)
    samples = recipe_samples(runs)
    mixed = {
        sample.label: mixture(run for run in runs if run.spec.recipe.name == sample.label)
        for sample in samples
    }
    sound = [sample for sample in samples if not mixed[sample.label]]
    fits = {fit.label: fit for fit in fit_samples(sound, settings)}
    return tuple(
        fits.get(sample.label) or _refused(sample, mixed[sample.label], settings)
        for sample in samples
    )


def _observation(run: RunRecord, tokens: int) -> Observation:
    point, missing = measured(run, tokens), absence(run, tokens)
    return Observation(
        recipe=run.spec.recipe.name,
        label=run.spec.label,
        model=run.spec.model.name,
        N=run.N,
        tokens=tokens,
        loss=point.loss if point is not None else None,
        loss_se=point.loss_se if point is not None else None,
        flops=tokens * run.flops_per_token,
        seed=run.spec.seeds.init,
        run_id=run.run_id,
        reason="" if missing is None else missing.value,
    )


def _sample(recipe: str, rows: Sequence[Observation]) -> Sample:
    fitted = [(row, row.loss) for row in rows if not row.reason and row.loss is not None]
    return Sample(
        label=recipe,
        points=make_points(
            [float(row.N) for row, _ in fitted],
            [float(row.tokens) for row, _ in fitted],
            [loss for _, loss in fitted],
            arms=[recipe] * len(fitted) or None,
            groups=[row.run_id for row, _ in fitted],
        ),
        excluded=tuple(
            Excluded(
                label=row.label,
                N=float(row.N),
                tokens=float(row.tokens),
                arm=recipe,
                reason=row.reason,
            )
            for row in rows
            if row.reason
        ),
    )


def _refused(sample: Sample, reason: str, settings: Settings) -> Fit:
    return refuse(
        sample.points,
        reason,
        label=sample.label,
        settings=settings,
        excluded=sample.excluded,
    )
