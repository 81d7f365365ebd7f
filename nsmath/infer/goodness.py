"""`goodness_of_fit`: the best fit against the saturated model, by chi2 and by toys.

S. Baker, R. Cousins, NIM 221 (1984) 437, eq. (6): twice the NLL above the model that predicts every measurement
exactly. Auxiliary measurements count like any other: each adds a term and, being one measurement for one parameter, no
degree of freedom net of it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nsmath._typing import Array, IntArray
from nsmath.errors import FitError, OptionError
from nsmath.fitting.batch import best_fit, fit_columns, nominal_start, setup, theta_of, with_pilot
from nsmath.fitting.fit import FIT_TOLERANCES
from nsmath.fitting.minimiser import FitStatus
from nsmath.infer.profile import plan_for
from nsmath.infer.pvalues import tail
from nsmath.infer.sampling import BEST_FIT_STREAM, ToySampler
from nsmath.model.model import Model
from nsmath.model.rates import rates as model_rates
from nsmath.plan.plan import Plan, Worker
from nsmath.store.ranges import tiles
from nsmath.summary import Result, Summary, with_error

logger = logging.getLogger("nsmath.toys")

Progress = Callable[[int, int, str], None]
PILOT_TOYS = 32


@dataclass(frozen=True, slots=True, repr=False)
class GoodnessOfFit(Result):
    """How well the best fit describes the data.

    Attributes
    ----------
    statistic : 2 (NLL of the best fit - NLL of the saturated model).
    n_dof : bins less free parameters without an auxiliary measurement; below 1 there is no p-value by chi2.
    p_chi2 : P(chi2 with n_dof >= statistic); None where n_dof < 1.
    p_toys, p_toys_error : share of toys at least as bad, and its binomial error; None without toys or in an empty tail.
    p_toys_upper : 95 % C.L. upper limit where no toy was as bad.
    p_toys_bracket : p_toys with failed toys counted either way; None without failures.
    toys : the statistic of every toy, NaN where its fit failed.
    """

    measurement: str
    statistic: float
    n_dof: int
    p_chi2: float | None
    n_toys: int
    n_failed: int
    p_toys: float | None
    p_toys_error: float | None
    p_toys_upper: float | None
    p_toys_bracket: tuple[float, float] | None
    seed: int
    aux: str
    interpolation: dict[str, str]
    model_digest: str
    backend: str
    dtype: str
    device: str
    toys: Array

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON, without the toys themselves."""
        result: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__ if name != "toys"}
        result["p_toys_bracket"] = None if self.p_toys_bracket is None else list(self.p_toys_bracket)
        return result

    def summary(self) -> Summary:
        """Return the statistic and its p-values."""
        chi2 = "undefined" if self.p_chi2 is None else f"{self.p_chi2:.4g}"
        facts = [("2 delta NLL", f"{self.statistic:.5g}"), ("degrees of freedom", str(self.n_dof)), ("p by chi2", chi2)]
        if self.n_toys:
            facts.append(("p by toys", with_error(self.p_toys, self.p_toys_error, self.p_toys_upper)))
            facts.append(("toys", f"{self.n_toys}, {self.n_failed} failed"))
        return Summary(f"goodness of fit of '{self.measurement}', against the saturated model", tuple(facts))


def upper_chi2(x: float, n_dof: int) -> float:
    """Return P(chi2 with ``n_dof`` degrees of freedom >= x), the regularised gamma function Q(n_dof / 2, x / 2).

    By its recurrence Q(a + 1, y) = Q(a, y) + y^a e^-y / Gamma(a + 1) from Q(1/2, y) = erfc(sqrt y) or Q(1, y) = exp(-y)
    (Abramowitz & Stegun, 6.5.21); all terms are positive, so nothing cancels.
    """
    y = 0.5 * max(x, 0.0)
    if y == 0.0:
        return 1.0
    a = 0.5 if n_dof % 2 else 1.0
    total = math.erfc(math.sqrt(y)) if n_dof % 2 else math.exp(-y)
    while a < 0.5 * n_dof - 0.25:
        total += math.exp(a * math.log(y) - y - math.lgamma(a + 1.0))
        a += 1.0
    return min(total, 1.0)


