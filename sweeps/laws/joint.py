"""One law for several arms: each arm has its own effective size, data or floor, the rest is shared.

    L_arm(N, D) = L(m_N N, m_D D) + sum_f w_f (E_f - E)
    ln m_N      = sum_f w_f (ln eff_N_f + ln eff_C_f)
    ln m_D      = sum_f w_f (ln eff_D_f + ln eff_C_f)
    theta       = (theta of the base, ln eff or E of each effect in turn)

    factor f    what was done to a run (a format, or a part of it such as `forward`)
    w_f         weight of the factor in the arm: 0 or 1; with all 0 the arm is the reference

Effects of several factors in one arm multiply. eff_N N parameters, or eff_D D tokens, are what the
reference needs for the loss of the arm; eff_C multiplies both, so that compute is multiplied by its
square. A floor E_f of its own says that the gap never closes with scale. The base may be held at
constants found before, so that effects alone are fitted.

Sources: Kumar et al. 2024 (arXiv 2411.04330) for effective size; Castro et al. 2025 (Quartet, arXiv
2505.14669) for eff_N of what is done forward beside eff_D of what is done backward.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from sweeps.errors import InputError
from sweeps.laws.law import Array, At, Bounds, Law

MULTIPLIER_BOUNDS = (1e-3, 1e2)
FIRST_MULTIPLIER = 0.7
"""Where the searches begin that let one axis carry the gap."""


class Effect(StrEnum):
    """What a factor changes in the law of the reference."""

    N = "N"  # multiplies the parameters
    D = "D"  # multiplies the tokens
    C = "C"  # multiplies both by one number
    E = "E"  # has an irreducible loss of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One effect of one factor.

    Attributes:
        factor: Its name.
        effect: What it changes.
        weights: Of the factor in each arm, 0 or 1.
    """

    factor: str
    effect: Effect
    weights: tuple[float, ...]

    @property
    def name(self) -> str:
        """`eff_N[ufp4]`, or `E[ufp4]` for a floor."""
        symbol = "E" if self.effect is Effect.E else f"eff_{self.effect}"
        return f"{symbol}[{self.factor}]"


