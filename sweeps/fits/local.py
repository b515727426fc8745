"""Fits by least squares with Student t: what a design too small for a law still says in its range.

    local power      ln L = ln L0 - a (ln N - ln N0) - b (ln D - ln D0)
    ladder           ln L = ln L0 - c (ln C - ln C0)                       where D/N is one

What is independent, and so how wide the intervals are, is decided in `lines`. Outside the range of
the data nothing is said.
"""

from dataclasses import replace

import numpy as np

from sweeps.fits.identifiability import Design
from sweeps.fits.lines import Cells, Lines, cells_of, least_squares, means, split_plane
from sweeps.fits.outliers import robust_noise
from sweeps.fits.points import Points
from sweeps.fits.result import Estimate, Fit, Method, Samples, Solution, Status
from sweeps.intervals import t_half_width
from sweeps.laws.ladder import Ladder
from sweeps.laws.law import At, Law
from sweeps.laws.local_power import LocalPower
from sweeps.wording import listed, plural


def fit_local(bare: Fit, points: Points, design: Design, asked: Law) -> Fit:
    """Fits the local power law; the design must have at least 5 cells, rank 3, no obstacle."""
    cells = cells_of(points)
    law = LocalPower.about(cells.where)
    if cells.n_units == len(cells.mean):
        lines = least_squares(law, cells.where, cells.mean, bare.settings)
        basis = f"from {plural(design.n_cells, 'cell')}"
    else:
        lines = split_plane(law, cells, bare.settings)
        basis = (
            f"from {plural(design.n_cells, 'cell')} of {plural(cells.n_units, 'model size')}; "
            "token counts of one run share its trunk, so L0 and a are judged between the sizes "
            f"({lines.df[0]:.3g} and {lines.df[1]:.3g} degrees of freedom) and b over their "
            f"slopes ({lines.df[2]:.3g})"
        )
    why = "; ".join(design.reasons)
    estimates = _estimates(law, lines)
    place = f"N0 = {np.exp(law.x0):.3g}, D0 = {np.exp(law.y0):.3g}"
    return replace(
        bare,
        status=Status.INSIDE_ONLY,
        estimates=(*refused(asked, why), *estimates) if why else estimates,
        verdict=(
            *_missing(asked, why),
            f"{law.formula} about {place}: {_told(estimates)}, 95 % t intervals {basis}.",
            "It predicts inside the data range alone; nothing is said beyond it.",
            *(
                f"With two {what} nothing checks the power law between them."
                for what, levels in (("sizes", design.n_sizes), ("token counts", design.n_tokens))
                if levels == 2
            ),
        ),
        solution=_solution(law, points, cells, lines),
    )


def fit_ladder(bare: Fit, points: Points, design: Design, asked: Law) -> Fit:
    """Fits a power of C along one ratio D/N, to the means of what is independent."""
    cells = cells_of(points)
    where = At(
        N=np.exp(means(cells.unit, np.log(cells.where.N))),
        D=np.exp(means(cells.unit, np.log(cells.where.D))),
        arm=np.zeros(cells.n_units, dtype=np.intp),
    )
    law = Ladder.about(where)
    lines = least_squares(law, where, means(cells.unit, cells.mean), bare.settings)
    why = "; ".join(design.reasons)
    estimates = _estimates(law, lines)
    C0 = np.exp(law.x0 + law.y0 + np.log(6))
    return replace(
        bare,
        status=Status.INSIDE_ONLY,
        estimates=(*refused(asked, why), *estimates) if why else estimates,
        verdict=(
            *_missing(asked, why),
            f"Along this ladder, D/N about {np.exp(law.y0 - law.x0):.3g}, {law.formula} about "
            f"C0 = {C0:.3g}: {_told(estimates)}, 95 % t intervals from "
            f"{plural(cells.n_units, 'cell')}.",
            "It predicts on the ladder between its ends alone; of another ratio D/N, of a floor "
            "and of effective parameters or data nothing is said.",
        ),
        solution=_solution(law, points, cells, lines),
    )


def refused(law: Law, reason: str) -> tuple[Estimate, ...]:
    """The constants of a law, none of them identified."""
    return tuple(Estimate(name=name, reason=reason) for name in law.parameters)


def _missing(asked: Law, why: str) -> tuple[str, ...]:
    """What is refused; nothing where this law was asked for by name."""
    return (f"{listed(asked.parameters)} are not identified: {why}.",) if why else ()


def _solution(law: Law, points: Points, cells: Cells, lines: Lines) -> Solution:
    residuals = law.log_loss(lines.theta, cells.where) - cells.mean
    of_rows = law.log_loss(lines.theta, points.where) - np.log(points.loss)
    singular = np.linalg.svd(law.jacobian(lines.theta, cells.where), compute_uv=False)
    return Solution(
        law=law,
        theta=tuple(lines.theta.tolist()),
        samples=Samples.of(lines.draws),
        covariance=tuple(tuple(row) for row in lines.covariance.tolist()),
        method=Method.STUDENT_T,
        delta=None,
        objective=float(residuals @ residuals) / 2,
        rms=float(np.sqrt(np.mean(residuals**2))),
        noise=robust_noise(of_rows, len(lines.theta)),
        degrees=max(1, int(lines.df.min())),
        gradient=0.0,
        condition=float(singular[0] / singular[-1]),
    )


def _estimates(law: Law, lines: Lines) -> tuple[Estimate, ...]:
    half = np.array(
        [
            t_half_width(float(np.sqrt(v)), df)
            for v, df in zip(np.diag(lines.covariance), lines.df, strict=True)
        ]
    )
    ends = np.stack([lines.theta, lines.theta - half, lines.theta + half])
    values, lows, highs = law.constants(ends).tolist()
    return tuple(
        Estimate(name=name, value=value, low=low, high=high, identified=True)
        for name, value, low, high in zip(law.parameters, values, lows, highs, strict=True)
    )


def _told(estimates: tuple[Estimate, ...]) -> str:
    """`L0 = 2.5000 (2.4000 to 2.6000) nats per token, a = ...`."""
    return ", ".join(
        f"{one.name} = {one.value:.4f} ({one.low:.4f} to {one.high:.4f})"
        + (" nats per token" if one.name == "L0" else "")
        for one in estimates
    )
