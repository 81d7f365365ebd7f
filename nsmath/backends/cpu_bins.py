"""One bin: the saturated Poisson term, and the gammas that are profiled, in closed form or by one scalar root.

docs/maths.md, "Profiled gammas", has the derivation. With r = 1 - n / lambda the stationary gamma of slot l is
``a - sigma^2 S_l r`` (normal constraint) or ``m / (tau + S_l r)`` (Poisson constraint); lambda itself follows
from a quadratic when the bin has one gamma, from a monotone scalar equation when it has several.
"""

from __future__ import annotations

import math

from nsmath._typing import Array, IntArray
from nsmath.backends.jit import inlined, inner

NO_GAMMA, NORMAL, POISSON = -1, 0, 1
"""Kinds of slot."""
MAX_ROOT_STEPS = 200
ROOT_TOLERANCE = 4e-15
"""Relative to the count; the NLL errs by its square."""


@inlined
def poisson_term(rate: float, count: float) -> float:
    """Return ``rate - count + count log(count / rate)``, infinite outside the domain.

    Saturated form of Baker & Cousins, NIM 221 (1984) 437, eq. (6), as count (d - log(1 + d)) with
    d = rate / count - 1, which loses no digits near the minimum.
    """
    if count > 0.0:
        if rate > 0.0:
            d = (rate - count) / count
            return count * (d - math.log1p(d))
        return math.inf
    return rate if rate >= 0.0 else math.inf


@inlined
def gamma_at(r: float, s: float, kind: int, aux: float, scale: float, lower: float, upper: float) -> float:
    """Return the gamma that minimises its slot's NLL at residual ``r``, within its bounds."""
    if kind == POISSON:
        denominator = scale + s * r
        # Where the denominator is not positive the NLL falls with gamma all the way to the bound.
        gamma = aux / denominator if denominator > 0.0 else math.inf
    else:
        gamma = aux - scale * scale * s * r
    return min(max(gamma, lower), upper)


@inlined
def poisson_bin_rate(o: float, s: float, count: float, aux: float, scale: float) -> float:
    """Return the stationary rate of a bin ``o + gamma s`` with a Poisson constraint, bounds aside; needs s >= 0."""
    t = scale + s
    sn, ot, sa = s * count, o * t, s * aux
    # (sn - ot)^2 + ... is the discriminant without its cancellation.
    disc = (sn - ot) * (sn - ot) + 2.0 * sa * (sn + ot) + sa * sa
    return (sn + ot + sa + math.sqrt(disc)) / (2.0 * t)


@inlined
def normal_bin_rate(o: float, s: float, count: float, aux: float, variance: float) -> float:
    """Return the stationary rate of a bin ``o + gamma s`` with a normal constraint, bounds aside; needs s >= 0."""
    v = s * s * variance
    b = o + s * aux - v
    root = math.sqrt(b * b + 4.0 * v * count)
    return 0.5 * (b + root) if b >= 0.0 else 2.0 * v * count / (root - b)


@inner
def asked_rate(
    r: float, n_slots: int, kind: IntArray, s: Array, aux: Array, scale: Array, lower: Array, upper: Array
) -> tuple[float, float]:
    """Return ``sum_l gamma_l(r) S_l`` and its derivative by r, which is never above 0."""
    rate, slope = 0.0, 0.0
    for k in range(n_slots):
        if kind[k] == NO_GAMMA:
            rate += s[k]
            continue
        gamma = gamma_at(r, s[k], kind[k], aux[k], scale[k], lower[k], upper[k])
        rate += gamma * s[k]
        if lower[k] < gamma < upper[k]:
            if kind[k] == POISSON:
                slope -= gamma * s[k] * s[k] / (scale[k] + s[k] * r)
            else:
                slope -= scale[k] * scale[k] * s[k] * s[k]
    return rate, slope


@inner
def balanced_gamma(
    r: float,
    free: int,
    count: float,
    n_slots: int,
    kind: IntArray,
    s: Array,
    aux: Array,
    scale: Array,
    lower: Array,
    upper: Array,
) -> float:
    """Return the gamma of slot ``free`` that balances its bin at residual ``r``, -1 where its bounds forbid it.

    An auxiliary count of 0 leaves a term linear in gamma, tau gamma: then r = -tau / S makes every gamma of
    that slot stationary, and which one it is follows from lambda = n / (1 - r).
    """
    others = 0.0
    for k in range(n_slots):
        if k == free:
            continue
        if kind[k] == NO_GAMMA:
            others += s[k]
        else:
            others += s[k] * gamma_at(r, s[k], kind[k], aux[k], scale[k], lower[k], upper[k])
    gamma = (count / (1.0 - r) - others) / s[free]
    return gamma if lower[free] <= gamma <= upper[free] else -1.0