def by_arm(arms: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Each arm but the first, which is the reference, as a factor of its own."""
    return by_factor(arms, {arm: [arm] for arm in arms[1:]})


def by_factor(
    arms: Sequence[str], factors: Mapping[str, Collection[str]]
) -> dict[str, tuple[float, ...]]:
    """Factors by the arms that they are part of, in the order of the arms.

    Raises:
        InputError: If an arm does not exist.
    """
    for factor, members in factors.items():
        for unknown in sorted(set(members) - set(arms)):
            raise InputError(f"{factor}: there is no arm {unknown}, only {', '.join(arms)}")
    return {
        factor: tuple(float(arm in members) for arm in arms) for factor, members in factors.items()
    }


def joint(
    base: Law,
    factors: Mapping[str, Sequence[float]],
    effects: Sequence[Effect] | Mapping[str, Sequence[Effect]] = (Effect.N, Effect.D),
    *,
    held: Sequence[float] | None = None,
) -> "Joint":
    """A joint law.

    Args:
        base: The law of the reference, about the centre of the data.
        factors: Weight of each factor in each arm, in the order of the arms: `by_arm`, `by_factor`.
        effects: Of every factor, or of each by its name.
        held: theta of the base, where it is not to be fitted.

    Raises:
        InputError: If a factor has both eff_C and another multiplier, which cannot be told apart,
            if two floors meet in one arm, or if the base has no floor to replace.
    """
    of = effects if isinstance(effects, Mapping) else dict.fromkeys(factors, effects)
    for factor in factors:
        if Effect.C in of[factor] and {Effect.N, Effect.D} <= set(of[factor]):
            raise InputError(f"{factor}: eff_C cannot be told from eff_N and eff_D together")
    changes = tuple(
        Change(factor=factor, effect=effect, weights=tuple(weights))
        for factor, weights in factors.items()
        for effect in of[factor]
    )
    floors = np.array([each.weights for each in changes if each.effect is Effect.E])
    if len(floors) and base.parameters[0] != "E":
        raise InputError(f"the law {base.name} has no E, so that an arm cannot have its own")
    if len(floors) and floors.sum(axis=0).max() > 1:
        raise InputError("an arm can have one E of its own, not the sum of two")
    return Joint(base=base, changes=changes, held=None if held is None else tuple(held))


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint:
    """A base law with the changes that factors make to it; made by `joint`."""

    base: Law
    changes: tuple[Change, ...]
    held: tuple[float, ...] | None = None

    @property
    def name(self) -> str:
        """That of the base, said to be joint."""
        return f"joint {self.base.name}"

    @property
    def formula(self) -> str:
        """The base's, with what each effect does."""
        marks = dict.fromkeys(each.effect for each in self.changes)
        parts = [
            {
                Effect.N: "N -> eff_N N",
                Effect.D: "D -> eff_D D",
                Effect.C: "N, D -> eff_C N, eff_C D",
                Effect.E: "E its own",
            }[mark]
            for mark in marks
        ]
        return f"{self.base.formula}; in each arm {', '.join(parts)}"

    @property
    def parameters(self) -> tuple[str, ...]:
        """Constants of the base, then one for each change."""
        return (*self.base.parameters, *(each.name for each in self.changes))

    @property
    def x0(self) -> float:
        """Centre of ln N."""
        return self.base.x0

    @property
    def y0(self) -> float:
        """Centre of ln D."""
        return self.base.y0

    @property
    def shape(self) -> tuple[str, ...]:
        """Those of the base and every change."""
        return (*self.base.shape, *(each.name for each in self.changes))

    def log_loss(self, theta: Array, where: At) -> Array:
        """Logarithm of L, shape (..., n)."""
        own, moved = self._moved(theta, where)
        found = self.base.log_loss(own, moved)
        if self._has(Effect.E):
            found = np.log(np.exp(found) + self._floor(theta, where))
        return found

    def jacobian(self, theta: Array, where: At) -> Array:
        """Derivatives of ln L by theta, shape (..., n, p)."""
        own, moved = self._moved(theta, where)
        of_base = np.swapaxes(self.base.jacobian(own, moved), -1, -2)
        by_N, by_D = self.base.slopes(own, moved)
        columns = np.empty((*of_base.shape[:-2], theta.shape[-1], of_base.shape[-1]))
        columns[..., : own.shape[-1], :] = of_base
        for place, each in enumerate(self.changes, start=own.shape[-1]):
            weights = np.array(each.weights)[where.arm]
            match each.effect:
                case Effect.N:
                    columns[..., place, :] = weights * by_N
                case Effect.D:
                    columns[..., place, :] = weights * by_D
                case Effect.C:
                    columns[..., place, :] = weights * (by_N + by_D)
                case Effect.E:
                    columns[..., place, :] = weights
        if self._has(Effect.E):
            self._with_floors(columns, self.base.log_loss(own, moved), theta, where)
        return np.swapaxes(columns, -1, -2)

    def slopes(self, theta: Array, where: At) -> tuple[Array, Array]:
        """Derivatives of ln L by ln N and by ln D, each of shape (..., n)."""
        own, moved = self._moved(theta, where)
        by_N, by_D = self.base.slopes(own, moved)
        if self._has(Effect.E):
            excess = np.exp(self.base.log_loss(own, moved))
            share = excess / (excess + self._floor(theta, where))
            return by_N * share, by_D * share
        return by_N, by_D

    def constants(self, theta: Array) -> Array:
        """Constants of the base, then each multiplier or floor; shape (..., p)."""
        own, effects = self._split(theta)
        multiplies = np.array([each.effect is not Effect.E for each in self.changes], dtype=bool)
        values = np.where(multiplies, np.exp(np.where(multiplies, effects, 0.0)), effects)
        return np.concatenate([self.base.constants(own), values], axis=-1)

    def bounds(self, where: At, loss: Array) -> Bounds:
        """Those of the base, or its held values, and those of the multipliers and floors."""
        own = self.base.bounds(where, loss)
        if self.held is not None:
            own = Bounds(lower=np.array(self.held), upper=np.array(self.held))
        low, high = np.log(MULTIPLIER_BOUNDS)
        floors = [each.effect is Effect.E for each in self.changes]
        lower = [0.0 if floor else low for floor in floors]
        upper = [float(loss.max()) if floor else high for floor in floors]
        return Bounds(
            lower=np.concatenate([own.lower, lower]), upper=np.concatenate([own.upper, upper])
        )

    def starts(self, where: At, loss: Array) -> Array:
        """Those of the base on the reference, each with no gap, a gap in N and a gap in D.

        The base starts from all rows where the reference has too few cells to start from.
        """
        own = self._base_starts(where, loss)
        found = []
        for carrier in ({Effect.C}, {Effect.N}, {Effect.D}):
            first = [
                np.log(FIRST_MULTIPLIER) * (each.effect in carrier) * (each.effect is not Effect.E)
                for each in self.changes
            ]
            effects = np.tile(first, (len(own), 1))
            for column, each in enumerate(self.changes):
                if each.effect is Effect.E:
                    effects[:, column] = own[:, 0]
            found.append(np.concatenate([own, effects], axis=1))
        return np.unique(np.concatenate(found), axis=0)

    def _base_starts(self, where: At, loss: Array) -> Array:
        if self.held is not None:
            return np.array([self.held])
        changed = np.any([each.weights for each in self.changes], axis=0)[where.arm]
        mine = ~changed
        cells = len(set(zip(where.N[mine].tolist(), where.D[mine].tolist(), strict=True)))
        if cells <= len(self.base.parameters):
            mine[:] = True
        reference = At(N=where.N[mine], D=where.D[mine], arm=where.arm[mine])
        return self.base.starts(reference, loss[mine])

    def _has(self, effect: Effect) -> bool:
        return any(each.effect is effect for each in self.changes)

    def _split(self, theta: Array) -> tuple[Array, Array]:
        count = theta.shape[-1] - len(self.changes)
        return theta[..., :count], theta[..., count:]

    def _moved(self, theta: Array, where: At) -> tuple[Array, At]:
        """The base's theta, and the places that the arms have in the reference."""
        own, effects = self._split(theta)
        N = where.N * np.exp(self._sum(effects, {Effect.N, Effect.C}))[..., where.arm]
        D = where.D * np.exp(self._sum(effects, {Effect.D, Effect.C}))[..., where.arm]
        return own, At(N=N, D=D, arm=where.arm)

    def _sum(self, effects: Array, kinds: set[Effect]) -> Array:
        """Sum of the effects of these kinds in each arm, shape (..., arms)."""
        table = [np.array(each.weights) * (each.effect in kinds) for each in self.changes]
        value: Array = effects @ np.array(table)
        return value

    def _floor(self, theta: Array, where: At) -> Array:
        """What the floors of its own add to each row, shape (..., n)."""
        own, effects = self._split(theta)
        added = self._sum(effects - own[..., :1], {Effect.E})
        return added[..., where.arm]

    def _with_floors(self, columns: Array, base: Array, theta: Array, where: At) -> None:
        """Turns derivatives of ln L without floors into those with them, in place."""
        floors = [place for place, each in enumerate(self.changes) if each.effect is Effect.E]
        first = columns.shape[-2] - len(self.changes)
        places = [first + place for place in floors]
        without = np.exp(base)
        total = without + self._floor(theta, where)
        kept = np.setdiff1d(np.arange(columns.shape[-2]), places)
        columns[..., kept, :] *= (without / total)[..., None, :]
        columns[..., places, :] /= total[..., None, :]
        columns[..., 0, :] -= columns[..., places, :].sum(axis=-2)
