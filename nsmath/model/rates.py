"""Expected rates from full parameter vectors, with first and second derivatives, in plain NumPy.

Every row is a product of factors: its additive part, which all histosys parameters move, and factors of one
parameter each. `RateTable` lists the latter; products "without one" and "without two" factors give the
derivatives, so nothing is divided and parameters may be 0 (docs/maths.md, section 2).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nsmath._typing import Array, IntArray
from nsmath.model.tensors import ModelTensors


class RateTable(NamedTuple):
    """The rows of a model as products; U numbers the distinct factors: 1, the normsys entries, the parameters.

    factor : (R, K) which factors multiply a row, padded with the factor 1; owner : (U,) the parameter that moves a
    factor, P for the constant one; row_bin : (R,).
    """

    tensors: ModelTensors
    factor: IntArray
    owner: IntArray
    row_bin: IntArray


class RowFactors(NamedTuple):
    """Values of all factors of all rows, (N, R, 1 + K), the additive part first, and derivatives.

    slope, bend : (N, R, K) first and second derivative of the others by the parameter that each belongs to.
    feature_slope, feature_bend : (N, H) q' and q'' of the additive code.
    """

    value: Array
    slope: Array
    bend: Array
    feature_slope: Array
    feature_bend: Array


def rate_table(tensors: ModelTensors) -> RateTable:
    """Return the factors of every row of ``tensors``."""
    t = tensors
    n_entries = len(t.entry_z)
    parameters = 1 + n_entries
    rows: list[list[int]] = []
    for q in range(t.n_cells):
        entries = [1 + e for e in range(t.cell_entry[q], t.cell_entry[q + 1])]
        scalars = [parameters + t.parameter[z] for z in t.factor_z[t.cell_factor[q] : t.cell_factor[q + 1]]]
        for r in range(t.cell_row[q], t.cell_row[q + 1]):
            start, stop = t.row_factor_start[r], t.row_factor_start[r + 1]
            per_bin = [parameters + t.parameter[z] for z in t.row_factor_z[start:stop]]
            g = t.slot_gamma[t.row_slot[r]]
            gamma = [parameters + t.gamma_parameter[g]] if g >= 0 else []
            rows.append([*entries, *scalars, *per_bin, *gamma])
    factor = np.zeros((t.n_rows, max(map(len, rows))), dtype=np.int64)
    for r, factors in enumerate(rows):
        factor[r, : len(factors)] = factors
    owner = np.concatenate([[t.n_parameters], t.parameter[t.entry_z], np.arange(t.n_parameters)])
    slot_bin = np.repeat(np.arange(t.n_bins), np.diff(t.bin_slot))
    return RateTable(tensors, factor, owner.astype(np.int64), slot_bin[t.row_slot])


def additive_code(additive: Array, alpha: Array) -> tuple[Array, Array, Array]:
    """Return q, q', q'' of an additive code at ``alpha``, each of its shape; ``additive`` as in `ModelTensors`."""
    threshold, c1, c2, c3, slope, intercept = additive
    inside, size, sign = np.abs(alpha) < threshold, np.abs(alpha), np.where(alpha > 0.0, 1.0, -1.0)
    even = np.polynomial.Polynomial([0.0, 0.0, c1, 0.0, c2, 0.0, c3])
    value = np.where(inside, even(alpha), slope * size + intercept)
    first = np.where(inside, even.deriv(1)(alpha), slope * sign)
    second = np.where(inside, even.deriv(2)(alpha), 0.0)
    return value, first, second


def multiplicative_code(tensors: ModelTensors, alpha: Array) -> tuple[Array, Array, Array]:
    """Return the factors of all normsys entries and their first two derivatives at ``alpha`` (N, E)."""
    poly, (log_hi, log_lo) = tensors.entry_poly, tensors.entry_log.T
    inside = np.abs(alpha) < tensors.multiplicative_threshold[0]
    rate = np.where(alpha > 0.0, log_hi, -log_lo)
    # Beyond the threshold the polynomial is not used; 0 keeps it from overflowing there.
    x, outside = np.where(inside, alpha, 0.0), np.exp(np.where(inside, 0.0, rate * alpha))
    powers = range(1, 7)
    value = 1.0 + sum(poly[:, k - 1] * x**k for k in powers)
    first = sum(k * poly[:, k - 1] * x ** (k - 1) for k in powers)
    second = sum(k * (k - 1) * poly[:, k - 1] * x ** max(k - 2, 0) for k in powers)
    return (
        np.where(inside, value, outside),
        np.where(inside, first, rate * outside),
        np.where(inside, second, rate * rate * outside),
    )


