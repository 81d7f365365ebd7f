"""pyhf's calculators: test statistics, their distributions, p-values; results of nsmath in pyhf's conventions."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from nsmath._typing import AnyArray, Array
from nsmath.cli.output import progress
from nsmath.errors import FitError, OptionError
from nsmath.fitting.fit import fit
from nsmath.fitting.information import expected_auxdata
from nsmath.infer.asymptotic_api import asymptotic_calculator
from nsmath.infer.asymptotic_limit import AsymptoticLimitResult, limits_by_asymptotics
from nsmath.infer.asymptotics import ASIMOV_MU, AsymptoticTestResult, asymptotic_distance, upper_tail
from nsmath.infer.calculator import ToyCalculator as NsmathToyCalculator
from nsmath.infer.hypotest import checked_options, opened_calculator
from nsmath.infer.observed import checked_mu
from nsmath.infer.pvalues import NSIGMA_ORDER
from nsmath.infer.result import ToyTestResult, untrusted
from nsmath.infer.teststats import Q_TIE, TestStatistic, test_statistic
from nsmath.infer.toy_limit import ToyLimitResult, limits_by_toys
from nsmath.model.model import Model
from nsmath.model.rates import rates
from nsmath.pyhf.infer.mle import converged
from nsmath.pyhf.problem import Problem, PyhfModel, checked_poi, problem

__all__ = [
    "AsymptoticCalculator",
    "AsymptoticTestStatDistribution",
    "EmpiricalDistribution",
    "HypoTestFitResults",
    "ToyCalculator",
]

logger = logging.getLogger("nsmath.pyhf")

BASE_DISTRIBUTIONS = ("normal", "clipped_normal")
PERCENTILES = (2.27501319, 15.86552539, 50.0, 84.13447461, 97.72498681)
"""Normal probabilities of -2 to 2 standard deviations in per cent, to the digits that pyhf writes them with."""
_upper_tail = np.frompyfunc(upper_tail, 1, 1)

Band = list[list[AnyArray]]
PValues = tuple[AnyArray, AnyArray, AnyArray]


@dataclass(frozen=True, slots=True)
class AsymptoticTestStatDistribution:
    """A unit normal at ``shift`` in units of -mu_hat / sigma; values below ``cutoff`` do not occur."""

    shift: float
    cutoff: float = -np.inf

    def cdf(self, value: ArrayLike) -> AnyArray:
        """Return the probability of at most ``value``."""
        return np.asarray(_upper_tail(self.shift - np.asarray(value, dtype=float)), dtype=float)

    def pvalue(self, value: ArrayLike) -> AnyArray:
        """Return the probability of at least ``value``; NaN below the cutoff."""
        at = np.asarray(value, dtype=float)
        return np.where(at >= self.cutoff, np.asarray(_upper_tail(at - self.shift), dtype=float), np.nan)

    def expected_value(self, nsigma: ArrayLike) -> AnyArray:
        """Return the value ``nsigma`` above the mean, but no less than the cutoff."""
        return np.asarray(np.maximum(self.shift + np.asarray(nsigma, dtype=float), self.cutoff))


@dataclass(frozen=True, slots=True)
class EmpiricalDistribution:
    """Test statistics of toys, ``samples`` (N,); those that differ by less than `Q_TIE` count as equal."""

    samples: Array

    def pvalue(self, value: ArrayLike) -> AnyArray:
        """Return the share of toys with at least ``value``."""
        below = np.searchsorted(np.sort(self.samples), np.asarray(value, dtype=float) - Q_TIE, side="left")
        return np.asarray(1.0 - below / len(self.samples))

    def expected_value(self, nsigma: ArrayLike) -> AnyArray:
        """Return the quantile of ``nsigma`` standard deviations, interpolated between toys."""
        below = 1.0 - np.asarray(_upper_tail(np.asarray(nsigma, dtype=float)), dtype=float)
        return np.asarray(np.percentile(self.samples, 100.0 * below))


@dataclass(frozen=True, slots=True)
class HypoTestFitResults:
    """Best fits (P,) of an asymptotic test, in pyhf's order; see `AsymptoticCalculator.fitted_pars`."""

    asimov_pars: Array
    free_fit_to_data: Array
    free_fit_to_asimov: Array
    fixed_poi_fit_to_data: Array
    fixed_poi_fit_to_asimov: Array


