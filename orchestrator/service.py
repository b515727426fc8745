"""The facade that the front doors call: plan, submit, look, cancel, retry, answer.

It holds no state of its own. Laying a sweep out reads the corpus, so that a plan pins what will be
trained on, and the plan that was shown is the one submitted; everything else is the store's.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kernels.recipes import Recipe
from orchestrator.clock import Clock, utc_now
from orchestrator.run_names import named_run
from orchestrator.settings import Settings
from orchestrator.store import Store
from orchestrator.summaries import FitSummary, Progress, RunSummary, SweepSummary
from sweeps.answer import Answer, answer
from sweeps.claims.judge import Judgement, judge
from sweeps.fits.result import Fit
from sweeps.fits.settings import Settings as FitSettings
from sweeps.metrics import Diagnosis, Endpoint
from sweeps.pinning import check_epochs, pin_corpus
from sweeps.plan import Plan, expand
from sweeps.price import Price, price
from sweeps.recipe_fits import recipe_fits
from sweeps.records import RunRecord
from sweeps.spec import SweepSpec


def lay_out(spec: SweepSpec) -> Plan:
    """The plan of a sweep over its corpus as it is now; needs no store.

    Raises:
        InputError: If the corpus cannot be read, or is too small for what is asked of it.
    """
    pinned = pin_corpus(spec)
    plan = expand(spec, pinned.ref)
    check_epochs(plan, pinned)
    return plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What can be asked of Gridlaw; `sweep` is an id, a unique name or the start of an id."""

    store: Store
    settings: Settings
    clock: Clock = utc_now

    @classmethod
    def open(cls, settings: Settings) -> "Service":
        """The service over the store of these settings.

        Raises:
            StorageError: If the store cannot be used.
        """
        return cls(store=Store.open(settings), settings=settings)

    def price(self, plan: Plan) -> Price:
        """What a plan still costs beside what is measured already."""
        done = self.store.measured_horizons()
        return price(plan, done, self.store.rates(slots=self.settings.slots))

    def submit(self, plan: Plan) -> SweepSummary:
        """Queue what is missing of a plan; the same one again adds nothing."""
        return self.store.submit(plan, self.clock())

    def list(self) -> tuple[SweepSummary, ...]:
        """All sweeps, newest first."""
        return self.store.sweeps()

    def show(self, sweep: str) -> SweepSummary:
        """One sweep.

        Raises:
            NotFoundError: If there is none of that name; the same holds below.
            InputError: If the name fits several.
        """
        return self.store.sweep(sweep)

    def spec(self, sweep: str) -> SweepSpec:
        """What was submitted."""
        return self.store.spec(sweep)

    def runs(self, sweep: str) -> tuple[RunSummary, ...]:
        """The runs of a sweep in plan order."""
        return self.store.runs(sweep)

    def run(self, run: str) -> RunSummary:
        """The run of this id, unique label or unique start of an id, of whatever sweep."""
        return named_run(self._every_run(), run)

    def trained_with(self, run: RunSummary, recipe: Recipe) -> RunSummary | None:
        """The run that differs from another in the recipe alone, if there is one."""
        run_id = replace(run.spec, recipe=recipe).run_id
        return next((one for one in self._every_run() if one.run_id == run_id), None)

    def endpoints(self, run_id: str) -> Mapping[int, Endpoint]:
        """All that was measured of a run, by tokens, whichever sweep asked for it."""
        asking = [
            sweep.sweep_id
            for sweep in self.list()
            if any(run.run_id == run_id for run in self.runs(sweep.sweep_id))
        ]
        return {
            point.tokens: point
            for sweep_id in asking
            for record in self.records(sweep_id)
            if record.run_id == run_id
            for point in record.endpoints
        }

    def diagnoses(self, run_id: str) -> tuple[Diagnosis, ...]:
        """What was diagnosed of a run, in the order in which it was trained."""
        return self.store.diagnoses(run_id)

    def recipes(self) -> Mapping[str, Recipe]:
        """The recipes of all runs by name; of two that share one the latest."""
        runs = sorted(self._every_run(), key=lambda run: run.created_at)
        return {run.spec.recipe.name: run.spec.recipe for run in runs}

    def records(self, sweep: str) -> tuple[RunRecord, ...]:
        """The runs of a sweep as data."""
        return self.store.records(sweep)

    def answer(self, sweep: str) -> Answer:
        """Gaps, fits and what they say, from what is measured so far."""
        return answer(self.store.records(sweep))

    def judgements(self, sweep: str) -> tuple[Judgement, ...]:
        """What the runs say so far of each claim of a sweep."""
        return judge(self.store.spec(sweep).claims, self.store.records(sweep))

    def fits_of(self, sweep: str, asked: FitSettings) -> tuple[Fit, ...]:
        """One fit for each recipe of a sweep, from what is measured so far; keeps nothing."""
        return recipe_fits(self.store.records(sweep), asked)

    def keep_fits(self, found: Sequence[Fit], source: str) -> tuple[str, ...]:
        """Keep fits of a sweep or of a file of this name; their ids."""
        return self.store.keep_fits(found, source, self.clock())

    def kept_fits(self) -> tuple[FitSummary, ...]:
        """All kept fits, newest first."""
        return self.store.fits()

    def kept_fit(self, fit: str) -> Fit:
        """The kept fit of this id or unique start of an id."""
        return self.store.fit(fit)

    def progress(self, sweep: str) -> Progress:
        """Where a sweep stands."""
        return self.store.progress(sweep, slots=self.settings.slots)

    def cancel(self, sweep: str) -> SweepSummary:
        """Ask for a sweep to stop; runs that other sweeps want go on."""
        return self.store.wish_cancel(sweep, self.clock())

    def retry(self, sweep: str) -> SweepSummary:
        """Queue what failed or was cancelled in a sweep."""
        return self.store.retry(sweep, self.clock())

    def _every_run(self) -> Iterator[RunSummary]:
        for sweep in self.list():
            yield from self.runs(sweep.sweep_id)
