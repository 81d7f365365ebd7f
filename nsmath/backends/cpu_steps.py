# LEAD -> KERNEL HELPER (02:02): I rewrote cpu_bins.py, cpu_kernels.py (tHu poisson now 8.7 us, complex 0.2) and am doing
# cpu_lbfgs.py + cpu.py layout right now. DO NOT overwrite these four with your drafts. YOURS: cpu_newton.py (curvature_factors
# still 630 us; see how cpu_kernels.py vectorises with 1-D row views), cpu_steps.py (newton_steps 300 us), cpu_sampling jit swap,
# and compile time of those. Apply your exp/log1p functions to cpu_kernels.py only by small edits. Remove this note when read.
"""Damped Newton steps, one column after the other: bounded, with a Cholesky factor of their own.

Levenberg-Marquardt damping in the metric of the Hessian's own diagonal, or the constraint's where that is larger (Nocedal & Wright, Numerical Optimization,
2nd ed., section 4.1 and 10.3), on the free parameters of a projected Newton method (Bertsekas, SIAM J. Control
Optim. 20 (1982) 221).
"""

from __future__ import annotations

import math

import numpy as np

from nsmath._typing import AnyArray, Array
from nsmath.backends.jit import kernel

PANEL = 8
"""Rows of the Cholesky factor that are applied together to the rows below."""
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


@kernel
def cholesky(a: Array, n: int) -> bool:
    """Factor the leading n x n block in place, a = U'U (upper triangle); False when it is not positive definite."""
    for k0 in range(0, n, PANEL):
        k1 = min(k0 + PANEL, n)
        for k in range(k0, k1):
            for m in range(k0, k):
                u = a[m, k]
                for j in range(k, n):
                    a[k, j] -= u * a[m, j]
            pivot = a[k, k]
            if not pivot > 0.0:
                return False
            inverse = 1.0 / math.sqrt(pivot)
            for j in range(k, n):
                a[k, j] *= inverse
        if k1 - k0 < PANEL:
            break
        for i in range(k1, n):
            u0, u1, u2, u3 = a[k0, i], a[k0 + 1, i], a[k0 + 2, i], a[k0 + 3, i]
            u4, u5, u6, u7 = a[k0 + 4, i], a[k0 + 5, i], a[k0 + 6, i], a[k0 + 7, i]
            for j in range(i, n):
                a[i, j] -= (
                    u0 * a[k0, j] + u1 * a[k0 + 1, j] + u2 * a[k0 + 2, j] + u3 * a[k0 + 3, j]
                    + u4 * a[k0 + 4, j] + u5 * a[k0 + 5, j] + u6 * a[k0 + 6, j] + u7 * a[k0 + 7, j]
                )
    return True


@kernel
def cholesky_solve(a: Array, n: int, b: Array) -> None:
    """Solve U'U x = b in place, for the factor of `cholesky`."""
    for k in range(n):
        b[k] /= a[k, k]
        v = b[k]
        for j in range(k + 1, n):
            b[j] -= v * a[k, j]
    for k in range(n - 1, -1, -1):
        total = b[k]
        for j in range(k + 1, n):
            total -= a[k, j] * b[j]
        b[k] = total / a[k, k]


