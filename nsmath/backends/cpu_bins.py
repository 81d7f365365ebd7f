"""Kernels for one bin: the saturated Poisson term, and the gammas that are profiled in closed form.

docs/maths.md, "Profiled gammas", has the derivation. With r = 1 - n / lambda the stationary gamma of slot l is
``a - sigma^2 S_l r`` (normal constraint) or ``m / (tau + S_l r)`` (Poisson constraint); lambda itself follows
from a quadratic when the bin has one gamma, from a monotone scalar equation when it has several.
"""

from __future__ import annotations

import math

from nsmath._typing import Array
from nsmath.backends.cpu_tensors import KernelTensors
from nsmath.backends.jit import inlined

MAX_ROOT_STEPS = 200
ROOT_TOLERANCE = 2e-15
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
    if rate >= 0.0:
        return rate
    return math.inf


@inlined
def gamma_at(r: float, s: float, is_poisson: int, aux: float, scale: float, lower: float, upper: float) -> float:
    """Return the gamma that minimises its slot's NLL at residual ``r``, within its bounds."""
    if is_poisson:
        denominator = scale + s * r
        # Where the denominator is not positive the NLL falls with gamma all the way to the bound.
        gamma = aux / denominator if denominator > 0.0 else math.inf
    else:
        gamma = aux - scale * scale * s * r
    return min(max(gamma, lower), upper)


@inlined
def gamma_term(gamma: float, is_poisson: int, aux: float, scale: float) -> float:
    """Return the constraint's part of the NLL: saturated Poisson, or half the squared pull."""
    if is_poisson:
        return poisson_term(gamma * scale, aux)
    pull = (gamma - aux) / scale
    return 0.5 * pull * pull


@inlined
def one_gamma_rate(o: float, s: float, count: float, is_poisson: int, aux: float, scale: float) -> float:
    """Return the stationary rate of a bin ``o + gamma s``, bounds aside; NaN where there is none in the domain."""
    if is_poisson:
        t = scale + s
        diff = s * count - o * t
        b = s * count + o * t + s * aux
        disc = diff * diff + 2.0 * s * aux * (s * count + o * t) + s * s * aux * aux
        if t <= 0.0 or disc < 0.0:
            return math.nan
        return (b + math.sqrt(disc)) / (2.0 * t)
    v = s * s * scale * scale
    b = o + s * aux - v
    disc = math.sqrt(b * b + 4.0 * v * count)
    if b >= 0.0:
        return 0.5 * (b + disc)
    return 2.0 * v * count / (disc - b)


@inlined
def asked_rate(
    t: KernelTensors, r: float, first: int, last: int, slots: Array, slot0: int, i: int, aux: Array, column: int
) -> tuple[float, float]:
    """Return ``sum_l gamma_l(r) S_l`` over slots first..last-1, and its derivative by r (never above 0).

    S_l stands in ``slots[l - slot0, i]``, the auxiliary data in ``aux[:, column]``.
    """
    rate, slope = 0.0, 0.0
    for slot in range(first, last):
        g = t.slot_gamma[slot]
        s = slots[slot - slot0, i]
        if g < 0:
            rate += s
            continue
        scale, lower, upper = t.gamma_scale[g], t.gamma_lower[g], t.gamma_upper[g]
        gamma = gamma_at(r, s, t.gamma_is_poisson[g], aux[t.gamma_aux[g], column], scale, lower, upper)
        rate += gamma * s
        if lower < gamma < upper:
            if t.gamma_is_poisson[g]:
                slope -= gamma * s * s / (scale + s * r)
            else:
                slope -= scale * scale * s * s
    return rate, slope


@inlined
def free_gamma(
    t: KernelTensors, r: float, free: int, count: float, first: int, last: int, slots: Array, slot0: int, i: int,
    aux: Array, column: int,
) -> float:
    """Return the gamma of slot ``free`` that balances its bin at residual ``r``, -1 where its bounds forbid it.

    An auxiliary count of 0 leaves a term linear in gamma, tau gamma: then r = -tau / S makes every gamma of
    that slot stationary, and which one it is follows from lambda = n / (1 - r).
    """
    others = 0.0
    for slot in range(first, last):
        g = t.slot_gamma[slot]
        s = slots[slot - slot0, i]
        if slot == free:
            continue
        if g < 0:
            others += s
        else:
            others += s * gamma_at(
                r, s, t.gamma_is_poisson[g], aux[t.gamma_aux[g], column], t.gamma_scale[g], t.gamma_lower[g],
                t.gamma_upper[g],
            )
    gamma = (count / (1.0 - r) - others) / slots[free - slot0, i]
    g = t.slot_gamma[free]
    return gamma if t.gamma_lower[g] <= gamma <= t.gamma_upper[g] else -1.0