def _posed(
    data: ArrayLike, pdf: PyhfModel, init_pars: ArrayLike | None, par_bounds: ArrayLike | None,
    fixed_params: ArrayLike | None, test_stat: str,
) -> tuple[Problem, TestStatistic]:  # fmt: skip
    """Return the problem of a hypothesis test, and the statistic that pyhf computes under that name.

    Raises
    ------
    OptionError
        Unknown statistic; no POI, or one that is fixed.
    """
    statistic = test_statistic(test_stat)
    checked_poi(pdf)
    posed = problem(data, pdf, init_pars, par_bounds, fixed_params)
    poi = posed.model.parameters[posed.model.require_poi()]
    checked_mu(posed.model, ASIMOV_MU[statistic.tests_null])
    if statistic.poi_above is not None and poi.lower < statistic.poi_above:
        logger.warning(
            "test_stat is %r, but %r may go down to %g. As in pyhf its best fit is not bounded at 0 then: this is q_mu "
            "with the p-values of q_mu_tilde. Pass test_stat='q', or par_bounds that begin at 0 for it.",
            statistic.name, poi.name, poi.lower,
        )  # fmt: skip
        statistic = replace(statistic, poi_above=None)
    return posed, statistic


def _checked_null(statistic: TestStatistic, poi_test: float) -> float:
    """Return the tested value; `OptionError` where the statistic tests 0 and another was given."""
    value = float(np.asarray(poi_test))
    if statistic.tests_null and value != 0.0:
        raise OptionError(f"test_stat {statistic.name!r} tests 0, but poi_test is {value:g}. Pass 0.")
    return value


