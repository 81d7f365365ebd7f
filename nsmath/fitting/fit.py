"""`fit`: the best fit of one model to one set of data, with uncertainties from the exact Hessian."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nsmath._typing import Array
from nsmath.errors import FitError, ModelError
from nsmath.fitting.batch import best_fit, nominal_start, theta_of
from nsmath.fitting.information import full_hessian
from nsmath.fitting.linalg import positive_definite_inverse
from nsmath.fitting.minimiser import FitStatus, Tolerances
from nsmath.model.data import checked_data
from nsmath.model.likelihood import nll_constant
from nsmath.model.model import Model
from nsmath.plan.plan import Plan
from nsmath.summary import Result, Summary, with_error

logger = logging.getLogger("nsmath.fitting")

FIT_TOLERANCES = Tolerances(decrement=1e-13, scaled=1e-5)
"""A single fit is quoted by its parameters, whose error goes with the root of the decrement: 5e-7 of sigma here."""


@dataclass(frozen=True, slots=True, repr=False)
class FitResult(Result):
    """A best fit; arrays run over ``names``, shape (P,) or (P, P).

    Attributes
    ----------
    values : best-fit parameters.
    uncertainties : square roots of the covariance's diagonal; 0 for fixed parameters; NaN where the parameter
        ends on a bound, or the Hessian is not positive definite: then a symmetric error would mean nothing.
    covariance, correlation : inverse of the exact Hessian over the parameters that are free and off their bounds.
    nll : -ln L of main and auxiliary data with all constants, as pyhf's ``-logpdf``; not twice.
    status : how the minimisation ended; n_iterations : its iterations.
    at_bound : names of free parameters that end on a bound.
    """

    measurement: str
    poi: str
    names: tuple[str, ...]
    values: Array
    uncertainties: Array
    covariance: Array
    nll: float
    status: FitStatus
    n_iterations: int
    at_bound: tuple[str, ...]
    is_fixed: tuple[bool, ...]
    interpolation: dict[str, str]
    model_digest: str
    backend: str
    dtype: str
    device: str

    @property
    def twice_nll(self) -> float:
        """-2 ln L."""
        return 2.0 * self.nll

    @property
    def correlation(self) -> Array:
        """Correlation matrix (P, P); NaN in rows and columns without an uncertainty."""
        with np.errstate(invalid="ignore", divide="ignore"):
            scale = np.where(self.uncertainties > 0.0, self.uncertainties, np.nan)
            matrix: Array = self.covariance / np.outer(scale, scale)
        return matrix

    def __getitem__(self, name: str) -> float:
        """Best-fit value by parameter name."""
        return float(self.values[self.names.index(name)])

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON: undefined numbers are None."""
        return {
            "measurement": self.measurement,
            "poi": self.poi or None,
            "parameters": [
                {"name": name, "value": float(value), "uncertainty": _number(error), "fixed": fixed,
                 "at_bound": name in self.at_bound}
                for name, value, error, fixed in zip(
                    self.names, self.values, self.uncertainties, self.is_fixed, strict=True
                )
            ],
            "correlation": [[_number(v) for v in row] for row in self.correlation],
            "nll": self.nll,
            "twice_nll": self.twice_nll,
            "status": self.status.name.lower(),
            "status_message": self.status.message,
            "n_iterations": self.n_iterations,
            "at_bound": list(self.at_bound),
            "interpolation": self.interpolation,
            "model_digest": self.model_digest,
            "backend": self.backend,
            "dtype": self.dtype,
            "device": self.device,
        }  # fmt: skip

    def summary(self) -> Summary:
        """Return the parameter of interest, NLL and status, and a table of all parameters."""
        order = sorted(range(len(self.names)), key=lambda p: self.names[p] != self.poi)
        facts = [("status", self.status.message), ("NLL", f"{self.nll:.9g}"), ("twice NLL", f"{self.twice_nll:.9g}")]
        if self.poi:
            at = self.names.index(self.poi)
            facts.insert(0, (self.poi, with_error(self[self.poi], float(self.uncertainties[at]))))
        if self.at_bound:
            facts.append(("at a bound", ", ".join(self.at_bound)))
        return Summary(f"fit of '{self.measurement}', {len(self.names)} parameters", tuple(facts),
                       ("parameter", "value", "uncertainty", "note"), tuple(self._row(p) for p in order))  # fmt: skip

    def _row(self, p: int) -> tuple[str, ...]:
        name, error = self.names[p], float(self.uncertainties[p])
        notes = (("POI", name == self.poi), ("fixed", self.is_fixed[p]), ("at a bound", name in self.at_bound))
        shown = f"{error:.3g}" if np.isfinite(error) and not self.is_fixed[p] else ""
        return name, f"{self.values[p]:.5g}", shown, ", ".join(note for note, holds in notes if holds)


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def fit(
    model: Model,
    *,
    fixed: Mapping[str, float] | None = None,
    data: Any = None,
    auxdata: Any = None,
    plan: Plan | None = None,
    threads: int | None = None,
    backend: str = "cpu",
    dtype: str = "float64",
) -> FitResult:
    """Return the best fit of ``model``.

    Parameters
    ----------
    fixed : parameters to hold, by name; ``{model.poi: 1.0}`` gives the conditional fit at mu = 1.
    data, auxdata : (B,) and (A,) instead of the observed ones.
    plan : a plan of this model to use; a single-threaded one is made for the call when None.
    threads : not needed for a single fit; accepted for the sake of one signature.
    backend, dtype : of the plan that is made for the call.

    Raises
    ------
    ModelError, FitError
        Bad names or shapes; the likelihood cannot be evaluated at any start.
    """
    if fixed:
        return fit(model.with_fixed(fixed), data=data, auxdata=auxdata, backend=backend, dtype=dtype)
    if plan is None:
        with Plan(model, backend=backend, dtype=dtype, threads=1, tune=False, width=8) as own:
            return fit(model, data=data, auxdata=auxdata, plan=own)
    if plan.model.digest != model.digest:
        raise ModelError("the plan was made for another model; make one with Plan(model).")
    main, aux = checked_data(model, data, auxdata)
    start, mask = nominal_start(model)
    columns = best_fit(plan.worker, model, start, mask, main, aux, FIT_TOLERANCES)
    theta = theta_of(model, columns)[0]
    status = FitStatus(int(columns.status[0]))
    if status == FitStatus.OUT_OF_DOMAIN:
        raise FitError(
            "the likelihood is zero at every start: a bin has counts where the model expects none, or a negative "
            "rate. Change the start values (inits) or look for templates that are empty."
        )
    if status != FitStatus.CONVERGED:
        logger.warning("fit did not converge: %s", status.message)
    t = model.tensors
    free = ~model.is_fixed
    on_bound = free & ((theta <= t.lower) | (theta >= t.upper))
    covariance = _covariance(full_hessian(plan.worker.whole, theta, main, aux), free & ~on_bound)
    uncertainties = np.sqrt(np.diag(covariance))
    uncertainties[on_bound] = np.nan
    return FitResult(
        measurement=model.measurement,
        poi=model.poi,
        names=model.names,
        values=theta,
        uncertainties=uncertainties,
        covariance=covariance,
        nll=float(columns.nll[0] + nll_constant(t, main[None], aux[None])[0]),
        status=status,
        n_iterations=int(columns.n_iterations[0]),
        at_bound=tuple(name for name, bound in zip(model.names, on_bound, strict=True) if bound),
        is_fixed=tuple(bool(x) for x in model.is_fixed),
        interpolation=model.interp.to_dict(),
        model_digest=model.digest,
        **plan.origin,
    )


def _covariance(hessian: Array, which: Any) -> Array:
    """Return the inverse of the Hessian over ``which``, zero elsewhere; NaN there if not positive definite."""
    index = np.flatnonzero(which)
    covariance = np.zeros_like(hessian)
    block = hessian[np.ix_(index, index)]
    try:
        inverse = positive_definite_inverse(block)
    except np.linalg.LinAlgError:
        logger.warning("the Hessian at the best fit is not positive definite: no uncertainties are given")
        inverse = np.full_like(block, np.nan)
    covariance[np.ix_(index, index)] = inverse
    return covariance
