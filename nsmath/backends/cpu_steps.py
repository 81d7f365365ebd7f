"""Damped Newton steps, one column after the other: bounded, with a Cholesky factor of their own.

Levenberg-Marquardt damping in the metric of the Hessian's own diagonal, or the constraint's where that is larger
(Nocedal & Wright, Numerical Optimization, 2nd ed., section 4.1 and 10.3), on the free parameters of a projected
Newton method (Bertsekas, SIAM J. Control Optim. 20 (1982) 221).
"""

from __future__ import annotations

import math

import numpy as np

from nsmath._typing import AnyArray, Array
from nsmath.backends.jit import inlined, inner, kernel

PANEL = 8
"""Rows of the Cholesky factor that are applied together to the rows below; `subtract_rows` spells them out."""
FLAT = 1e-8
"""Metric of a parameter that the likelihood does not depend on: keeps the damped matrix regular."""
FIRST_DAMPING = 1e-3
MAX_DAMPING = 1e12
NO_DAMPING = 1e-4
"""A damping below this is dropped altogether, so that the last steps converge quadratically."""
NLL_NOISE = 4e-14
"""Relative rounding of an NLL: trials that differ by less are equal."""
MIN_GAIN = 1e-4
"""A trial is taken when it gains this share of what the model predicts."""


@inlined
def subtract_rows(out: Array, u: Array, rows: Array, i: int) -> None:
    """Subtract ``sum_m u[m] rows[m, i:]`` over the PANEL rows from ``out``."""
    u0, u1, u2, u3, u4, u5, u6, u7 = u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7]
    r0, r1, r2, r3, r4, r5, r6, r7 = (
        rows[0, i:], rows[1, i:], rows[2, i:], rows[3, i:], rows[4, i:], rows[5, i:], rows[6, i:], rows[7, i:]
    )  # fmt: skip
    for j in range(out.size):
        out[j] -= u0 * r0[j] + u1 * r1[j] + u2 * r2[j] + u3 * r3[j] + u4 * r4[j] + u5 * r5[j] + u6 * r6[j] + u7 * r7[j]


@inlined
def add_scaled(out: Array, factor: float, row: Array) -> None:
    """Add ``factor`` times a row to another."""
    for j in range(out.size):
        out[j] += factor * row[j]


@inlined
def dot(a: Array, b: Array) -> float:
    """Return a'b by eight partial sums, which need not wait for each other."""
    n = a.size - a.size % 8
    s0, s1, s2, s3, s4, s5, s6, s7 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(0, n, 8):
        s0 += a[j] * b[j]
        s1 += a[j + 1] * b[j + 1]
        s2 += a[j + 2] * b[j + 2]
        s3 += a[j + 3] * b[j + 3]
        s4 += a[j + 4] * b[j + 4]
        s5 += a[j + 5] * b[j + 5]
        s6 += a[j + 6] * b[j + 6]
        s7 += a[j + 7] * b[j + 7]
    rest = 0.0
    for j in range(n, a.size):
        rest += a[j] * b[j]
    return ((s0 + s4) + (s1 + s5)) + ((s2 + s6) + (s3 + s7)) + rest


@inner
def cholesky(a: Array) -> bool:
    """Factor the square ``a`` in place, a = U'U (upper triangle); False when it is not positive definite."""
    n = a.shape[0]
    for k0 in range(0, n, PANEL):
        k1 = min(k0 + PANEL, n)
        for k in range(k0, k1):
            row = a[k, k:]
            for m in range(k0, k):
                add_scaled(row, -a[m, k], a[m, k:])
            pivot = row[0]
            if not pivot > 0.0:
                return False
            inverse = 1.0 / math.sqrt(pivot)
            for j in range(row.size):
                row[j] *= inverse
        if k1 - k0 == PANEL:
            for i in range(k1, n):
                subtract_rows(a[i, i:], a[k0:k1, i], a[k0:k1], i)
    return True


@inner
def cholesky_solve(a: Array, b: Array) -> None:
    """Solve U'U x = b in place, for the factor of `cholesky`."""
    n = a.shape[0]
    for k in range(n):
        b[k] /= a[k, k]
        add_scaled(b[k + 1 :], -b[k], a[k, k + 1 :])
    for k in range(n - 1, -1, -1):
        b[k] = (b[k] - dot(a[k, k + 1 :], b[k + 1 :])) / a[k, k]