class AsymptoticCalculator:
    """Asymptotic tests of a pyhf model, as ``pyhf.infer.calculators.AsymptoticCalculator``.

    Parameters
    ----------
    data, pdf, init_pars, par_bounds, fixed_params : as for `nsmath.pyhf.infer.mle.fit`.
    test_stat : ``qtilde``, ``q`` or ``q0``.
    calc_base_dist : ``normal``, or ``clipped_normal``: expected values are cut off where mu_hat would exceed mu.

    Raises
    ------
    OptionError
        Unknown names; see also `problem`.
    """

    def __init__(
        self, data: ArrayLike, pdf: PyhfModel, init_pars: ArrayLike | None = None, par_bounds: ArrayLike | None = None,
        fixed_params: ArrayLike | None = None, test_stat: str = "qtilde", calc_base_dist: str = "normal",
    ) -> None:  # fmt: skip
        if calc_base_dist not in BASE_DISTRIBUTIONS:
            raise OptionError(f"calc_base_dist is {calc_base_dist!r}; expected one of {', '.join(BASE_DISTRIBUTIONS)}.")
        self.calc_base_dist = calc_base_dist
        self.problem, self.statistic = _posed(data, pdf, init_pars, par_bounds, fixed_params, test_stat)
        self._tests: dict[float, AsymptoticTestResult] = {}
        self._last: float | None = None

    def prepare(self, values: Iterable[float]) -> None:
        """Test all ``values`` of the POI, in one batch of fits."""
        new = sorted({_checked_null(self.statistic, value) for value in values} - self._tests.keys())
        for value in new:
            checked_mu(self.problem.model, value)
        if new:
            with asymptotic_calculator(self.problem.model, self.statistic, "data", None) as calculator:
                self._tests |= {result.mu_test: result for result in calculator.at(new)}

    def limits(self, level: float) -> AsymptoticLimitResult:
        """Return the limits at CLs = ``level``; the values that were tested for them are kept."""
        with asymptotic_calculator(self.problem.model, self.statistic, "data", None) as calculator:
            found = limits_by_asymptotics(calculator, cl=1.0 - level)
        self._tests |= {point.mu_test: point for point in found.points}
        return found

    def test(self, poi_test: float) -> AsymptoticTestResult:
        """Return the test of one value as nsmath has it."""
        value = _checked_null(self.statistic, poi_test)
        self.prepare([value])
        self._last = value
        return self._tests[value]

    def teststatistic(self, poi_test: float) -> AnyArray:
        """Return the observed test statistic on the -mu_hat / sigma axis, where background alone is normal at 0."""
        result = self.test(poi_test)
        return np.asarray(asymptotic_distance(self.statistic, result.q_obs, result.q_asimov))

    def distributions(self, poi_test: float) -> tuple[AsymptoticTestStatDistribution, AsymptoticTestStatDistribution]:
        """Return the distributions with signal and of background alone."""
        root = float(np.sqrt(self.test(poi_test).q_asimov))
        cutoff = -root if self.calc_base_dist == "clipped_normal" else -np.inf
        return AsymptoticTestStatDistribution(-root, cutoff), AsymptoticTestStatDistribution(0.0, cutoff)

    def pvalues(
        self, teststat: ArrayLike, sig_plus_bkg_distribution: AsymptoticTestStatDistribution,
        bkg_only_distribution: AsymptoticTestStatDistribution,
    ) -> PValues:  # fmt: skip
        """Return CLs+b, CLb and CLs."""
        clsb, clb = sig_plus_bkg_distribution.pvalue(teststat), bkg_only_distribution.pvalue(teststat)
        return clsb, clb, np.asarray(clsb / clb)

    def expected_pvalues(
        self, sig_plus_bkg_distribution: AsymptoticTestStatDistribution,
        bkg_only_distribution: AsymptoticTestStatDistribution,
    ) -> Band:  # fmt: skip
        """Return CLs+b, CLb and CLs, five each, of background that fluctuates by -2 to 2 standard deviations."""
        at = [bkg_only_distribution.expected_value(n) for n in NSIGMA_ORDER]
        rows = [self.pvalues(value, sig_plus_bkg_distribution, bkg_only_distribution) for value in at]
        return [list(column) for column in zip(*rows, strict=True)]

    @property
    def fitted_pars(self) -> HypoTestFitResults | None:
        """The five fits behind the last test; None before the first.

        Raises
        ------
        FitError
            One of them does not converge.
        """
        if self._last is None:
            return None
        model, poi, tested = self.problem.model, self.problem.model.poi, self._last

        def best(of: Model, mu: float | None) -> Array:
            return converged(fit(of, fixed=None if mu is None else {poi: mu})).values

        asimov = best(model, ASIMOV_MU[self.statistic.tests_null])
        expected = np.maximum(rates(model.unprofiled.tensors, asimov)[0], 0.0)
        there = model.with_data(expected, expected_auxdata(model.tensors, asimov))
        fits = (asimov, best(model, None), best(there, None), best(model, tested), best(there, tested))
        return HypoTestFitResults(*(self.problem.parameters(theta) for theta in fits))


