"""Whether a format may share the irreducible loss E of BF16, or needs one of its own.

    shared    L_fmt = L_bf16(m_N N, m_D D)
    own       L_fmt = L_bf16(m_N N, m_D D) + E_fmt - E

An E of its own says that the gap never closes with scale: a strong claim, which needs both a lower
AICc and a smaller error on the largest size, left out of the fit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sweeps.fits.compare import compare
from sweeps.fits.evidence import Criteria
from sweeps.fits.points import Points
from sweeps.fits.settings import Settings
from sweeps.laws.joint import Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFloor:
    """Whether the format may share the BF16 law's irreducible loss E.

    Attributes:
        aicc_shared: AICc of the joint law with one E; None with too few points for it.
        aicc_own: AICc with an E of the format's own.
        held_out_shared: Relative rms error at the largest size, left out of the fit; None
            where the smaller sizes determine no law.
        held_out_own: The same with an own E.
    """

    aicc_shared: float | None
    aicc_own: float | None
    held_out_shared: float | None
    held_out_own: float | None

    @property
    def own_is_supported(self) -> bool:
        """Whether both say that the gap never closes with scale."""
        if self.aicc_shared is None or self.aicc_own is None:
            return False
        if self.held_out_shared is None or self.held_out_own is None:
            return False
        return self.aicc_own < self.aicc_shared and self.held_out_own < self.held_out_shared


def shared_floor(points: Points, law: str, settings: Settings) -> SharedFloor:
    """Compares the two on the reference and one other arm.

    Args:
        points: Both arms.
        law: Name of the law of BF16, one with an E.
        settings: Of the searches.
    """
    shared, own = (
        _criteria(points, law, settings, effects)
        for effects in ((Effect.N, Effect.D), (Effect.N, Effect.D, Effect.E))
    )
    return SharedFloor(
        aicc_shared=shared.aicc,
        aicc_own=own.aicc,
        held_out_shared=shared.held_out,
        held_out_own=own.held_out,
    )


def _criteria(points: Points, law: str, settings: Settings, effects: Sequence[Effect]) -> Criteria:
    (found,) = compare(points, (law,), replace(settings, effects=tuple(effects)))
    return found
