"""`limits_by_asymptotics`: upper limits from asymptotic CLs, all six curves in one batch of fits a round."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from nsmath.errors import FitError
from nsmath.infer.asymptotics import AsymptoticCalculator, AsymptoticTestResult
from nsmath.infer.limit_curve import FAR, Crossing, limit_summary
from nsmath.infer.pvalues import NSIGMA_ORDER
from nsmath.infer.toy_limit import OBSERVED, gaussian_limits, smallest_mu
from nsmath.summary import Result, Summary

logger = logging.getLogger("nsmath.asymptotics")

MU_TOLERANCE = 1e-7
"""Relative; ends the search where CLs cannot be told from the level any more."""
CLS_TOLERANCE = 1e-8
MAX_ROUNDS = 60
CURVES: tuple[str | int, ...] = (OBSERVED, *NSIGMA_ORDER)


@dataclass(frozen=True, slots=True, repr=False)
class AsymptoticLimitResult(Result):
    """Upper limits at confidence level ``cl``.

    Attributes
    ----------
    observed, expected : crossings, without statistical errors; expected ones for each of ``nsigma_order``.
    at_limit : the test at the observed limit; None where that lies beyond ``mu_max``.
    points : the tests of all mu that were looked at, or asked for, by mu.
    """

    cl: float
    observed: Crossing
    expected: tuple[Crossing, ...]
    at_limit: AsymptoticTestResult | None
    points: tuple[AsymptoticTestResult, ...]
    mu_max: float

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        first, at = self.points[0], self.at_limit
        shared = (
            "mu_hat",
            "test_stat",
            "expected_from",
            "poi",
            "poi_max",
            "measurement",
            "interpolation",
            "model_digest",
            "backend",
            "dtype",
            "device",
        )
        own = ("mu_test", "q_obs", "q_asimov", "clsb", "clb", "cls", "expected_set")
        return {
            "calculator": "asymptotic",
            "cl": self.cl,
            "observed": self.observed.mu,
            "observed_error": None,
            "observed_beyond": self.observed.beyond,
            "cls_at_observed": None if at is None else {"mu": at.mu_test, "cls": at.cls, "cls_error": None},
            "expected": {
                "nsigma_order": list(NSIGMA_ORDER),
                "limit": [crossing.mu for crossing in self.expected],
                "error": [None for _ in self.expected],
                "beyond": [crossing.beyond for crossing in self.expected],
            },
            "mu_max": self.mu_max,
            "points": [{name: point.to_dict()[name] for name in own} for point in self.points],
            **{name: getattr(first, name) for name in shared},
        }  # fmt: skip

    def summary(self) -> Summary:
        """Return the limits, observed and expected."""
        first = self.points[0]
        n_mu = len(self.points)
        return limit_summary(first.poi, "asymptotic", self.cl, self.observed, self.expected, first.mu_hat, n_mu)


class _Search:
    """One curve's root of ln(CLs / level), which falls with mu: a bracket, and secant steps inside it."""

    def __init__(
        self, curve: Callable[[AsymptoticTestResult], float], level: float, start: float, ends: tuple[float, float]
    ) -> None:
        self._curve, self._level = curve, level
        lowest, self._mu_max = ends
        # CLs is 1 at mu = 0.
        self.low, self._at_low = 0.0, -math.log(level)
        self.high: float | None = None
        self._at_high = 0.0
        self.next: float | None = min(max(start, lowest), self._mu_max)
        self.beyond: float | None = None

    def take(self, tests: Iterable[AsymptoticTestResult]) -> None:
        """Learn from tests at any mu, and set ``next``: where to look, or None when the root is known."""
        values: dict[float, float] = {}
        best: list[tuple[float, float]] = []
        for test in tests:
            value = math.log(max(self._curve(test), 1e-300) / self._level)
            best = sorted([*best, (abs(value), test.mu_test)])[:2]
            values[test.mu_test] = value
            if value >= 0.0 and test.mu_test >= self.low:
                self.low, self._at_low = test.mu_test, value
            elif value < 0.0 and (self.high is None or test.mu_test <= self.high):
                self.high, self._at_high = test.mu_test, value
        if self.high is None:
            self.beyond = self.low if self.low >= self._mu_max else None
            self.next = None if self.beyond is not None else min(self.low * FAR, self._mu_max)
            return
        near = min(abs(self._at_low), abs(self._at_high)) < CLS_TOLERANCE
        if near or self.high - self.low <= MU_TOLERANCE * self.high:
            self.next = None
            return
        share = self._at_low / (self._at_low - self._at_high)
        self.next = self.low + min(max(share, 0.01), 0.99) * (self.high - self.low)
        if len(best) == 2:
            # The secant of the two best points converges faster than the bracket, where it stays inside.
            (_, a), (_, b) = best
            if values[a] != values[b]:
                at = a - values[a] * (b - a) / (values[b] - values[a])
                self.next = at if self.low < at < self.high else self.next

    @property
    def root(self) -> float:
        """The root, where the search has ended inside its bracket."""
        assert self.high is not None
        return self.low if abs(self._at_low) <= abs(self._at_high) else self.high


def limits_by_asymptotics(
    calculator: AsymptoticCalculator, *, cl: float = 0.95, scan: Iterable[float] = ()
) -> AsymptoticLimitResult:
    """Return the upper limits: the roots of CLs = 1 - ``cl``, observed and expected.

    Every round tests one mu for each curve that is still open, all in one batch, and every curve learns from all.

    Parameters
    ----------
    scan : further mu to test, for the shape of the curves.

    Raises
    ------
    FitError
        A fit does not converge, or CLs does not fall.
    """
    level = 1.0 - cl
    model = calculator.model
    mu_max = model.parameters[model.require_poi()].upper
    starts = gaussian_limits(calculator.plan, calculator.mu_hat, level)
    ends = smallest_mu(starts, mu_max), mu_max
    searches = {which: _Search(_curve(which), level, starts[which], ends) for which in CURVES}
    tests: dict[float, AsymptoticTestResult] = {}
    wanted = sorted({*(float(mu) for mu in scan), *(s.next for s in searches.values() if s.next is not None)})
    for _ in range(MAX_ROUNDS):
        for test in calculator.at([mu for mu in wanted if mu not in tests]):
            tests[test.mu_test] = test
        for search in searches.values():
            search.take(tests.values())
        wanted = sorted({search.next for search in searches.values() if search.next is not None})
        if not wanted:
            break
    else:
        raise FitError(
            f"CLs does not cross {level:g} after tests at {len(tests)} values of {model.poi}; look at a scan of it."
        )
    crossings = {
        which: Crossing(None, None, search.beyond) if search.beyond is not None else Crossing(search.root, None)
        for which, search in searches.items()
    }
    observed = crossings[OBSERVED]
    points = tuple(tests[mu] for mu in sorted(tests))
    at_limit = None if observed.mu is None else tests[observed.mu]
    return AsymptoticLimitResult(cl, observed, tuple(crossings[n] for n in NSIGMA_ORDER), at_limit, points, mu_max)


def _curve(which: str | int) -> Callable[[AsymptoticTestResult], float]:
    if which == OBSERVED:
        return lambda test: test.cls or 0.0
    at = NSIGMA_ORDER.index(int(which))
    return lambda test: (test.expected_cls or NSIGMA_ORDER)[at]
