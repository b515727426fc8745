"""What planning is asked by both front doors: next runs of a sweep, and the power of a spec.

The noise between seeds is what the asker says, else what the sweep itself measured, else what
another sweep of this home measured at one of its sizes, else what was seen at such sizes.
"""

from collections.abc import Iterable, Iterator

from orchestrator.service import Service
from sweeps.claims.judge import named
from sweeps.counts import non_embedding_parameters
from sweeps.design.next_cells import next_cells
from sweeps.design.next_seeds import NextSeeds, next_seeds
from sweeps.design.noise_level import NoiseLevel, given, measured, stated
from sweeps.design.resolving import Resolution, resolve
from sweeps.design.suggested import NextCells
from sweeps.design.wanted import Wanted, WantedClaim, parse_wanted
from sweeps.gaps.pair import pair
from sweeps.intervals import LEVEL
from sweeps.spec import SweepSpec


def ask_next(
    service: Service,
    sweep_id: str,
    want: str,
    *,
    budget: float | None = None,
    sd: float | None = None,
) -> NextCells | NextSeeds:
    """The runs of a sweep to make next.

    Args:
        service: Over the home of the sweep.
        sweep_id: The sweep.
        want: What is to be known better, as `sweeps.design.wanted` reads it.
        budget: FLOPs to spend.
        sd: Of a pair between seeds, nats per token.

    Raises:
        InputError: If it asks for what the sweep does not have.
    """
    match parse_wanted(want):
        case WantedClaim(name=name):
            (judgement,) = named(service.judgements(sweep_id), [name])
            return next_seeds(judgement, budget)
        case Wanted() as wanted:
            spec = service.spec(sweep_id)
            noise = _noise(service, spec, sd, first=[sweep_id])
            return next_cells(wanted, spec, service.records(sweep_id), noise, budget)


def ask_power(
    service: Service,
    spec: SweepSpec,
    *,
    sd: float | None = None,
    gap: float | None = None,
    level: float = LEVEL,
) -> Resolution:
    """What the seeds of a spec will resolve.

    Args:
        service: Over a home, whose sweeps say how noisy runs are.
        spec: The sweep, which need not be submitted.
        sd: Of a pair between seeds, nats per token.
        gap: One to be found.
        level: Of the two-sided test.

    Raises:
        InputError: If a number makes no sense.
    """
    return resolve(spec, _noise(service, spec, sd), gap=gap, level=level)


def _noise(
    service: Service, spec: SweepSpec, sd: float | None, first: Iterable[str] = ()
) -> NoiseLevel:
    if sd is not None:
        return given(sd)
    sizes = [non_embedding_parameters(shape) for shape in spec.shapes()]
    found = next(_measured(service, set(sizes), first), None)
    return found or stated(sizes)


def _measured(service: Service, sizes: set[int], first: Iterable[str]) -> Iterator[NoiseLevel]:
    """Noise of sweeps that share a size, the newest first."""
    newest = (sweep.sweep_id for sweep in service.list())
    for sweep_id in dict.fromkeys((*first, *newest)):
        records = service.records(sweep_id)
        if any(run.N in sizes for run in records):
            recipes = [run.spec.recipe.name for run in records if run.spec.recipe.is_quantized]
            if (noise := measured(pair(records), recipes, sweep_id)) is not None:
                yield noise