@kernel
def newton_steps(
    width: int,
    todo: AnyArray,
    x: Array,
    gradient: Array,
    hessian: Array,
    prior: Array,
    lower: Array,
    upper: Array,
    fixed: AnyArray,
    damping: Array,
    trial: Array,
    predicted: Array,
    decrement: Array,
    scaled: Array,
) -> None:
    """Set every column's next ``trial`` and the gain ``predicted`` for it; raise ``damping`` until H is definite.

    decrement : half of g' H^-1 g over free parameters when the step is undamped, infinite otherwise.
    scaled : largest |g_p| / sqrt(metric_p) over free parameters.
    """
    n_z = x.shape[0]
    metric, at, g, new = np.empty(n_z), np.empty(n_z), np.empty(n_z), np.empty(n_z)
    factor, step, work = np.empty((n_z, n_z)), np.empty(n_z), np.empty(n_z)
    held = np.empty(n_z, dtype=np.uint8)
    for i in range(width):
        if not todo[i]:
            continue
        largest = 0.0
        for p in range(n_z):
            at[p], g[p] = x[p, i], gradient[p, i]
            metric[p] = max(abs(hessian[i, p, p]), prior[i, p]) + FLAT
            stuck = (at[p] <= lower[p] and g[p] > 0.0) or (at[p] >= upper[p] and g[p] < 0.0)
            held[p] = 1 if fixed[p, i] or stuck else 0
            if held[p]:
                g[p] = 0.0
            largest = max(largest, abs(g[p]) / math.sqrt(metric[p]))
        again = True
        while again:
            damping[i] = factorise(hessian[i], metric, held, damping[i], factor)
            for p in range(n_z):
                step[p] = -g[p]
            cholesky_solve(factor, step)
            again = False
            for p in range(n_z):
                # A parameter on its bound that the joint step would push outward is held, and the rest solved anew.
                if (at[p] <= lower[p] and step[p] < 0.0) or (at[p] >= upper[p] and step[p] > 0.0):
                    held[p], g[p] = 1, 0.0
                    again = True
        total, moves = 0.0, False
        for p in range(n_z):
            if held[p]:
                step[p] = 0.0
            total -= g[p] * step[p]
            moves = moves or held[p] == 0
            new[p] = at[p] if held[p] else min(max(at[p] + step[p], lower[p]), upper[p])
        gain = predicted_gain(hessian[i], g, at, new, work)
        if not gain > 0.0 and moves:
            shorten(lower, upper, at, step, new)
            gain = predicted_gain(hessian[i], g, at, new, work)
        for p in range(n_z):
            trial[p, i] = new[p]
        predicted[i], scaled[i] = gain, largest
        decrement[i] = 0.5 * total if damping[i] == 0.0 else math.inf


@inner
def factorise(hessian: Array, metric: Array, held: AnyArray, damping: float, factor: Array) -> float:
    """Factor H + damping diag(metric); return the damping that made it positive definite.

    A parameter that is held becomes a row and a column of the unit matrix, so that every row stays contiguous.
    """
    n = hessian.shape[0]
    while True:
        for p in range(n):
            source, target = hessian[p, p:], factor[p, p:]
            for j in range(source.size):
                target[j] = source[j]
            target[0] += damping * metric[p]
        for h in range(n):
            if held[h]:
                for p in range(h):
                    factor[p, h] = 0.0
                for p in range(h, n):
                    factor[h, p] = 0.0
                factor[h, h] = 1.0
        if cholesky(factor) or damping > MAX_DAMPING:
            return damping
        damping = max(FIRST_DAMPING, 4.0 * damping)


@inner
def predicted_gain(hessian: Array, gradient: Array, x: Array, trial: Array, work: Array) -> float:
    """Return -(g'd + d'Hd / 2) for the step d = trial - x; ``work`` is scratch."""
    n = x.size
    linear, quadratic = 0.0, 0.0
    for p in range(n):
        work[p] = 0.0
    for p in range(n):
        d = trial[p] - x[p]
        if d != 0.0:
            linear += gradient[p] * d
            # By rows of the upper triangle: work collects what stands above the diagonal.
            quadratic += d * (0.5 * hessian[p, p] * d + work[p])
            add_scaled(work[p + 1 :], d, hessian[p, p + 1 :])
    return -(linear + quadratic)


@inner
def shorten(lower: Array, upper: Array, x: Array, step: Array, trial: Array) -> None:
    """Cut a step back to the first bound it meets: then it keeps its direction, which descends."""
    length = 1.0
    for p in range(x.size):
        if step[p] < 0.0:
            length = min(length, (lower[p] - x[p]) / step[p])
        elif step[p] > 0.0:
            length = min(length, (upper[p] - x[p]) / step[p])
    for p in range(x.size):
        if step[p] != 0.0:
            trial[p] = min(max(x[p] + length * step[p], lower[p]), upper[p])


@kernel
def newton_accept(
    width: int,
    todo: AnyArray,
    x: Array,
    nll: Array,
    gradient: Array,
    trial: Array,
    trial_nll: Array,
    trial_gradient: Array,
    predicted: Array,
    damping: Array,
) -> None:
    """Take trials that gain enough and set the damping from the gain ratio; ``todo`` 1 where x moved, else 0."""
    n_z = x.shape[0]
    for i in range(width):
        noise = NLL_NOISE * (1.0 + abs(nll[i]))
        gain = nll[i] - trial_nll[i]
        small = predicted[i] <= 16.0 * noise
        ratio = gain / predicted[i] if predicted[i] > 0.0 else -1.0
        taken = (ratio > MIN_GAIN) or (small and gain >= -2.0 * noise)
        todo[i] = 1 if taken else 0
        if taken:
            nll[i] = trial_nll[i]
            for p in range(n_z):
                x[p, i] = trial[p, i]
                gradient[p, i] = trial_gradient[p, i]
            if ratio > 0.75 or small:
                damping[i] = 0.1 * damping[i] if damping[i] > NO_DAMPING else 0.0
            elif ratio < 0.25:
                damping[i] = max(FIRST_DAMPING, 3.0 * damping[i])
        else:
            damping[i] = max(FIRST_DAMPING, 6.0 * damping[i])
