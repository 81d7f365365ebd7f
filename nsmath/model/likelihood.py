"""The NLL of full parameter vectors in plain NumPy, its gradient, and the constant that makes it absolute.

Nothing is profiled here. The NLL is relative to the saturated model (docs/maths.md, section 3); `nll_constant` is what
separates it from ``-ln L`` with all constants, which is what pyhf's ``logpdf`` returns with the opposite sign.
"""

from __future__ import annotations

import math

import numpy as np

from nsmath._typing import Array, BoolArray
from nsmath.model.rates import jacobian, rate_table, rates
from nsmath.model.tensors import ModelTensors

STIRLING_FROM = 1000.0
"""From this count on, Stirling's series to n^-5 is exact to the last bit."""


def poisson_term(rate: Array, count: Array) -> Array:
    """Return ``rate - count + count log(count / rate)``, infinite outside the domain (Baker & Cousins 1984, eq. 6)."""
    rate, count = np.broadcast_arrays(rate, count)
    seen, legal = count > 0.0, np.where(count > 0.0, rate > 0.0, rate >= 0.0)
    n = np.where(seen, count, 1.0)
    d = np.where(legal & seen, (rate - n) / n, 0.0)
    with np.errstate(divide="ignore"):
        term: Array = np.where(legal, np.where(seen, n * (d - np.log1p(d)), rate), np.inf)
    return term


def is_inert(tensors: ModelTensors) -> BoolArray:
    """Return (P,) True where a parameter is neither minimised nor profiled: it keeps its start for ever."""
    inert = np.ones(tensors.n_parameters, dtype=bool)
    inert[tensors.parameter] = False
    inert[tensors.gamma_parameter] = False
    return inert


def constraint_terms(tensors: ModelTensors, theta: Array, aux: Array) -> Array:
    """Return the NLL of every auxiliary measurement, shape (N, A), at ``theta`` (N, P) with ``aux`` (N, A)."""
    t, is_poisson = tensors, tensors.aux_is_poisson.astype(bool)
    value = theta[:, t.aux_parameter]
    pull = (value - aux) / t.aux_scale
    terms: Array = np.where(is_poisson, poisson_term(value * t.aux_scale, aux), 0.5 * pull**2)
    return terms


def constraint_derivatives(tensors: ModelTensors, theta: Array, aux: Array) -> tuple[Array, Array]:
    """Return first and second derivatives of `constraint_terms` by their parameters, each of shape (N, P)."""
    t, is_poisson = tensors, tensors.aux_is_poisson.astype(bool)
    value, scale = theta[:, t.aux_parameter], t.aux_scale
    ratio = np.divide(aux, value, out=np.zeros_like(value), where=(aux > 0.0) & is_poisson)
    square = np.divide(ratio, value, out=np.zeros_like(value), where=ratio > 0.0)
    first, second = np.zeros_like(theta), np.zeros_like(theta)
    first[:, t.aux_parameter] = np.where(is_poisson, scale - ratio, (value - aux) / scale**2)
    second[:, t.aux_parameter] = np.where(is_poisson, square, 1.0 / scale**2)
    return first, second


def residual(rate: Array, count: Array) -> Array:
    """Return 1 - count / rate, the derivative of `poisson_term` by the rate; 1 for an empty bin."""
    with np.errstate(divide="ignore"):
        ratio = np.divide(count, rate, out=np.zeros_like(rate), where=count > 0.0)
    r: Array = 1.0 - ratio
    return r


def nll(tensors: ModelTensors, theta: Array, data: Array, aux: Array) -> Array:
    """Return the NLL relative to the saturated model, shape (N,).

    Parameters
    ----------
    theta : (N, P); data : (N, B) or (B,); aux : (N, A) or (A,).
    """
    constraints = constraint_terms(tensors, theta, np.broadcast_to(aux, (len(theta), tensors.n_aux)))
    total: Array = poisson_term(rates(tensors, theta), data).sum(axis=1) + constraints.sum(axis=1)
    return total


def gradient(tensors: ModelTensors, theta: Array, data: Array, aux: Array) -> Array:
    """Return the gradient of `nll` over all parameters, shape (N, P); arguments as there."""
    table = rate_table(tensors)
    rate = rates(tensors, theta)
    r = residual(rate, np.broadcast_to(data, rate.shape))
    first, _ = constraint_derivatives(tensors, theta, np.broadcast_to(aux, (len(theta), tensors.n_aux)))
    total: Array = np.einsum("nb,nbp->np", r, jacobian(table, theta)) + first
    return total


def nll_constant(tensors: ModelTensors, data: Array, aux: Array) -> Array:
    """Return what to add to a backend's NLL to get -ln L of main and auxiliary data, all constants included, (N,).

    Backends give the NLL relative to the saturated model and leave inert parameters out. Their constraints are
    constants of a column, counted here as pyhf 0.7.6 counts them: a gamma whose bin cannot vary has the constraint
    ``Pois(1 | gamma)`` (shapesys) or ``N(1 | gamma, 1)`` (staterror).

    Parameters
    ----------
    data : (N, B) or (B,) main data; aux : (N, A) or (A,) auxiliary data. Counts need not be whole.
    """
    t = tensors
    data, aux = np.atleast_2d(data), np.atleast_2d(aux)
    is_poisson = t.aux_is_poisson.astype(bool)
    constant = saturated_poisson(data).sum(axis=1) + saturated_poisson(aux[:, is_poisson]).sum(axis=1)
    constant = constant + np.log(t.aux_scale[~is_poisson] * math.sqrt(2.0 * math.pi)).sum()
    inert = is_inert(t)[t.aux_parameter]
    theta = np.broadcast_to(t.init, (len(aux), t.n_parameters))
    total: Array = constant + constraint_terms(t, theta, aux)[:, inert].sum(axis=1)
    return total


def saturated_poisson(count: Array) -> Array:
    """Return -ln Pois(n | n), n! continued as Gamma(n + 1); same shape as ``count``."""
    flat = np.asarray(count, dtype=float)
    value = np.array([_saturated_poisson(n) for n in flat.ravel()])
    return value.reshape(flat.shape)


def _saturated_poisson(n: float) -> float:
    """Return n - n ln n + ln Gamma(n + 1), without cancellation where n is large."""
    if n <= 0.0:
        return 0.0
    if n < STIRLING_FROM:
        return n - n * math.log(n) + math.lgamma(n + 1.0)
    series = (1.0 - (1.0 / 30.0 - 1.0 / (105.0 * n * n)) / (n * n)) / (12.0 * n)
    return 0.5 * math.log(2.0 * math.pi * n) + series
