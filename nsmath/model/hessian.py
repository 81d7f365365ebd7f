"""The exact Hessian over all parameters, nothing profiled: what uncertainties and correlations come from."""

from __future__ import annotations

import numpy as np

from nsmath._typing import Array
from nsmath.model import likelihood
from nsmath.model.likelihood import nll_constant
from nsmath.model.rates import curvature, jacobian, rate_table, rates
from nsmath.model.tensors import ModelTensors

__all__ = ["full_hessian", "full_hessians", "nll_constant"]


def full_hessians(tensors: ModelTensors, theta: Array, data: Array, aux: Array, residual: Array | None = None) -> Array:
    """Return the Hessians of the NLL over all parameters, gammas included, shape (N, P, P).

    ``H = J' diag(n / lambda^2) J + sum_b r_b d2 lambda_b + constraints`` (docs/maths.md, section 6).

    Parameters
    ----------
    theta : (N, P); data : (N, B); aux : (N, A). Rates must be above 0 where counts are.
    residual : (N, B) what stands for r = 1 - n / lambda; smaller than 1 in an empty bin whose rate is held at 0.
    """
    table, rate = rate_table(tensors), rates(tensors, theta)
    jac = jacobian(table, theta)
    weight = np.divide(data, rate**2, out=np.zeros_like(rate), where=data > 0.0)
    hessian: Array = (jac * weight[:, :, None]).transpose(0, 2, 1) @ jac
    hessian += curvature(table, theta, likelihood.residual(rate, data) if residual is None else residual)
    diagonal = np.arange(tensors.n_parameters)
    hessian[:, diagonal, diagonal] += likelihood.constraint_derivatives(tensors, theta, aux)[1]
    return hessian


def full_hessian(tensors: ModelTensors, theta: Array, data: Array, aux: Array) -> Array:
    """Return the Hessian of one fit, shape (P, P), from ``theta`` (P,), ``data`` (B,), ``aux`` (A,)."""
    hessian: Array = full_hessians(tensors, theta[None], data[None], aux[None])[0]
    return hessian
