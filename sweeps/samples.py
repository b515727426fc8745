"""Samples: what a fit gets, one for each arm, whether from a sweep or from somebody's file.

A diverged run is listed in any fit. Where `Settings.diverged` drops cells, the (N, D) at which any
arm diverged is dropped in all of them, so that their laws are of the same cells.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sweeps.fits.evidence import Excluded
from sweeps.fits.fit import fit
from sweeps.fits.points import Points
from sweeps.fits.result import Fit
from sweeps.fits.settings import Diverged, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What one fit gets.

    Attributes:
        label: Name of the arm, or of the file where there are no arms.
        points: What is fitted.
        excluded: What is not, and why.
    """

    label: str
    points: Points
    excluded: tuple[Excluded, ...] = ()


def fit_samples(samples: Sequence[Sample], settings: Settings) -> tuple[Fit, ...]:
    """One fit for each sample, in their order."""
    return tuple(
        fit(
            sample.points,
            label=sample.label,
            settings=settings,
            excluded=(*sample.excluded, *_elsewhere(sample, samples, settings)),
        )
        for sample in samples
    )


def _elsewhere(sample: Sample, samples: Sequence[Sample], settings: Settings) -> list[Excluded]:
    """What diverged in other arms, if that is to take a cell out of this one."""
    if settings.diverged is not Diverged.DROP_CELL:
        return []
    return [
        item
        for other in samples
        if other is not sample
        for item in other.excluded
        if item.is_diverged
    ]