def goodness_of_fit(
    model: Model, *, n_toys: int = 0, seed: int = 0, aux: str = "random", plan: Plan | None = None,
    progress: Progress | None = None,
) -> GoodnessOfFit:  # fmt: skip
    """Return the goodness of the best fit.

    Parameters
    ----------
    n_toys : toys at the best fit, each fitted; none for the chi2 alone.
    seed, aux : as for `hypotest_toys`; the toys are an ensemble of their own.
    plan : a plan of this model; one is made for the call when None.
    progress : called with (toys done, toys in all, phase).

    Raises
    ------
    OptionError
        Bad number of toys, seed or choice.
    FitError
        The fit to the observed data does not converge.
    """
    if isinstance(n_toys, bool) or int(n_toys) != n_toys or n_toys < 0:
        raise OptionError(f"n_toys is {n_toys!r}; expected a whole number from 0 on.")
    if isinstance(seed, bool) or int(seed) != seed or not 0 <= seed < 2**64:
        raise OptionError(f"seed is {seed!r}; expected a whole number from 0 to 2^64 - 1.")
    if aux not in ("random", "fixed"):
        raise OptionError(f"aux is {aux!r}; expected random or fixed.")
    with plan_for(model, plan) as used:
        t = model.tensors
        start, mask = nominal_start(model)
        best = best_fit(used.exact.worker, model, start, mask, t.observed, t.aux_observed, FIT_TOLERANCES)
        if best.status[0] != FitStatus.CONVERGED:
            raise FitError(f"the fit to the observed data failed: {FitStatus(int(best.status[0])).message}.")
        statistic = 2.0 * float(best.nll[0])
        n_dof = len(model.data) - sum(not p.is_fixed and p.constraint == "none" for p in model.parameters)
        toys = _toys(used, theta_of(model, best)[0], best.z[:, 0], n_toys, seed, aux, progress)
        good = toys[np.isfinite(toys)]
        failed = n_toys - len(good)
        p = tail(good, statistic) if len(good) else None
        n_tail = 0 if p is None else p.n_tail
        return GoodnessOfFit(
            measurement=model.measurement,
            statistic=statistic,
            n_dof=n_dof,
            p_chi2=upper_chi2(statistic, n_dof) if n_dof > 0 else None,
            n_toys=n_toys,
            n_failed=failed,
            p_toys=p.p if p is not None and n_tail else None,
            p_toys_error=p.error if p is not None else None,
            p_toys_upper=p.upper if p is not None else None,
            p_toys_bracket=(n_tail / n_toys, (n_tail + failed) / n_toys) if failed else None,
            seed=seed,
            aux=aux,
            interpolation=model.interp.to_dict(),
            model_digest=model.digest,
            **used.origin,
            toys=toys,
        )


def _toys(
    plan: Plan, theta: Array, z: Array, n_toys: int, seed: int, aux: str, progress: Progress | None
) -> Array:  # fmt: skip
    """Return the statistic of toys at ``theta`` (P,), the best fit with minimised parameters ``z`` (Z,)."""
    found = np.full(n_toys, np.nan)
    if not n_toys:
        return found
    model = plan.model
    rates = model_rates(model.unprofiled.tensors, theta)[0]
    sampler = ToySampler.at(model, theta, rates, hypothesis=BEST_FIT_STREAM, fluctuates=aux == "random")
    nominal, fixed = nominal_start(model)
    worker = plan.worker
    shared = setup(plan.exact.worker, model, z, fixed, sampler.rates, sampler.aux, other_starts=(nominal,))
    pilot: IntArray = np.arange(PILOT_TOYS)
    shared = with_pilot(worker, shared, *sampler.draw(plan.backend_model, pilot, seed), plan.tuned.newton_cost)

    def run(worker: Worker, tile: tuple[int, int]) -> tuple[int, Array]:
        index: IntArray = np.arange(*tile)
        columns = fit_columns(worker, shared, *sampler.draw(plan.backend_model, index, seed))
        converged = columns.status == int(FitStatus.CONVERGED)
        return tile[0], np.where(converged, 2.0 * columns.nll, np.nan)

    done = 0
    for first, part in plan.each(run, tiles([(0, n_toys)], plan.tuned.width)):
        found[first : first + len(part)] = part
        done += len(part)
        if progress is not None:
            progress(done, n_toys, "toys")
    return found