@inlined
def closed_residual(
    count: float, n_slots: int, kind: IntArray, s: Array, aux: Array, scale: Array, lower: Array, upper: Array
) -> float:
    """Return the residual of a bin with one gamma that its bounds do not touch; NaN for all other bins."""
    k = n_slots - 1
    if (k == 0 or (k == 1 and kind[0] == NO_GAMMA)) and s[k] >= 0.0 and (kind[k] == NORMAL or aux[k] > 0.0):
        o = s[0] if k == 1 else 0.0
        if kind[k] == POISSON:
            rate = poisson_bin_rate(o, s[k], count, aux[k], scale[k])
        else:
            rate = normal_bin_rate(o, s[k], count, aux[k], scale[k] * scale[k])
        if rate > 0.0:
            r = 1.0 - count / rate
            gamma = aux[k] / (scale[k] + s[k] * r) if kind[k] == POISSON else aux[k] - scale[k] * scale[k] * s[k] * r
            if lower[k] <= gamma <= upper[k]:
                return r
    return math.nan


@inner
def solve_bin(
    count: float,
    n_slots: int,
    kind: IntArray,
    s: Array,
    aux: Array,
    scale: Array,
    lower: Array,
    upper: Array,
    gamma: Array,
) -> float:
    """Fill ``gamma`` with a bin's stationary gammas and return its residual r; NaN where no rate >= 0 exists.

    r is the root of ``(1 - r) asked(r) = n``, whose left side falls with r wherever it is positive: Newton steps
    inside a bracket that bisection shrinks when they fail. With n = 0 the rate may have to be held at its bound 0;
    1 - r is then the multiplier of that bound, and r the root of ``asked(r) = 0``.
    """
    r = closed_residual(count, n_slots, kind, s, aux, scale, lower, upper)
    if r == r:
        fill_gammas(r, n_slots, kind, s, aux, scale, lower, upper, gamma)
        return r
    for k in range(n_slots):
        if kind[k] == POISSON and aux[k] <= 0.0 and s[k] != 0.0:
            pole: float = -scale[k] / s[k]
            if pole < 1.0:
                value = balanced_gamma(pole, k, count, n_slots, kind, s, aux, scale, lower, upper)
                if value >= 0.0:
                    fill_gammas(pole, n_slots, kind, s, aux, scale, lower, upper, gamma)
                    gamma[k] = value
                    return pole
    r = residual_root(count, n_slots, kind, s, aux, scale, lower, upper)
    fill_gammas(r, n_slots, kind, s, aux, scale, lower, upper, gamma)
    return r


@inlined
def fill_gammas(
    r: float,
    n_slots: int,
    kind: IntArray,
    s: Array,
    aux: Array,
    scale: Array,
    lower: Array,
    upper: Array,
    gamma: Array,
) -> None:
    """Fill ``gamma`` for the residual ``r``; 1 where a slot has none."""
    for k in range(n_slots):
        if kind[k] == NO_GAMMA:
            gamma[k] = 1.0
        else:
            gamma[k] = gamma_at(r, s[k], kind[k], aux[k], scale[k], lower[k], upper[k])


@inner
def residual_root(
    count: float, n_slots: int, kind: IntArray, s: Array, aux: Array, scale: Array, lower: Array, upper: Array
) -> float:
    """Return the root of `solve_bin`."""
    if count <= 0.0:
        rate, slope = asked_rate(1.0, n_slots, kind, s, aux, scale, lower, upper)
        if rate >= 0.0:
            return 1.0
    lo, hi = -math.inf, 1.0
    r = 0.0
    for _ in range(MAX_ROOT_STEPS):
        rate, slope = asked_rate(r, n_slots, kind, s, aux, scale, lower, upper)
        if count > 0.0:
            f, df = (1.0 - r) * rate - count, (1.0 - r) * slope - rate
        else:
            f, df = rate, slope
        if abs(f) <= ROOT_TOLERANCE * count:
            return r
        if f > 0.0:
            lo = r
        else:
            hi = r
        new = r - f / df if df < 0.0 else -math.inf
        if not (lo < new < hi):
            # Without a lower end yet, walk down; no rate can answer once r is beyond all scales.
            new = 0.5 * (lo + hi) if lo > -math.inf else 4.0 * min(r, -0.25)
            if new < -1e15:
                return math.nan
        if new == r or not (lo < new < hi):
            return r
        r = new
    return r