@kernel
def newton_steps(
    width: int, todo: AnyArray, x: Array, gradient: Array, hessian: Array, prior: Array, lower: Array, upper: Array,
    fixed: AnyArray, damping: Array, trial: Array, predicted: Array, decrement: Array, scaled: Array,
) -> None:
    """Set every column's next ``trial`` and the gain ``predicted`` for it; raise ``damping`` until H is definite.

    decrement : half of g' H^-1 g over free parameters when the step is undamped, infinite otherwise.
    scaled : largest |g_p| / sqrt(metric_p) over free parameters.
    """
    n_z = x.shape[0]
    metric = np.empty(n_z)
    factor, step, free = np.empty((n_z, n_z)), np.empty(n_z), np.empty(n_z, dtype=np.int64)
    held = np.empty(n_z, dtype=np.uint8)
    for i in range(width):
        if not todo[i]:
            continue
        scaled[i] = 0.0
        for p in range(n_z):
            metric[p] = max(abs(hessian[i, p, p]), prior[i, p]) + FLAT
            g = gradient[p, i]
            stuck = (x[p, i] <= lower[p] and g > 0.0) or (x[p, i] >= upper[p] and g < 0.0)
            held[p] = 1 if fixed[p, i] or stuck else 0
            if not held[p]:
                scaled[i] = max(scaled[i], abs(g) / math.sqrt(metric[p]))
        again = True
        while again:
            n = 0
            for p in range(n_z):
                if not held[p]:
                    free[n] = p
                    n += 1
            damping[i] = factorise(hessian[i], metric, free, n, damping[i], factor)
            for a in range(n):
                step[a] = -gradient[free[a], i]
            cholesky_solve(factor, n, step)
            again = False
            for a in range(n):
                p = free[a]
                # A parameter on its bound that the joint step would push outward is held, and the rest solved anew.
                if (x[p, i] <= lower[p] and step[a] < 0.0) or (x[p, i] >= upper[p] and step[a] > 0.0):
                    held[p] = 1
                    again = True
        total = 0.0
        for p in range(n_z):
            trial[p, i] = x[p, i]
        for a in range(n):
            p = free[a]
            total -= gradient[p, i] * step[a]
            trial[p, i] = min(max(x[p, i] + step[a], lower[p]), upper[p])
        decrement[i] = 0.5 * total if damping[i] == 0.0 else math.inf
        predicted[i] = predicted_gain(hessian[i], gradient, x, trial, free, n, i)
        if not predicted[i] > 0.0 and n > 0:
            shorten(lower, upper, x, trial, free, n, i, step)
            predicted[i] = predicted_gain(hessian[i], gradient, x, trial, free, n, i)


@kernel
def factorise(hessian: Array, metric: Array, free: AnyArray, n: int, damping: float, factor: Array) -> float:
    """Factor H + damping diag(metric) over ``free``; return the damping that made it positive definite."""
    while True:
        for a in range(n):
            p = free[a]
            for b in range(a, n):
                factor[a, b] = hessian[p, free[b]]
            factor[a, a] += damping * metric[p]
        if cholesky(factor, n) or damping > MAX_DAMPING:
            return damping
        damping = max(FIRST_DAMPING, 4.0 * damping)


@kernel
def predicted_gain(
    hessian: Array, gradient: Array, x: Array, trial: Array, free: AnyArray, n: int, i: int
) -> float:
    """Return -(g'd + d'Hd / 2) for the step d = trial - x of column i."""
    linear, quadratic = 0.0, 0.0
    for a in range(n):
        p = free[a]
        d = trial[p, i] - x[p, i]
        if d == 0.0:
            continue
        linear += gradient[p, i] * d
        row = 0.5 * hessian[p, p] * d
        for b in range(a + 1, n):
            row += hessian[p, free[b]] * (trial[free[b], i] - x[free[b], i])
        quadratic += d * row
    return -(linear + quadratic)


@kernel
def shorten(
    lower: Array, upper: Array, x: Array, trial: Array, free: AnyArray, n: int, i: int, step: Array
) -> None:
    """Cut column i's step back to the first bound it meets: then it keeps its direction, which descends."""
    length = 1.0
    for a in range(n):
        p = free[a]
        if step[a] < 0.0:
            length = min(length, (lower[p] - x[p, i]) / step[a])
        elif step[a] > 0.0:
            length = min(length, (upper[p] - x[p, i]) / step[a])
    for a in range(n):
        p = free[a]
        trial[p, i] = min(max(x[p, i] + length * step[a], lower[p]), upper[p])


@kernel
def newton_accept(
    width: int, todo: AnyArray, x: Array, nll: Array, gradient: Array, trial: Array, trial_nll: Array,
    trial_gradient: Array, predicted: Array, damping: Array,
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
