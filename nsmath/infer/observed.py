"""Phase A of a toy test: fits to the observed data, and the Asimov fits that the toys start from."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np

from nsmath._typing import Array, BoolArray
from nsmath.errors import FitError, OptionError
from nsmath.fitting.batch import best_fit, nominal_start, z_index
from nsmath.fitting.information import evaluated_point, full_theta
from nsmath.fitting.minimiser import FitStatus, Tolerances
from nsmath.infer.sampling import HYPOTHESES, ToySampler
from nsmath.infer.teststats import TestStatistic
from nsmath.infer.toys import ToyStudy, toy_study
from nsmath.model.model import Model
from nsmath.model.rates import rates as model_rates
from nsmath.plan.plan import Plan, Worker

logger = logging.getLogger("nsmath.toys")

FREE = "the free fit to the observed data"


@dataclass(frozen=True, slots=True)
class Fitted:
    """One fit of phase A: ``z`` (Z,), ``theta`` (P,), saturated ``nll``, iterations."""

    z: Array
    theta: Array
    nll: float
    n_iterations: int


@dataclass(frozen=True, slots=True)
class Observed:
    """The observed fits: free, and with the POI at each truth of the toys so far (0, and every tested mu)."""

    free: Fitted
    conditional: dict[float, Fitted]
    mu_hat: float

    def q(self, statistic: TestStatistic, mu: float) -> float:
        """Return the observed test statistic at ``mu``, which must be among the conditional fits."""
        nll = self.conditional[statistic.tested_mu(mu)].nll
        return float(statistic.q(np.array([self.mu_hat]), np.array([self.free.nll]), np.array([nll]), mu)[0])


def checked_mu(model: Model, mu: float) -> None:
    """Check that ``mu`` and 0 can be tested.

    Raises
    ------
    ModelError, OptionError
        No POI, a POI that is fixed, or a value outside its bounds.
    """
    parameter = model.parameters[model.require_poi()]
    if parameter.is_fixed:
        raise OptionError(
            f"the parameter of interest {parameter.name!r} is fixed at {parameter.init:g} in measurement "
            f"{model.measurement!r}, so nothing can be tested. Remove 'fixed' from its configuration."
        )
    for value in (float(mu), 0.0):
        if not parameter.lower <= value <= parameter.upper:
            raise OptionError(
                f"mu = {value:g} is outside the bounds [{parameter.lower:g}, {parameter.upper:g}] of "
                f"{parameter.name!r} in measurement {model.measurement!r}. Test a value inside, or widen the bounds"
                + (" (poi_max, --poi-max)." if value > parameter.upper else " in its configuration.")
            )


def _fitted(plan: Plan, start: Array, mask: BoolArray, data: Array, aux: Array, what: str) -> Fitted:
    """Return one fit in float64, whatever the plan's precision: toys thrown from it are then the same anywhere."""
    model = plan.model
    columns = best_fit(plan.exact.worker, model, start, mask, data, aux, Tolerances())
    status = FitStatus(int(columns.status[0]))
    if status != FitStatus.CONVERGED:
        raise FitError(f"{what} failed: {status.message}. `nsmath fit` shows more; look at the templates and bounds.")
    theta = full_theta(model.tensors, columns.z, columns.gammas)[:, 0]
    return Fitted(columns.z[:, 0].copy(), theta, float(columns.nll[0]), int(columns.n_iterations[0]))


def observed_fits(plan: Plan, statistic: TestStatistic, mu: float, known: Observed | None = None) -> Observed:
    """Return the free fit and the conditional fits at 0 and at ``mu``; those in ``known`` are not made again.

    Raises
    ------
    FitError
        One of them did not converge.
    """
    model = plan.model
    t = model.tensors
    poi = z_index(model, model.require_poi())
    start, mask = nominal_start(model)
    if known is None:
        free, conditional = _fitted(plan, start, mask, t.observed, t.aux_observed, FREE), {}
    else:
        free, conditional = known.free, dict(known.conditional)
    held = mask.copy()
    held[poi] = True
    for value in sorted({0.0, statistic.tested_mu(mu), mu} - conditional.keys()):
        at = free.z.copy()
        at[poi] = value
        what = f"the fit to the observed data with {model.poi} = {value:g}"
        conditional[value] = _fitted(plan, at, held, t.observed, t.aux_observed, what)
    # The free fit allows what the conditional ones do: whichever is lowest is the start of a better free fit.
    best = min(conditional.values(), key=lambda fitted: fitted.nll)
    if best.nll < free.nll - 1e-7:
        again = _fitted(plan, best.z, mask, t.observed, t.aux_observed, FREE)
        if known is not None and again.nll < free.nll:
            logger.warning(
                "a lower minimum of the free fit was found at mu = %g: q of the values tested before was too small by "
                "%.3g", mu, 2.0 * (free.nll - again.nll),
            )  # fmt: skip
        free = min(free, again, key=lambda fitted: fitted.nll)
    return Observed(free, conditional, float(free.z[poi]))


def studies(
    plan: Plan, observed: Observed, statistic: TestStatistic, mu: float, *, seed: int, fluctuates: bool,
    nominal: bool = False,
) -> dict[str, ToyStudy]:  # fmt: skip
    """Return the ensembles' studies: ``b`` at POI 0 and ``sb`` at POI mu, both at the conditional fits to the data.

    With ``nominal`` also ``b_nominal`` and ``sb_nominal``, at the nominal values of all other parameters.
    """
    model = plan.model
    t = model.tensors
    poi = z_index(model, model.require_poi())
    _, held = nominal_start(model)
    held[poi] = True
    tested = statistic.tested_mu(mu)

    exact = plan.exact

    def study(_: Worker, task: tuple[str, float]) -> tuple[str, ToyStudy]:
        name, value = task
        if name.endswith("nominal"):
            theta = t.init.copy()
            theta[model.require_poi()] = value
            z, rates = theta[t.parameter], model_rates(model.unprofiled.tensors, theta)[0]
        else:
            z = observed.conditional[value].z
            theta, rates = evaluated_point(exact.worker.robust, t, z, t.observed, t.aux_observed, held)
        sampler = ToySampler.at(model, theta, rates, hypothesis=HYPOTHESES[name], fluctuates=fluctuates)
        if value == tested:
            start = z
        else:
            at = z.copy()
            at[poi] = tested
            aux = sampler.aux if fluctuates else t.aux_observed
            what = f"the fit to the Asimov data of {model.poi} = {value:g} with {model.poi} = {tested:g}"
            start = _fitted(plan, at, held, sampler.rates, aux, what).z
        return name, toy_study(plan, sampler, statistic, mu, seed, z, start)

    # The ensembles' Asimov fits and pilots know nothing of each other: one thread each.
    names = HYPOTHESES if nominal else ("b", "sb")
    found = dict(plan.each(study, [(name, 0.0 if name.startswith("b") else mu) for name in names]))
    return {name: found[name] for name in names}