class ToyCalculator:
    """Tests of a pyhf model by toys, as ``pyhf.infer.calculators.ToyCalculator``.

    Parameters
    ----------
    data, pdf, init_pars, par_bounds, fixed_params, test_stat : as for `AsymptoticCalculator`.
    ntoys : toys of each of the two hypotheses.
    track_progress : draw a bar, where stderr is a terminal.
    seed : toys depend on it and on nothing else; NumPy's global generator, which pyhf uses, is left alone.
    threads : all cores if not given.

    Raises
    ------
    OptionError
        Unknown names, numbers out of range; see also `problem`.
    """

    def __init__(
        self, data: ArrayLike, pdf: PyhfModel, init_pars: ArrayLike | None = None, par_bounds: ArrayLike | None = None,
        fixed_params: ArrayLike | None = None, test_stat: str = "qtilde", ntoys: int = 2000,
        track_progress: bool = True, *, seed: int = 0, threads: int | None = None,
    ) -> None:  # fmt: skip
        self.problem, self.statistic = _posed(data, pdf, init_pars, par_bounds, fixed_params, test_stat)
        checked_options(self.problem.model, mu=0.0, n_toys=ntoys, seed=seed, test_stat=test_stat, aux="random")
        self.ntoys, self.seed, self.threads, self.track_progress = int(ntoys), seed, threads, track_progress
        self._tests: dict[float, ToyTestResult] = {}

    def prepare(self, values: Iterable[float]) -> None:
        """Throw the toys of all ``values`` of the POI; the toys of background alone are the same for all."""
        new = sorted({_checked_null(self.statistic, value) for value in values} - self._tests.keys())
        if not new:
            return
        for value in new:
            checked_mu(self.problem.model, value)
        with self._opened() as calculator:
            for value in new:
                # Where 0 is tested, pyhf's other hypothesis is 1.
                mu = ASIMOV_MU[True] if self.statistic.tests_null else value
                self._tests[value] = _trusted(calculator.at(mu, self.ntoys))

    def limits(self, level: float) -> ToyLimitResult:
        """Return the limits at CLs = ``level``; the tests that were made for them are kept."""
        with self._opened() as calculator:
            found = limits_by_toys(calculator, self.ntoys, cl=1.0 - level)
        self._tests |= {point.mu_test: _trusted(point) for point in found.points}
        return found

    @contextmanager
    def _opened(self) -> Iterator[NsmathToyCalculator]:
        with progress(not self.track_progress) as shown, opened_calculator(
            self.problem.model, self.statistic, seed=self.seed, aux="random", store=None, engine=None,
            threads=self.threads, plan=None, progress=shown,
        ) as calculator:  # fmt: skip
            yield calculator

    def test(self, poi_test: float) -> ToyTestResult:
        """Return the test of one value as nsmath has it, with statistical errors."""
        value = _checked_null(self.statistic, poi_test)
        self.prepare([value])
        return self._tests[value]

    def teststatistic(self, poi_test: float) -> AnyArray:
        """Return the observed q."""
        return np.asarray(self.test(poi_test).q_obs)

    def distributions(
        self, poi_test: float, track_progress: bool | None = None
    ) -> tuple[EmpiricalDistribution, EmpiricalDistribution]:
        """Return the distributions with signal and of background alone; for ``q0`` those of 0 and of 1."""
        if track_progress is not None:
            self.track_progress = track_progress
        toys = self.test(poi_test).ensembles
        tested, other = ("b", "sb") if self.statistic.tests_null else ("sb", "b")
        first, second = (EmpiricalDistribution(toys[name].q[~toys[name].failed]) for name in (tested, other))
        return first, second

    def pvalues(
        self, teststat: ArrayLike, sig_plus_bkg_distribution: EmpiricalDistribution,
        bkg_only_distribution: EmpiricalDistribution,
    ) -> PValues:  # fmt: skip
        """Return CLs+b, CLb and CLs, which is NaN where no toy of background alone is in the tail."""
        clsb, clb = sig_plus_bkg_distribution.pvalue(teststat), bkg_only_distribution.pvalue(teststat)
        with np.errstate(divide="ignore", invalid="ignore"):
            return clsb, clb, np.asarray(np.where(clb > 0.0, clsb / clb, np.nan))

    def expected_pvalues(
        self, sig_plus_bkg_distribution: EmpiricalDistribution, bkg_only_distribution: EmpiricalDistribution
    ) -> Band:
        """Return CLs+b, CLb and CLs, five each: quantiles of what the toys of background alone would give."""
        rows = self.pvalues(bkg_only_distribution.samples, sig_plus_bkg_distribution, bkg_only_distribution)
        return [[np.asarray(x) for x in np.percentile(row, PERCENTILES)] for row in rows]


def _trusted(result: ToyTestResult) -> ToyTestResult:
    """Return a test of which few toys failed, as it is; a warning says how many.

    Raises
    ------
    FitError
        More failed than its p-values can bear.
    """
    problem_text = untrusted(result)
    if problem_text is not None:
        raise FitError(problem_text)
    failed = {name: toys.n_failed for name, toys in result.ensembles.items() if toys.n_failed}
    if failed:
        logger.warning("toys that failed and are left out, by ensemble: %s", failed)
    return result
