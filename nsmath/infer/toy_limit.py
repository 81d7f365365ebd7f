"""`limits_by_toys`: upper limits on the POI by toys, observed and expected, with their statistical errors."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from nsmath.errors import FitError, OptionError
from nsmath.fitting.batch import nominal_start, setup, z_index
from nsmath.infer.calculator import ToyCalculator
from nsmath.infer.limit_curve import Crossing, CurvePoint, found, limit_summary, next_mu
from nsmath.infer.pvalues import NSIGMA_ORDER
from nsmath.infer.result import ToyTestResult
from nsmath.infer.teststats import TestStatistic
from nsmath.plan.plan import Plan
from nsmath.summary import Result, Summary, with_error

logger = logging.getLogger("nsmath.toys")

MAX_POINTS = 60
OBSERVED = "observed"
CURVES: tuple[str | int, ...] = (OBSERVED, *NSIGMA_ORDER)


@dataclass(frozen=True, slots=True, repr=False)
class ToyLimitResult(Result):
    """Upper limits at confidence level ``cl``.

    Attributes
    ----------
    observed, expected : crossings of the observed CLs, and of the CLs expected for each of ``nsigma_order``.
    points : the tests of every mu that was looked at, by mu.
    at_limit : the test at the mu that is nearest to the observed limit; None where that lies beyond all.
    """

    cl: float
    observed: Crossing
    expected: tuple[Crossing, ...]
    points: tuple[ToyTestResult, ...]
    mu_max: float

    @property
    def at_limit(self) -> ToyTestResult | None:
        """The test at the mu nearest to the observed limit."""
        limit = self.observed.mu
        return None if limit is None else min(self.points, key=lambda point: abs(point.mu_test - limit))

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        first = self.points[0].to_dict()
        shared = ("seed", "test_stat", "aux", "poi", "poi_max", "measurement", "interpolation", "model_digest",
                  "versions", "backend", "dtype", "device", "threads", "tile_width", "mu_hat")  # fmt: skip
        own = ("mu_test", "q_obs", "clsb", "clb", "cls", "clsb_error", "clb_error", "cls_error", "cls_upper",
               "expected_set", "n_toys", "n_nonconverged", "n_error", "cls_bracket")  # fmt: skip
        nearest = self.at_limit
        return {
            "calculator": "toys",
            "cl": self.cl,
            "observed": self.observed.mu,
            "observed_error": self.observed.error,
            "observed_beyond": self.observed.beyond,
            "cls_at_observed": None if nearest is None else {
                "mu": nearest.mu_test, "cls": nearest.cls, "cls_error": nearest.cls_error,
            },
            "expected": {
                "nsigma_order": list(NSIGMA_ORDER),
                "limit": [crossing.mu for crossing in self.expected],
                "error": [crossing.error for crossing in self.expected],
                "beyond": [crossing.beyond for crossing in self.expected],
            },
            "mu_max": self.mu_max,
            "points": [{name: point.to_dict()[name] for name in own} for point in self.points],
            **{name: first[name] for name in shared},
        }  # fmt: skip

    def summary(self) -> Summary:
        """Return the limits, observed and expected."""
        first = self.points[0]
        n_mu = len(self.points)
        return limit_summary(first.poi, "toys", self.cl, self.observed, self.expected, first.mu_hat, n_mu)


def curve(points: Iterable[ToyTestResult], which: str | int) -> list[CurvePoint]:
    """Return the CLs curve of ``observed`` or of one entry of the expected band."""
    result = []
    for point in points:
        if which == OBSERVED:
            result.append(CurvePoint(point.mu_test, point.cls, point.cls_error))
        elif point.expected_set is not None:
            at = NSIGMA_ORDER.index(int(which))
            result.append(CurvePoint(point.mu_test, point.expected_set.cls[at], point.expected_set.cls_error[at]))
    return result


def gaussian_limits(plan: Plan, mu_hat: float, level: float) -> dict[str | int, float]:
    """Return the limits that a Gaussian mu_hat would give, to begin with, by curve.

    mu_hat + sigma Phi^-1(1 - level Phi(mu_hat / sigma)) (arXiv:1007.1727, eqs. 65 to 69, with sigma from the Fisher
    information at the nominal point).
    """
    normal = NormalDist()
    model = plan.model
    t = model.tensors
    start, fixed = nominal_start(model)
    poi = z_index(model, model.require_poi())
    matrix = setup(plan.worker, model, start, fixed, t.observed, t.aux_observed).matrix
    sigma = float(np.sqrt(matrix[poi, poi]))
    centres: dict[str | int, float] = {OBSERVED: mu_hat / sigma, **{n: -float(n) for n in NSIGMA_ORDER}}
    return {
        which: sigma * (centre + normal.inv_cdf(1.0 - level * min(max(normal.cdf(centre), 1e-12), 1.0)))
        for which, centre in centres.items()
    }


def smallest_mu(starts: Mapping[str | int, float], mu_max: float) -> float:
    """Return the smallest mu that a search looks at: far below its estimates, and above 0, where CLs is 1.

    It does not grow with the bound ``mu_max``, which may be as wide as one likes.
    """
    return 1e-6 * min(max(starts.values()), mu_max)


def checked_level(cl: float) -> None:
    """Check a confidence level.

    Raises
    ------
    OptionError
        It is not between 0.5 and 1.
    """
    if not 0.5 < cl < 1.0:
        raise OptionError(f"confidence level is {cl:g}; expected a number between 0.5 and 1, such as 0.95.")


def checked_statistic(statistic: TestStatistic) -> None:
    """Check that a test statistic sets limits.

    Raises
    ------
    OptionError
        It tests mu = 0.
    """
    if statistic.tests_null:
        raise OptionError(f"test statistic {statistic.name!r} tests mu = 0 and sets no limit; use qtilde or q.")


def limits_by_toys(
    calculator: ToyCalculator, n_toys: int, *, cl: float = 0.95, max_points: int = MAX_POINTS
) -> ToyLimitResult:
    """Return the upper limits, from toys at as many mu as the six curves need, ``n_toys`` of each ensemble at each.

    The search begins at the Gaussian estimates, brackets every crossing, and ends with a test close to each.

    Raises
    ------
    OptionError
        A test statistic that sets no limits; a confidence level outside (0.5, 1).
    FitError
        An observed fit does not converge; ``max_points`` do not suffice.
    """
    checked_statistic(calculator.statistic)
    checked_level(cl)
    level = 1.0 - cl
    model = calculator.plan.model
    mu_max = model.parameters[model.require_poi()].upper
    tests: dict[float, ToyTestResult] = {}
    starts = gaussian_limits(calculator.plan, calculator.mu_hat, level)
    ends = smallest_mu(starts, mu_max), mu_max
    todo = _distinct(starts.values(), [], ends)
    while todo:
        for mu in todo:
            tests[mu] = calculator.at(mu, n_toys, expected=True)
            logger.info("limit: CLs of %g is %s", mu, with_error(tests[mu].cls, tests[mu].cls_error))
        wanted = [next_mu(curve(tests.values(), which), level, mu_max) for which in CURVES]
        todo = _distinct([mu for mu in wanted if mu is not None], tests, ends)
        if todo and len(tests) + len(todo) > max_points:
            raise FitError(
                f"the limit is not known after toys at {len(tests)} values of {model.poi}, from {min(tests):g} to "
                f"{max(tests):g}: CLs may not fall steadily. Look at the points with hypotest-toys."
            )
    points = tuple(tests[mu] for mu in sorted(tests))
    crossings = {which: found(curve(points, which), level) for which in CURVES}
    return ToyLimitResult(cl, crossings[OBSERVED], tuple(crossings[n] for n in NSIGMA_ORDER), points, mu_max)


def _distinct(wanted: Iterable[float], there: Iterable[float], ends: tuple[float, float]) -> list[float]:
    """Return the mu to evaluate: four digits, between ``ends``, none of them twice or next to another."""
    known = list(there)
    lowest, highest = ends
    result: list[float] = []
    for mu in sorted(wanted):
        rounded = min(float(f"{max(mu, lowest):.4g}"), highest)
        if rounded not in known and not any(abs(rounded - other) < 0.01 * rounded for other in result):
            result.append(rounded)
    return result
