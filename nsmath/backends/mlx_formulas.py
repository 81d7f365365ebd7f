"""Elementwise formulas of the ``mlx`` backend, accurate in float32 and in MLX's float64.

MLX's float64 ``exp`` is a float32 kernel (relative error 5e-7), ``power`` is not: see `exponential`.
"""

from __future__ import annotations

import math

from nsmath.backends.mlx_arrays import MxArray, mx

SMALL_DEVIATION = 0.25
"""|d| below which d - log(1 + d) is summed as a series: the difference itself loses 2 / |d| roundings."""
SERIES_TERMS = 9
"""Reach 1e-16 at `SMALL_DEVIATION`."""


def exponential(x: MxArray) -> MxArray:
    """Return e^x."""
    if x.dtype == mx.float64:
        return mx.power(mx.array(math.e, dtype=mx.float64), x)
    return mx.exp(x)


def log_gap(d: MxArray) -> MxArray:
    """Return ``d - log(1 + d)`` without cancellation where d is small.

    With s = d / (2 + d), log(1 + d) = 2 (s + s^3/3 + ...) and d - 2 s = s d, so the gap is s (d - 2 (s^2/3 + ...)).
    """
    near = mx.where(mx.abs(d) < SMALL_DEVIATION, d, 0.0)
    s = near / (2.0 + near)
    u = s * s
    tail = mx.zeros_like(u)
    for k in range(SERIES_TERMS, 0, -1):
        tail = u * (1.0 / (2 * k + 1) + tail)
    return mx.where(mx.abs(d) < SMALL_DEVIATION, s * (near - 2.0 * tail), d - mx.log1p(d))


def poisson_term(rate: MxArray, count: MxArray) -> MxArray:
    """Return ``rate - count + count log(count / rate)``, infinite outside the domain (Baker & Cousins 1984, eq. 6)."""
    n = mx.where(count > 0.0, count, 1.0)
    seen = mx.where(rate > 0.0, n * log_gap((rate - n) / n), mx.inf)
    return mx.where(count > 0.0, seen, mx.where(rate >= 0.0, rate, mx.inf))


def additive_code(code: tuple[float, ...], alpha: MxArray) -> tuple[MxArray, MxArray, MxArray]:
    """Return q, q', q'' of the additive code ``code`` (`ModelTensors.additive`) at ``alpha``."""
    threshold, c1, c2, c3, slope, intercept = code
    size, u = mx.abs(alpha), alpha * alpha
    inside = size < threshold
    sign = mx.where(alpha > 0.0, 1.0, -1.0).astype(alpha.dtype)
    value = mx.where(inside, u * (c1 + u * (c2 + u * c3)), slope * size + intercept)
    first = mx.where(inside, alpha * (2.0 * c1 + u * (4.0 * c2 + u * (6.0 * c3))), slope * sign)
    second = mx.where(inside, 2.0 * c1 + u * (12.0 * c2 + u * (30.0 * c3)), 0.0)
    return value, first, second


def multiplicative_code(
    threshold: float, poly: MxArray, log_hi: MxArray, log_lo: MxArray, alpha: MxArray
) -> tuple[MxArray, MxArray, MxArray]:
    """Return the factors f of normsys entries, f' and f'' at ``alpha`` (..., E, m).

    poly : (6, E, 1) coefficients; log_hi, log_lo : (E, 1).
    """
    inside = mx.abs(alpha) < threshold
    rate = mx.where(alpha > 0.0, log_hi, -log_lo)
    # Beyond the threshold the polynomial is not used; 0 keeps it from overflowing there.
    v, outside = mx.where(inside, alpha, 0.0), exponential(mx.where(inside, 0.0, rate * alpha))
    value, first, second = poly[5], 6.0 * poly[5], 30.0 * poly[5]
    for k in range(5, 0, -1):
        value, first = poly[k - 1] + v * value, k * poly[k - 1] + v * first
        second = k * (k - 1) * poly[k - 1] + v * second if k > 1 else second
    return (
        mx.where(inside, 1.0 + v * value, outside),
        mx.where(inside, first, rate * outside),
        mx.where(inside, second, rate * rate * outside),
    )
