"""Asymptotic tests: q of data and of the Asimov data at many mu in one batch, and p-values from them.

Cowan, Cranmer, Gross, Vitells, arXiv:1007.1727 (CCGV).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np

from nsmath._typing import Array
from nsmath.errors import FitError, OptionError
from nsmath.fitting.batch import Setup, fit_columns, nominal_start, setup, theta_of, z_index
from nsmath.fitting.information import expected_auxdata
from nsmath.fitting.minimiser import Columns, FitStatus, Tolerances
from nsmath.infer.observed import Observed, observed_fits
from nsmath.infer.pvalues import NSIGMA_ORDER
from nsmath.infer.teststats import TestStatistic
from nsmath.model.rates import rates as model_rates
from nsmath.plan.plan import Plan
from nsmath.summary import Result, Summary, band

logger = logging.getLogger("nsmath.asymptotics")

TOLERANCES = Tolerances(decrement=1e-12, scaled=1e-5)
"""p-values are quoted to more digits than toys have: q is right to 1e-9."""
Q_MISMATCH = 1e-7
ASIMOV_MU = {False: 0.0, True: 1.0}
"""True mu of the Asimov data, by whether the statistic tests mu = 0."""


def upper_tail(z: float) -> float:
    """Return 1 - Phi(z), without cancellation."""
    return 0.5 * math.erfc(z / math.sqrt(2.0))


def asymptotic_distance(statistic: TestStatistic, q: float, q_asimov: float) -> float:
    """Return where an observed ``q`` lies on the -mu_hat / sigma axis, on which background alone is a unit normal at 0.

    CCGV eqs. (57) for q_mu, (65) for q_mu_tilde and (52) for q_0, with sigma = mu / sqrt(q_asimov).
    """
    root, root_asimov = math.sqrt(max(q, 0.0)), math.sqrt(max(q_asimov, 0.0))
    if statistic.is_tilde and root > root_asimov > 0.0:
        return (q - q_asimov) / (2.0 * root_asimov)
    return root - root_asimov


def asymptotic_pvalues(statistic: TestStatistic, q: float, q_asimov: float) -> tuple[float, float]:
    """Return (CLs+b, CLb) of an observed ``q``, with ``q_asimov`` of the other hypothesis' Asimov data.

    CCGV eqs. (59) for q_mu and (66) for q_mu_tilde; for q_0 the first is its p-value, eq. (52).
    """
    distance = asymptotic_distance(statistic, q, q_asimov)
    return upper_tail(distance + math.sqrt(max(q_asimov, 0.0))), upper_tail(distance)


def expected_pvalues(q_asimov: float) -> tuple[list[float], list[float]]:
    """Return CLs+b and CLb at the -2, -1, 0, 1, 2 sigma edges of the expected band, in the order `NSIGMA_ORDER`."""
    root = math.sqrt(max(q_asimov, 0.0))
    return [upper_tail(n + root) for n in NSIGMA_ORDER], [upper_tail(n) for n in NSIGMA_ORDER]


@dataclass(frozen=True, slots=True, repr=False)
class AsymptoticTestResult(Result):
    """The asymptotic test of one mu.

    Attributes
    ----------
    q_obs, q_asimov : test statistic of the data, and of the Asimov data (mu = 0; mu = 1 for ``q0``).
    clsb, clb, cls : p-values and their ratio; for ``q0`` clsb is the p-value p0 of mu = 0, and cls is None.
    expected_clsb, expected_cls : an entry for each of ``nsigma_order``; for ``q0`` expected_cls is None.
    expected_from : ``data``: the Asimov data lie at the conditional fit to the observed data; ``nominal``: at the
        nominal parameters.
    """

    mu_test: float
    mu_hat: float
    q_obs: float
    q_asimov: float
    clsb: float
    clb: float
    cls: float | None
    expected_clsb: tuple[float, ...]
    expected_cls: tuple[float, ...] | None
    expected_from: str
    test_stat: str
    poi: str
    poi_max: float | None
    measurement: str
    interpolation: dict[str, str]
    model_digest: str
    backend: str
    dtype: str
    device: str

    @property
    def nsigma_order(self) -> tuple[int, ...]:
        """Background fluctuations of the expected entries, downward ones first."""
        return NSIGMA_ORDER

    @property
    def z(self) -> float:
        """Significance of clsb in standard deviations."""
        return -NormalDist().inv_cdf(self.clsb) if 0.0 < self.clsb < 1.0 else math.copysign(math.inf, 0.5 - self.clsb)

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        names = [name for name in self.__slots__ if name not in ("expected_clsb", "expected_cls", "expected_from")]
        expected = {
            "expected_from": self.expected_from,
            "nsigma_order": list(NSIGMA_ORDER),
            "clsb": list(self.expected_clsb),
            "cls": None if self.expected_cls is None else list(self.expected_cls),
        }
        return {"calculator": "asymptotic", **{name: getattr(self, name) for name in names}, "expected_set": expected}

    def summary(self) -> Summary:
        """Return best fit, q and p-values, observed and expected."""
        facts = [("best fit", f"{self.mu_hat:.5g}"), ("q observed", f"{self.q_obs:.6g}")]
        if self.cls is None or self.expected_cls is None:
            title = f"{self.poi} = 0, asymptotic ({self.test_stat})"
            facts += [("p0", f"{self.clsb:.4g}"), ("Z", f"{self.z:.4g}")]
            low, less, median, more, high = (f"{p:.4g}" for p in self.expected_clsb)
            facts += [(f"p0 expected for {self.poi} = 1", median)]
            facts += [("within 1 sigma", f"{less} to {more}"), ("within 2 sigma", f"{low} to {high}")]
        else:
            title = f"{self.poi} = {self.mu_test:g}, asymptotic ({self.test_stat})"
            facts += [("CLs+b", f"{self.clsb:.4g}"), ("CLb", f"{self.clb:.4g}"), ("CLs", f"{self.cls:.4g}")]
            facts += band(self.expected_cls)
        return Summary(title, tuple(facts))


class AsymptoticCalculator:
    """Asymptotic tests of one model: the data are fitted freely once, and all mu of a call are columns of one batch.

    Parameters
    ----------
    plan : of the model. statistic : a row of `TEST_STATISTICS`.
    expected_from : where the Asimov data lie, ``data`` or ``nominal``.
    """

    def __init__(self, plan: Plan, statistic: TestStatistic, expected_from: str = "data") -> None:
        self.plan = plan if statistic.poi_above is None else plan.with_poi_above(statistic.poi_above)
        self.statistic, self.expected_from = statistic, expected_from
        self.model = self.plan.model
        self._poi = z_index(self.model, self.model.require_poi())
        self._settings: dict[str, Setup] = {}

    @cached_property
    def observed(self) -> Observed:
        """The free fit to the data, and the conditional ones at 0 and where the Asimov data lie."""
        return observed_fits(self.plan, self.statistic, ASIMOV_MU[self.statistic.tests_null])

    @property
    def mu_hat(self) -> float:
        """Best-fit POI."""
        return self.observed.mu_hat

    @cached_property
    def _asimov(self) -> tuple[Array, Array, Array]:
        """Return start (Z,), main (B,) and auxiliary (A,) Asimov data."""
        model, t = self.model, self.model.tensors
        mu = ASIMOV_MU[self.statistic.tests_null]
        if self.expected_from == "nominal":
            theta = t.init.copy()
            theta[model.require_poi()] = mu
        else:
            theta = self.observed.conditional[mu].theta
        rates = model_rates(model.unprofiled.tensors, theta)[0]
        return theta[t.parameter], np.maximum(rates, 0.0), expected_auxdata(t, theta)

    @cached_property
    def _free_asimov_nll(self) -> float:
        """NLL of the Asimov data at their own truth, which is their best fit, relative to the saturated model."""
        start, data, aux = self._asimov
        _, fixed = nominal_start(self.model)
        setting = setup(self.plan.worker, self.model, start, fixed, data, aux, tolerances=TOLERANCES)
        return float(
            self._checked(fit_columns(self.plan.worker, setting, data[:, None], aux[:, None]), "Asimov data").nll[0]
        )

    def _conditional(self, start: Array, data: Array, aux: Array, mus: Sequence[float], what: str) -> Columns:
        """Return the fits with the POI held at each of ``mus``, from the neighbourhood of ``start`` (Z,)."""
        _, fixed = nominal_start(self.model)
        held = fixed.copy()
        held[self._poi] = True
        if what not in self._settings:
            at = start.copy()
            at[self._poi] = mus[0]
            self._settings[what] = setup(self.plan.worker, self.model, at, held, data, aux, tolerances=TOLERANCES)
        setting = self._settings[what]
        starts = np.repeat(start[:, None], len(mus), axis=1)
        starts[self._poi] = mus
        many = np.ones(len(mus))
        columns = fit_columns(self.plan.worker, setting, np.outer(data, many), np.outer(aux, many), starts)
        return self._checked(columns, what)

    def _checked(self, columns: Columns, what: str) -> Columns:
        bad = np.flatnonzero(columns.status != FitStatus.CONVERGED)
        if len(bad):
            status = FitStatus(int(columns.status[bad[0]]))
            raise FitError(f"{len(bad)} of {len(columns.nll)} fits to the {what} failed: {status.message}.")
        return columns

    def q_values(self, mus: Sequence[float]) -> tuple[Array, Array]:
        """Return q of the data and of the Asimov data at each of ``mus``.

        Raises
        ------
        FitError
            A fit does not converge.
        """
        t = self.model.tensors
        tested = [self.statistic.tested_mu(mu) for mu in mus]
        free = self.observed.free
        data = self._conditional(free.z, t.observed, t.aux_observed, tested, "observed data")
        if (data.nll < free.nll - Q_MISMATCH).any():
            # The free fit sat in a local minimum: begin it anew from the lowest conditional one.
            lowest = float(tested[int(np.argmin(data.nll))])
            self.observed = observed_fits(self.plan, self.statistic, lowest, self.observed)
            free = self.observed.free
        start, main, aux = self._asimov
        asimov = self._conditional(start, main, aux, tested, "Asimov data")
        truth = ASIMOV_MU[self.statistic.tests_null]
        q, q_asimov = np.empty(len(mus)), np.empty(len(mus))
        for k, mu in enumerate(mus):
            one = (slice(k, k + 1),)
            q[k] = self.statistic.q(np.array([free.z[self._poi]]), np.array([free.nll]), data.nll[one], mu)[0]
            q_asimov[k] = self.statistic.q(np.array([truth]), np.array([self._free_asimov_nll]), asimov.nll[one], mu)[0]
        return q, q_asimov

    def at(self, mus: Sequence[float]) -> list[AsymptoticTestResult]:
        """Return the tests of ``mus``, in their order; see `q_values` for errors."""
        if not len(mus):
            return []
        return [self._result(mu, *values) for mu, *values in zip(map(float, mus), *self.q_values(mus), strict=True)]

    def _result(self, mu: float, q: float, q_asimov: float) -> AsymptoticTestResult:
        clsb, clb = asymptotic_pvalues(self.statistic, q, q_asimov)
        expected_clsb, expected_clb = expected_pvalues(q_asimov)
        is_limit = not self.statistic.tests_null
        return AsymptoticTestResult(
            mu_test=mu, mu_hat=self.mu_hat, q_obs=float(q), q_asimov=float(q_asimov), clsb=clsb, clb=clb,
            cls=clsb / clb if is_limit else None,
            expected_clsb=tuple(expected_clsb),
            expected_cls=tuple(s / b for s, b in zip(expected_clsb, expected_clb, strict=True)) if is_limit else None,
            expected_from=self.expected_from, test_stat=self.statistic.name, poi=self.model.poi,
            poi_max=self.model.poi_max, measurement=self.model.measurement, interpolation=self.model.interp.to_dict(),
            model_digest=self.plan.model.digest, **self.plan.origin,
        )  # fmt: skip


def checked_expected(expected_from: str) -> None:
    """Check where expected results are to come from.

    Raises
    ------
    OptionError
        Neither ``data`` nor ``nominal``.
    """
    if expected_from not in ("data", "nominal"):
        raise OptionError(f"expected_from is {expected_from!r}; expected one of data, nominal.")


def fitted_values(calculator: AsymptoticCalculator, columns: Columns) -> Array:
    """Return all parameters of conditional fits, (N, P)."""
    return theta_of(calculator.model, columns)