def row_factors(table: RateTable, theta: Array) -> RowFactors:
    """Return the factors of every row at ``theta`` (N, P)."""
    t = table.tensors
    alpha = theta[:, t.parameter[t.histosys_z]]
    q, feature_slope, feature_bend = additive_code(t.additive, alpha)
    additive = np.concatenate([alpha, q], axis=1) @ t.template.T + t.nominal
    f, first, second = multiplicative_code(t, theta[:, t.parameter[t.entry_z]])
    one, zero, zeros = np.ones((len(theta), 1)), np.zeros((len(theta), 1)), np.zeros_like(theta)
    value = np.concatenate([one, f, theta], axis=1)[:, table.factor]
    slope = np.concatenate([zero, first, np.ones_like(theta)], axis=1)[:, table.factor]
    bend = np.concatenate([zero, second, zeros], axis=1)[:, table.factor]
    return RowFactors(np.concatenate([additive[:, :, None], value], axis=2), slope, bend, feature_slope, feature_bend)


def product_of_others(factors: Array) -> Array:
    """Return, for each factor (last axis), the product of all the others, without division."""
    one = np.ones_like(factors[..., :1])
    before = np.cumprod(np.concatenate([one, factors[..., :-1]], axis=-1), axis=-1)
    after = np.cumprod(np.concatenate([one, factors[..., :0:-1]], axis=-1), axis=-1)[..., ::-1]
    others: Array = before * after
    return others


def row_rates(table: RateTable, theta: Array) -> Array:
    """Return the rate of every row at ``theta`` (N, P), shape (N, R)."""
    product: Array = row_factors(table, theta).value.prod(axis=2)
    return product


def sum_by(index: IntArray, size: int, values: Array) -> Array:
    """Return sums of ``values`` (N, R) over the rows of equal ``index`` (R,), shape (N, size)."""
    out = np.zeros((len(values), size))
    np.add.at(out, (slice(None), index), values)  # type: ignore[arg-type]  # numpy's stub knows no mixed index
    return out


def rates(tensors: ModelTensors, theta: Array) -> Array:
    """Return the expected rates, shape (N, B), at full parameter vectors ``theta`` (N, P)."""
    table = rate_table(tensors)
    return sum_by(table.row_bin, tensors.n_bins, row_rates(table, np.atleast_2d(theta)))


def jacobian(table: RateTable, theta: Array) -> Array:
    """Return d lambda_b / d theta_p at ``theta`` (N, P), shape (N, B, P)."""
    t, n_p = table.tensors, table.tensors.n_parameters
    factors = row_factors(table, theta)
    others = product_of_others(factors.value)
    out = np.zeros((len(theta), t.n_bins, n_p + 1))
    # One place more than P: there goes what the constant factor would move.
    np.add.at(out, (slice(None), table.row_bin[:, None], table.owner[table.factor]), factors.slope * others[:, :, 1:])  # type: ignore[arg-type]  # numpy's stub knows no mixed index
    histosys = np.zeros((len(theta), t.n_bins, t.n_histosys))
    np.add.at(histosys, (slice(None), table.row_bin), others[:, :, :1] * _shape_slope(t, factors))  # type: ignore[arg-type]  # numpy's stub knows no mixed index
    out[:, :, t.parameter[t.histosys_z]] += histosys
    return out[:, :, :n_p]


def _shape_slope(tensors: ModelTensors, factors: RowFactors) -> Array:
    """Return d a_r / d alpha_h, shape (N, R, H)."""
    half, curved = np.split(tensors.template, 2, axis=1)
    slope: Array = half + factors.feature_slope[:, None, :] * curved
    return slope


def curvature(table: RateTable, theta: Array, weight: Array) -> Array:
    """Return ``sum_b weight_b d2 lambda_b / d theta_p d theta_q``, shape (N, P, P), for ``weight`` (N, B)."""
    t, n = table.tensors, len(theta)
    factors = row_factors(table, theta)
    w, owner, histosys_p = weight[:, table.row_bin], table.owner[table.factor], t.parameter[t.histosys_z]
    others = product_of_others(factors.value) * w[:, :, None]
    shape_slope, curved = _shape_slope(t, factors), t.template[:, t.n_histosys :]
    out = np.zeros((n, t.n_parameters + 1, t.n_parameters + 1))
    np.add.at(out, (slice(None), owner, owner), factors.bend * others[:, :, 1:])  # type: ignore[arg-type]  # numpy's stub knows no mixed index
    out[:, histosys_p, histosys_p] += factors.feature_bend * (others[:, :, 0] @ curved)
    for k in range(table.factor.shape[1]):
        rest = factors.value.copy()
        rest[:, :, 1 + k] = factors.slope[:, :, k]
        # With factor k's slope in its place, "the others" of any factor is the mixed second derivative without it.
        mixed = product_of_others(rest) * w[:, :, None]
        pairs = factors.slope * mixed[:, :, 1:]
        pairs[:, :, k] = 0.0
        np.add.at(out, (slice(None), owner, owner[:, k, None]), pairs)  # type: ignore[arg-type]  # numpy's stub knows no mixed index
        with_shape = np.zeros((n, t.n_parameters + 1, t.n_histosys))
        np.add.at(with_shape, (slice(None), owner[:, k]), mixed[:, :, :1] * shape_slope)  # type: ignore[arg-type]  # numpy's stub knows no mixed index
        out[:, :, histosys_p] += with_shape
        out[:, histosys_p, :] += with_shape.transpose(0, 2, 1)
    return out[:, : t.n_parameters, : t.n_parameters]
