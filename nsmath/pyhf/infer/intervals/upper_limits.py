"""``upper_limit`` and ``linear_grid_scan`` with pyhf's signatures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nsmath._typing import AnyArray, Array
from nsmath.errors import FitError, OptionError
from nsmath.infer.limit_curve import Crossing
from nsmath.infer.pvalues import NSIGMA_ORDER
from nsmath.infer.toy_limit import checked_level, checked_statistic
from nsmath.pyhf.infer.choice import calculator, outcome
from nsmath.pyhf.problem import PyhfModel, numbers

__all__ = ["linear_grid_scan", "upper_limit"]

CURVES = ("observed", *(f"expected at {n:+d} sigma" for n in reversed(NSIGMA_ORDER)))


def upper_limit(
    data: ArrayLike, model: PyhfModel, scan: ArrayLike | None = None, level: float = 0.05, return_results: bool = False,
    **hypotest_kwargs: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """Return upper limits on the parameter of interest as ``pyhf.infer.intervals.upper_limits.upper_limit`` does.

    Parameters
    ----------
    scan : values between which CLs is interpolated, see `linear_grid_scan`. None: the crossings themselves, found to
        1e-7; with ``calctype="toybased"`` from toys at as many values as they need.
    level : CLs at the limit, below 0.5.
    return_results : append (values, results of `hypotest` with the expected set).
    hypotest_kwargs : options of `hypotest`: init_pars, par_bounds, fixed_params, calctype, and of the calculators.

    Returns
    -------
    observed limit, an array without dimensions; list of the five expected ones, -2 to 2 sigma.

    Raises
    ------
    FitError
        CLs stays above ``level`` up to the upper bound of the parameter, or no fit converges.
    NsmathError
        See `hypotest`.
    """
    if scan is not None:
        return linear_grid_scan(data, model, scan, level, return_results, **hypotest_kwargs)
    used = _calculator(data, model, level, hypotest_kwargs)
    found = used.limits(level)
    poi = used.problem.model.poi
    limits = [_known(found.observed, CURVES[0], poi, level)]
    limits += [_known(crossing, what, poi, level) for crossing, what in zip(found.expected, CURVES[1:], strict=True)]
    values = [point.mu_test for point in found.points]
    return _returned(limits, (values, _results(used, values)) if return_results else None)


def linear_grid_scan(
    data: ArrayLike, model: PyhfModel, scan: ArrayLike, level: float = 0.05, return_results: bool = False,
    **hypotest_kwargs: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """Return upper limits from CLs at the values of ``scan``, interpolated linearly; the rest as `upper_limit`.

    All values are fitted in one batch.

    Raises
    ------
    OptionError
        A curve of CLs does not cross ``level`` between the values of ``scan``, or more than once. (pyhf takes the first
        or the last value of the scan then, without a word.)
    NsmathError
        See `hypotest`.
    """
    used = _calculator(data, model, level, hypotest_kwargs)
    values = numbers("scan", scan, max(2, np.size(np.asarray(scan))), "two values at least")
    used.prepare(values.tolist())
    results = _results(used, values)
    order = np.argsort(values)
    curves = np.array([[float(observed), *map(float, expected)] for observed, expected in results])[order].T
    limits = [_crossing(values[order], cls, level, what) for cls, what in zip(curves, CURVES, strict=True)]
    return _returned(limits, (scan, results) if return_results else None)


def _calculator(data: ArrayLike, model: PyhfModel, level: float, options: dict[str, Any]) -> Any:
    """Return the calculator of the options, which must be those of one that sets limits."""
    given = dict(options)
    used = calculator(given.pop("calctype", "asymptotics"), data, model, **given)
    checked_statistic(used.statistic)
    if not 0.0 < level < 0.5:
        raise OptionError(f"level is {level:g}; expected a number between 0 and 0.5, such as 0.05.")
    checked_level(1.0 - level)
    return used


def _results(used: Any, values: Sequence[float] | Array) -> list[tuple[AnyArray, list[AnyArray]]]:
    found = (outcome(used, float(value)) for value in values)
    return [(observed, expected) for observed, _, expected in found]


def _returned(limits: list[float], results: Any) -> tuple[Any, ...]:
    arrays = [np.asarray(limit) for limit in limits]
    return (arrays[0], arrays[1:]) if results is None else (arrays[0], arrays[1:], results)


def _known(crossing: Crossing, what: str, poi: str, level: float) -> float:
    if crossing.mu is None:
        raise FitError(
            f"the {what} limit lies beyond {poi} = {crossing.beyond:g}: CLs stays above {level:g} up to there, the "
            "upper bound. Pass par_bounds that reach further."
        )
    return crossing.mu


def _crossing(mus: Array, cls: Array, level: float, what: str) -> float:
    """Return where the line through the two points around the only crossing is at ``level``."""
    crossings = np.flatnonzero(np.diff(cls >= level))
    at = crossings[0] if len(crossings) else 0
    if len(crossings) != 1 or not cls[at + 1] < level:
        raise OptionError(
            f"CLs ({what}) goes from {cls[0]:.3g} to {cls[-1]:.3g} in the scan from {mus[0]:g} to {mus[-1]:g} and "
            f"crosses {level:g} {len(crossings)} times; expected once, downwards. Change the scan, or leave it away."
        )
    share = (cls[at] - level) / (cls[at] - cls[at + 1])
    return float(mus[at] + share * (mus[at + 1] - mus[at]))
