"""Fits with pyhf's signatures: ``fit``, ``fixed_poi_fit``, ``twice_nll``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nsmath._typing import AnyArray, Array
from nsmath.errors import FitError
from nsmath.fitting.evaluate import nll
from nsmath.fitting.fit import FitResult
from nsmath.fitting.fit import fit as best_fit
from nsmath.fitting.minimiser import FitStatus
from nsmath.pyhf.problem import Problem, PyhfModel, checked_poi, numbers, problem

__all__ = ["MinimisationResult", "fit", "fixed_poi_fit", "twice_nll"]


@dataclass(frozen=True, slots=True)
class MinimisationResult:
    """What ``return_result_obj=True`` gives: the fields of ``scipy.optimize.OptimizeResult`` that pyhf fills.

    Attributes
    ----------
    x : best fit (P,), or (P, 2) with the uncertainties beside; fun : twice the NLL there.
    unc, corr : uncertainties (P,) and correlations (P, P), 0 for fixed parameters, NaN for those on a bound.
    hess_inv : covariance (P, P). nit : iterations.
    """

    x: Array
    fun: AnyArray
    unc: Array
    corr: Array
    hess_inv: Array
    success: bool
    message: str
    nit: int


def twice_nll(pars: ArrayLike, data: ArrayLike, pdf: PyhfModel) -> Array:
    """Return -2 ln L at one point, shape (1,), with all constants.

    Raises
    ------
    NsmathError
        See `nsmath.pyhf.problem.problem`.
    """
    posed = problem(data, pdf)
    return np.array([2.0 * float(nll(posed.model, posed.own_parameters(pars)))])


def fit(
    data: ArrayLike, pdf: PyhfModel, init_pars: ArrayLike | None = None, par_bounds: ArrayLike | None = None,
    fixed_params: ArrayLike | None = None, *, return_fitted_val: bool = False, return_result_obj: bool = False,
    return_uncertainties: bool = False, return_correlations: bool = False,
) -> Any:  # fmt: skip
    """Return the best fit as ``pyhf.infer.mle.fit`` does.

    Parameters
    ----------
    data : main and auxiliary data one after the other.
    init_pars, par_bounds, fixed_params : (P,), (P, 2), (P,) in the order of ``pdf.config.par_names``.
    return_uncertainties : parameters have shape (P, 2), the uncertainty beside each; 0 for a fixed one, NaN for one
        that ends on a bound.
    return_correlations, return_fitted_val, return_result_obj : append the correlation matrix (P, P), twice the NLL,
        a `MinimisationResult`, in this order.

    Returns
    -------
    parameters (P,) or (P, 2), or a tuple that begins with them.

    Raises
    ------
    FitError
        The fit does not converge.
    NsmathError
        See `nsmath.pyhf.problem.problem`.
    """
    posed = problem(data, pdf, init_pars, par_bounds, fixed_params)
    found = converged(best_fit(posed.model))
    minimisation = _minimisation(posed, found, with_uncertainties=return_uncertainties)
    returns: list[Any] = [minimisation.x]
    if return_correlations:
        returns.append(minimisation.corr)
    if return_fitted_val:
        returns.append(minimisation.fun)
    if return_result_obj:
        returns.append(minimisation)
    return tuple(returns) if len(returns) > 1 else returns[0]


def fixed_poi_fit(
    poi_val: float, data: ArrayLike, pdf: PyhfModel, init_pars: ArrayLike | None = None,
    par_bounds: ArrayLike | None = None, fixed_params: ArrayLike | None = None, **kwargs: bool,
) -> Any:  # fmt: skip
    """Return the best fit with the parameter of interest held at ``poi_val``; the rest as `fit`.

    Raises
    ------
    OptionError
        ``pdf`` has no parameter of interest.
    NsmathError
        As `fit`.
    """
    poi, n = checked_poi(pdf), len(pdf.config.par_names)
    starts = numbers("init_pars", pdf.config.suggested_init() if init_pars is None else init_pars, n).copy()
    fixed = numbers("fixed_params", pdf.config.suggested_fixed() if fixed_params is None else fixed_params, n).copy()
    starts[poi], fixed[poi] = float(poi_val), True
    return fit(data, pdf, starts, par_bounds, fixed, **kwargs)


def converged(found: FitResult) -> FitResult:
    """Return a fit that converged, as it is.

    Raises
    ------
    FitError
        It did not.
    """
    if found.status != FitStatus.CONVERGED:
        raise FitError(f"the fit did not converge: {found.status.message}. Try other init_pars or par_bounds.")
    return found


def _minimisation(posed: Problem, found: FitResult, *, with_uncertainties: bool) -> MinimisationResult:
    correlation = found.correlation
    is_fixed = np.array(found.is_fixed)
    # pyhf's convention: a parameter that does not move has neither uncertainty nor correlation.
    correlation[is_fixed, :] = 0.0
    correlation[:, is_fixed] = 0.0
    values, errors = posed.parameters(found.values), posed.parameters(found.uncertainties)
    return MinimisationResult(
        x=np.stack([values, errors], axis=1) if with_uncertainties else values,
        fun=np.asarray(found.twice_nll),
        unc=errors,
        corr=posed.matrix(correlation),
        hess_inv=posed.matrix(found.covariance),
        success=True,
        message=found.status.message,
        nit=found.n_iterations,
    )
