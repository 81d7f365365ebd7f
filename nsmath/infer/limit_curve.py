"""Where a falling curve of CLs, known at a few mu with errors, crosses 1 - CL; and where to look next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nsmath.summary import Summary, band, with_error

WINDOW = 5.0
"""Points whose CLs is within this factor of the level shape the curve around the crossing."""
CLOSE = 0.02
"""A point this near to the crossing, relatively, shows CLs there."""
FAR = 1.7
"""Beyond the last point that is not excluded, the search goes on in steps of this factor."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """CLs at one mu: ``value`` None for an empty tail, ``error`` None for a full one."""

    mu: float
    value: float | None
    error: float | None

    def is_below(self, level: float) -> bool:
        """Return whether mu is excluded; an empty tail is."""
        return self.value is None or self.value < level


@dataclass(frozen=True, slots=True)
class Crossing:
    """A crossing: ``mu`` with its statistical ``error``; ``mu`` None where the curve stays above up to ``beyond``."""

    mu: float | None
    error: float | None
    beyond: float | None = None

    def __str__(self) -> str:
        return f"> {self.beyond:g}" if self.mu is None else with_error(self.mu, self.error)


def limit_summary(
    poi: str, calculator: str, cl: float, observed: Crossing, expected: Sequence[Crossing], best_fit: float, n_mu: int
) -> Summary:
    """Return the summary of observed and expected limits."""
    names = [label for label, _ in band([crossing.mu for crossing in expected])]
    facts = [("observed", str(observed)), *zip(names, map(str, expected), strict=True)]
    facts += [("best fit", f"{best_fit:.5g}"), ("values tested", str(n_mu))]
    return Summary(f"upper limits on {poi} at {cl:.6g} CL, {calculator}", tuple(facts))


def bracket(points: Sequence[CurvePoint], level: float) -> tuple[float, float | None]:
    """Return the last mu that is not excluded before the first that is, and that one; CLs is 1 at mu = 0.

    A curve with errors may cross more than once: the last crossing counts, so that a limit is never too low.
    """
    ordered = sorted(points, key=lambda point: point.mu)
    low = max((point.mu for point in ordered if not point.is_below(level)), default=0.0)
    return low, min((point.mu for point in ordered if point.mu > low), default=None)


def crossing(points: Sequence[CurvePoint], level: float) -> tuple[float, float | None]:
    """Return the crossing inside the bracket and its statistical error; no error while one end says too little.

    ln CLs is fitted around it by a parabola in mu (a line through fewer than four points), points weighted by their
    errors. Toys at neighbouring mu are the same draws, so their fluctuations move the whole curve up or down
    together: more points do not average them out, and the error is that of the nearest point over the slope.
    """
    low, high = bracket(points, level)
    assert high is not None
    usable = [
        (p.mu, math.log(p.value / level), p.error / p.value)
        for p in sorted(points, key=lambda p: abs(p.mu - 0.5 * (low + high)))
        if p.value and p.error and level / WINDOW <= p.value <= level * WINDOW
    ][:6]
    if len(usable) < 2:
        return _middle(points, low, high, level), None
    x, y, sigma = np.array(usable).T
    # A parabola may bend the wrong way between points with errors; a line falls.
    for degree in (2, 1) if len(usable) >= 4 else (1,):
        curve = np.polynomial.Polynomial.fit(x, y, degree, w=1.0 / sigma)
        for root in np.atleast_1d(curve.roots()):
            slope = float(curve.deriv()(root.real))
            if abs(root.imag) < 1e-12 and low <= root.real <= high and slope < 0.0:
                return float(root.real), float(sigma[np.argmin(np.abs(x - root.real))]) / -slope
    slope = float(np.polynomial.Polynomial.fit(x, y, 1, w=1.0 / sigma).deriv()(x[0]))
    if not slope < 0.0:
        return 0.5 * (low + high), None
    return float(np.clip(x[0] - y[0] / slope, low, high)), float(sigma[0]) / -slope


def _middle(points: Sequence[CurvePoint], low: float, high: float, level: float) -> float:
    """Return where ln CLs, as a line between the bracket's ends, crosses; the middle where an end is empty."""
    by_mu = {point.mu: point for point in points}
    top = by_mu[low].value if low in by_mu else 1.0
    bottom = by_mu[high].value
    if not top or not bottom:
        return 0.5 * (low + high)
    share = math.log(top / level) / math.log(top / bottom)
    return low + min(max(share, 0.1), 0.9) * (high - low)


def next_mu(points: Sequence[CurvePoint], level: float, mu_max: float) -> float | None:
    """Return where to evaluate next to know the crossing; None when it is known, or lies beyond ``mu_max``."""
    low, high = bracket(points, level)
    if high is None:
        return None if low >= mu_max else min(low * FAR, mu_max)
    at, error = crossing(points, level)
    if error is None:
        # Not yet two points near the level.
        return at
    tolerance = max(CLOSE * at, 0.5 * error)
    return None if any(abs(point.mu - at) <= tolerance for point in points if point.value) else at


def found(points: Sequence[CurvePoint], level: float) -> Crossing:
    """Return the crossing of a finished search."""
    low, high = bracket(points, level)
    if high is None:
        return Crossing(None, None, low)
    at, error = crossing(points, level)
    # An error as large as the limit says that the points do not tell the slope: a staircase, between its steps.
    return Crossing(at, error if error is not None and error < at else None)
