"""Elementwise formulas, accurate in float32 too."""

from __future__ import annotations

from nsmath.backends.array_door import XpArray, namespace_of

SMALL_DEVIATION = 0.25
"""|d| below which d - log(1 + d) is summed as a series: the difference itself loses 2 / |d| roundings."""
SERIES_TERMS = 9
"""Reach 1e-16 at `SMALL_DEVIATION`."""


def log_gap(d: XpArray) -> XpArray:
    """Return ``d - log(1 + d)`` without cancellation where d is small.

    With s = d / (2 + d), log(1 + d) = 2 (s + s^3/3 + ...) and d - 2 s = s d, so the gap is s (d - 2 (s^2/3 + ...)).
    """
    xp = namespace_of(d)
    near = xp.where(xp.abs(d) < SMALL_DEVIATION, d, 0.0)
    s = near / (2.0 + near)
    u = s * s
    tail = xp.zeros_like(u)
    for k in range(SERIES_TERMS, 0, -1):
        tail = u * (1.0 / (2 * k + 1) + tail)
    return xp.where(xp.abs(d) < SMALL_DEVIATION, s * (near - 2.0 * tail), d - xp.log1p(d))


def poisson_term(rate: XpArray, count: XpArray) -> XpArray:
    """Return ``rate - count + count log(count / rate)``, infinite outside the domain (Baker & Cousins 1984, eq. 6)."""
    xp = namespace_of(rate)
    n = xp.where(count > 0.0, count, 1.0)
    seen = xp.where(rate > 0.0, n * log_gap((rate - n) / n), xp.inf)
    return xp.where(count > 0.0, seen, xp.where(rate >= 0.0, rate, xp.inf))


def additive_code(code: tuple[float, ...], alpha: XpArray) -> tuple[XpArray, XpArray, XpArray]:
    """Return q, q', q'' of the additive code ``code`` (`ModelTensors.additive`) at ``alpha``."""
    xp = namespace_of(alpha)
    threshold, c1, c2, c3, slope, intercept = code
    size, u = xp.abs(alpha), alpha * alpha
    inside = size < threshold
    sign = xp.where(alpha > 0.0, 1.0, -1.0).astype(alpha.dtype)
    value = xp.where(inside, u * (c1 + u * (c2 + u * c3)), slope * size + intercept)
    first = xp.where(inside, alpha * (2.0 * c1 + u * (4.0 * c2 + u * (6.0 * c3))), slope * sign)
    second = xp.where(inside, 2.0 * c1 + u * (12.0 * c2 + u * (30.0 * c3)), 0.0)
    return value, first, second


def multiplicative_code(
    threshold: float, poly: XpArray, log_hi: XpArray, log_lo: XpArray, alpha: XpArray
) -> tuple[XpArray, XpArray, XpArray]:
    """Return the factors f of normsys entries, f' and f'' at ``alpha`` (..., E, m).

    poly : (6, E, 1) coefficients; log_hi, log_lo : (E, 1).
    """
    xp = namespace_of(poly)
    inside = xp.abs(alpha) < threshold
    rate = xp.where(alpha > 0.0, log_hi, -log_lo)
    # Beyond the threshold the polynomial is not used; 0 keeps it from overflowing there.
    v, outside = xp.where(inside, alpha, 0.0), xp.exp(xp.where(inside, 0.0, rate * alpha))
    value, first, second = poly[5], 6.0 * poly[5], 30.0 * poly[5]
    for k in range(5, 0, -1):
        value, first = poly[k - 1] + v * value, k * poly[k - 1] + v * first
        second = k * (k - 1) * poly[k - 1] + v * second if k > 1 else second
    return (
        xp.where(inside, 1.0 + v * value, outside),
        xp.where(inside, first, rate * outside),
        xp.where(inside, second, rate * rate * outside),
    )
