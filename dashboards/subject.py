"""Subject: whose number it is; what every mark of every figure carries."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernels.recipes import Recipe
from sweeps.records import RunRecord

SUBJECT_COLUMNS = ("run_id", "run", "model", "N_non_embedding", "recipe", "seed")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Model:
    """A model shape by size: sorts by N."""

    N: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The run, as far as a reader of a figure needs to know it.

    Attributes:
        run_id: Its identity.
        label: What tables call it.
        model: Shape by name and non-embedding parameters.
        recipe: Name of the recipe.
        seed: The `init` seed stream, as in the label.
    """

    run_id: str
    label: str
    model: Model
    recipe: str
    seed: int

    @classmethod
    def of(cls, record: RunRecord) -> "Subject":
        """Of one record."""
        return cls(
            run_id=record.run_id,
            label=record.spec.label,
            model=model_of(record),
            recipe=record.spec.recipe.name,
            seed=record.spec.seeds.init,
        )

    @property
    def row(self) -> tuple[str, str, str, int, str, int]:
        """In the order of `SUBJECT_COLUMNS`."""
        return self.run_id, self.label, self.model.name, self.model.N, self.recipe, self.seed


def model_of(record: RunRecord) -> Model:
    """Shape of a record."""
    return Model(N=record.N, name=record.spec.model.name)


def models_of(records: Iterable[RunRecord]) -> tuple[Model, ...]:
    """Every model once, smallest first."""
    return tuple(sorted({model_of(record) for record in records}))


def recipes_of(records: Sequence[RunRecord]) -> tuple[Recipe, ...]:
    """Every recipe name once, BF16 first, then in the order of the records."""
    named = {record.spec.recipe.name: record.spec.recipe for record in records}
    return tuple(sorted(named.values(), key=lambda recipe: not recipe.is_bf16))
