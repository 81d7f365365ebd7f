"""The common matrix of the cheap tier: the inverse Fisher information at the point all columns start from."""

from __future__ import annotations

import numpy as np

from nsmath._typing import Array, BoolArray
from nsmath.backends.ops import Tile
from nsmath.fitting.linalg import inverse
from nsmath.model.tensors import ModelTensors

RIDGE = 1e-9
"""Relative ridge on the information's diagonal: keeps it regular where nothing measures a parameter."""
MIN_INFORMATION = 1e-10


def full_theta(tensors: ModelTensors, z: Array, gammas: Array) -> Array:
    """Return all parameters (P, N) from minimised ones (Z, N) and profiled gammas (G, N)."""
    theta = np.repeat(tensors.init[:, None], z.shape[1], axis=1)
    theta[tensors.parameter] = z
    theta[tensors.gamma_parameter] = gammas
    return theta


def expected_auxdata(tensors: ModelTensors, theta: Array) -> Array:
    """Return the expected auxiliary data at ``theta`` (P, ...): theta itself, or theta tau where it is Poisson."""
    centre = theta[tensors.aux_parameter]
    scale = tensors.aux_scale.reshape(-1, *[1] * (theta.ndim - 1))
    is_poisson = tensors.aux_is_poisson.reshape(scale.shape) != 0
    expected: Array = np.where(is_poisson, centre * scale, centre)
    return expected


def evaluated_point(
    tile: Tile, tensors: ModelTensors, z: Array, data: Array, aux: Array, fixed: BoolArray
) -> tuple[Array, Array]:
    """Return all parameters (P,) and rates (B,) at ``z`` (Z,), with gammas profiled to ``data`` and ``aux``."""
    tile.load(z[:, None], data[:, None], aux[:, None], fixed)
    tile.start()
    theta = full_theta(tensors, z[:, None], tile.to_host(tile.gammas[:, :1]))[:, 0]
    return theta, tile.to_host(tile.rate[:, 0]).copy()


def inverse_information(
    tile: Tile, tensors: ModelTensors, z: Array, data: Array, aux: Array, fixed: BoolArray
) -> Array:
    """Return the inverse Fisher information (Z, Z) at ``z``, zero in rows and columns of ``fixed`` parameters.

    It is the exact Hessian with the data that the point itself expects (gammas profiled to ``data``, ``aux``):
    all residuals vanish there, and with them the second derivatives of the rates.
    """
    theta, rate = evaluated_point(tile, tensors, z, data, aux, fixed)
    expected = expected_auxdata(tensors, theta)
    tile.load(z[:, None], np.maximum(rate, 0.0)[:, None], expected[:, None], fixed)
    tile.start()
    tile.curvature()
    information = symmetric(tile.to_host(tile.hessian[0]))
    free = np.flatnonzero(~fixed)
    block = information[np.ix_(free, free)]
    block[np.diag_indices_from(block)] += RIDGE * np.abs(np.diag(block)) + MIN_INFORMATION
    full = np.zeros_like(information)
    full[np.ix_(free, free)] = inverse(block)
    mean: Array = 0.5 * (full + full.T)
    return mean


def full_hessian(whole: Tile, theta: Array, data: Array, aux: Array) -> Array:
    """Return the exact Hessian of the NLL over all parameters, (P, P), at ``theta`` (P,).

    whole : a tile of the unprofiled model; data : (B,); aux : (A,).
    """
    whole.load(theta[:, None], data[:, None], aux[:, None], np.zeros(len(theta), dtype=bool))
    whole.start()
    whole.curvature()
    return symmetric(whole.to_host(whole.hessian[0]))


def symmetric(upper: Array) -> Array:
    """Return the symmetric matrix whose upper triangle is that of ``upper``."""
    matrix: Array = np.triu(upper) + np.triu(upper, 1).T
    return matrix
