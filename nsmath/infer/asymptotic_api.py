"""`hypotest`, `upper_limit`, `significance`: the asymptotic results as functions of a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import overload

from nsmath.errors import ModelError
from nsmath.infer.asymptotic_limit import AsymptoticLimitResult, limits_by_asymptotics
from nsmath.infer.asymptotics import AsymptoticCalculator, AsymptoticTestResult, checked_expected
from nsmath.infer.observed import checked_mu
from nsmath.infer.teststats import TestStatistic, test_statistic
from nsmath.infer.toy_limit import checked_level, checked_statistic
from nsmath.model.model import Model
from nsmath.plan.plan import Plan

SINGLE_FIT_WIDTH = 64
"""Columns of the plan that is made for one call."""


@contextmanager
def asymptotic_calculator(
    model: Model, test_stat: str | TestStatistic, expected_from: str, plan: Plan | None
) -> Iterator[AsymptoticCalculator]:
    """Yield a calculator on ``plan``, or on one that is made for it; ``test_stat`` is a name, or the statistic itself.

    Raises
    ------
    OptionError, ModelError
        Unknown statistic or choice; a plan of another model.
    """
    statistic = test_statistic(test_stat) if isinstance(test_stat, str) else test_stat
    checked_expected(expected_from)
    if plan is not None:
        if plan.model.digest != model.digest:
            raise ModelError("the plan was made for another model; make one with Plan(model).")
        yield AsymptoticCalculator(plan, statistic, expected_from)
        return
    with Plan(model, threads=1, tune=False, width=SINGLE_FIT_WIDTH) as own:
        yield AsymptoticCalculator(own, statistic, expected_from)


@overload
def hypotest(
    model: Model, mu: float, *, test_stat: str = ..., expected_from: str = ..., plan: Plan | None = ...
) -> AsymptoticTestResult: ...
@overload
def hypotest(
    model: Model, mu: Sequence[float], *, test_stat: str = ..., expected_from: str = ..., plan: Plan | None = ...
) -> list[AsymptoticTestResult]: ...
def hypotest(
    model: Model, mu: float | Sequence[float] = 1.0, *, test_stat: str = "qtilde", expected_from: str = "data",
    plan: Plan | None = None,
) -> AsymptoticTestResult | list[AsymptoticTestResult]:  # fmt: skip
    """Return the asymptotic test of ``mu``, or of each of several, which are fitted in one batch.

    Parameters
    ----------
    test_stat : ``qtilde``, ``q``, or ``q0``, which tests mu = 0 whatever ``mu`` is.
    expected_from : ``data``: the Asimov data lie at the conditional fit to the observed data; ``nominal``: at the
        nominal parameters.
    plan : a plan of this model; one is made for the call when None.

    Raises
    ------
    OptionError, ModelError, FitError
        Bad options, no POI, a mu outside its bounds, a fit that does not converge.
    """
    single = not isinstance(mu, Sequence) and not hasattr(mu, "__len__")
    values: list[float] = [float(mu)] if single else [float(x) for x in mu]  # type: ignore[arg-type, union-attr]
    for value in values:
        checked_mu(model, value)
    with asymptotic_calculator(model, test_stat, expected_from, plan) as calculator:
        results = calculator.at(values)
    return results[0] if single else results


def upper_limit(
    model: Model, *, cl: float = 0.95, test_stat: str = "qtilde", expected_from: str = "data",
    scan: Iterable[float] = (), plan: Plan | None = None,
) -> AsymptoticLimitResult:  # fmt: skip
    """Return the asymptotic upper limits on the POI: observed, and the five expected.

    Parameters as for `hypotest`; ``scan`` are further mu to test, for the shape of the curves.

    Raises
    ------
    OptionError, ModelError, FitError
        As for `hypotest`; a statistic that sets no limits, a confidence level outside (0.5, 1).
    """
    checked_level(cl)
    checked_statistic(test_statistic(test_stat))
    wanted = [float(mu) for mu in scan]
    for mu in (0.0, *wanted):
        checked_mu(model, mu)
    with asymptotic_calculator(model, test_stat, expected_from, plan) as calculator:
        return limits_by_asymptotics(calculator, cl=cl, scan=wanted)


def significance(model: Model, *, expected_from: str = "data", plan: Plan | None = None) -> AsymptoticTestResult:
    """Return the test of mu = 0 with q0: p-value ``clsb``, significance ``z``, and those expected for mu = 1.

    Raises
    ------
    OptionError, ModelError, FitError
        As for `hypotest`.
    """
    return hypotest(model, 1.0, test_stat="q0", expected_from=expected_from, plan=plan)