@inlined
def slot_gamma_value(
    t: KernelTensors, r: float, slot: int, count: float, first: int, last: int, slots: Array, slot0: int, i: int,
    aux: Array, column: int,
) -> float:
    """Return the profiled gamma of one slot, given the bin's stationary residual."""
    g = t.slot_gamma[slot]
    s = slots[slot - slot0, i]
    a, scale = aux[t.gamma_aux[g], column], t.gamma_scale[g]
    if t.gamma_is_poisson[g] and a <= 0.0 and s != 0.0 and r == -scale / s:
        gamma = free_gamma(t, r, slot, count, first, last, slots, slot0, i, aux, column)
        if gamma >= 0.0:
            return gamma
    return gamma_at(r, s, t.gamma_is_poisson[g], a, scale, t.gamma_lower[g], t.gamma_upper[g])


@inlined
def stationary_residual(
    t: KernelTensors, count: float, first: int, last: int, slots: Array, slot0: int, i: int, aux: Array, column: int
) -> float:
    """Return the residual r at which all gammas of a bin are stationary; NaN where no rate >= 0 exists.

    Root of ``(1 - r) asked(r) = n``, whose left side falls with r wherever it is positive: Newton steps inside a
    bracket that bisection shrinks when they fail. With n = 0 the rate may have to be held at its bound 0; 1 - r is
    then the multiplier of that bound, and r the root of ``asked(r) = 0``.
    """
    hi = 1.0
    rate, slope = asked_rate(t, hi, first, last, slots, slot0, i, aux, column)
    if count <= 0.0 and rate >= 0.0:
        return 1.0
    for slot in range(first, last):
        g = t.slot_gamma[slot]
        s = slots[slot - slot0, i]
        if g >= 0 and t.gamma_is_poisson[g] and aux[t.gamma_aux[g], column] <= 0.0 and s != 0.0:
            r = -t.gamma_scale[g] / s
            if r < 1.0 and free_gamma(t, r, slot, count, first, last, slots, slot0, i, aux, column) >= 0.0:
                return r
    lo = -1.0
    for _ in range(MAX_ROOT_STEPS):
        rate, slope = asked_rate(t, lo, first, last, slots, slot0, i, aux, column)
        if (1.0 - lo) * rate >= count:
            break
        if lo < -1e15:
            return math.nan
        hi = lo
        lo *= 4.0
    r = 0.0 if lo < 0.0 < hi else 0.5 * (lo + hi)
    for _ in range(MAX_ROOT_STEPS):
        rate, slope = asked_rate(t, r, first, last, slots, slot0, i, aux, column)
        if count > 0.0:
            f, df = (1.0 - r) * rate - count, (1.0 - r) * slope - rate
            small = abs(f) <= ROOT_TOLERANCE * count
        else:
            f, df = rate, slope
            small = f == 0.0
        if small:
            break
        if f > 0.0:
            lo = r
        else:
            hi = r
        new = r - f / df if df < 0.0 else lo - 1.0
        if not (lo < new < hi):
            new = 0.5 * (lo + hi)
        if new == r or not (lo < new < hi):
            break
        r = new
    return r


@inlined
def bin_residual(
    t: KernelTensors, count: float, first: int, last: int, slots: Array, slot0: int, i: int, aux: Array, column: int
) -> float:
    """Return r = 1 - n / lambda at a bin's stationary gammas: in closed form where it can be; NaN out of domain."""
    g = t.slot_gamma[last - 1]
    if last - first == 1 or (last - first == 2 and t.slot_gamma[first] < 0):
        o = slots[first - slot0, i] if last - first == 2 else 0.0
        s = slots[last - 1 - slot0, i]
        a, scale, is_poisson = aux[t.gamma_aux[g], column], t.gamma_scale[g], t.gamma_is_poisson[g]
        if s >= 0.0 and (a > 0.0 or not is_poisson):
            rate = one_gamma_rate(o, s, count, is_poisson, a, scale)
            if rate > 0.0:
                r = 1.0 - count / rate
                if is_poisson:
                    gamma = a / (scale + s * r)
                else:
                    gamma = a - scale * scale * s * r
                if t.gamma_lower[g] <= gamma <= t.gamma_upper[g]:
                    return r
    return stationary_residual(t, count, first, last, slots, slot0, i, aux, column)
