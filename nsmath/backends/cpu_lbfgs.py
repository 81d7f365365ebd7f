"""Kernels of the cheap tier: one lockstep iteration of a projected L-BFGS, columns abreast.

Nocedal & Wright, Numerical Optimization (2nd ed.), algorithm 7.4, with the common inverse information as the
initial matrix; between `first_loop` and `second_loop` stands the matmul with it. Bounds as in the projected
quasi-Newton of Bertsekas, SIAM J. Control Optim. 20 (1982) 221: a parameter at a bound whose gradient points
outward is frozen.
"""

from __future__ import annotations

import math

import numpy as np

from nsmath._typing import AnyArray, Array
from nsmath.backends.cpu_tensors import STRIP
from nsmath.backends.jit import kernel

ARMIJO = 1e-4
SHRINK = 0.35
"""Step length after a rejected trial, relative to the one before."""
MIN_CURVATURE = 1e-14
"""A pair (s, y) with s'y below this carries no curvature, only rounding, and is not used."""
NLL_NOISE = 4e-14
"""Relative rounding of an NLL: trials that differ by less are equal."""


@kernel
def accept(
    width: int, x: Array, nll: Array, gradient: Array, trial: Array, trial_nll: Array, trial_gradient: Array,
    step: Array, steps: Array, changes: Array, rho: Array, head: int,
) -> None:
    """Take trials that decrease the NLL enough (Armijo) and store their pair; shorten the others' next step.

    A rejected column stores a pair with rho = 0, which does nothing: so the ring position is common to all.
    """
    n_z = x.shape[0]
    slope, sy = np.empty(STRIP), np.empty(STRIP)
    for s0 in range(0, width, STRIP):
        n = min(STRIP, width - s0)
        for i in range(n):
            slope[i] = 0.0
            sy[i] = 0.0
        for p in range(n_z):
            for i in range(n):
                slope[i] += (trial[p, s0 + i] - x[p, s0 + i]) * gradient[p, s0 + i]
        for i in range(n):
            j = s0 + i
            limit = nll[j] + ARMIJO * min(slope[i], 0.0) + NLL_NOISE * (1.0 + abs(nll[j]))
            # 1 takes the trial, 0 keeps the old point; a NaN or infinite NLL compares false.
            slope[i] = 1.0 if trial_nll[j] <= limit else 0.0
        for p in range(n_z):
            for i in range(n):
                j = s0 + i
                taken = slope[i] > 0.0
                s = trial[p, j] - x[p, j] if taken else 0.0
                y = trial_gradient[p, j] - gradient[p, j] if taken else 0.0
                steps[head, p, j] = s
                changes[head, p, j] = y
                sy[i] += s * y
                x[p, j] = trial[p, j] if taken else x[p, j]
                gradient[p, j] = trial_gradient[p, j] if taken else gradient[p, j]
        for i in range(n):
            j = s0 + i
            rho[head, j] = 1.0 / sy[i] if sy[i] > MIN_CURVATURE else 0.0
            if slope[i] > 0.0:
                nll[j] = trial_nll[j]
                step[j] = 1.0
            else:
                step[j] *= SHRINK


@kernel
def first_loop(
    width: int, x: Array, gradient: Array, lower: Array, upper: Array, fixed: AnyArray, steps: Array, changes: Array,
    rho: Array, head: int, n_pairs: int, direction: Array, alpha: Array, frozen: AnyArray,
) -> None:
    """Freeze parameters, and run the first loop of the recursion on the projected gradient into ``direction``."""
    n_z, memory = x.shape[0], rho.shape[0]
    dot = np.empty(STRIP)
    for s0 in range(0, width, STRIP):
        n = min(STRIP, width - s0)
        for p in range(n_z):
            for j in range(s0, s0 + n):
                g = gradient[p, j]
                stuck = ((x[p, j] <= lower[p]) & (g > 0.0)) | ((x[p, j] >= upper[p]) & (g < 0.0))
                keep = (fixed[p, j] == 0) & (not stuck)
                frozen[p, j] = 0 if keep else 1
                direction[p, j] = g if keep else 0.0
        for back in range(n_pairs):
            k = (head - back + memory) % memory
            for i in range(n):
                dot[i] = 0.0
            for p in range(n_z):
                for i in range(n):
                    dot[i] += steps[k, p, s0 + i] * direction[p, s0 + i]
            for i in range(n):
                dot[i] *= rho[k, s0 + i]
                alpha[k, s0 + i] = dot[i]
            for p in range(n_z):
                for i in range(n):
                    direction[p, s0 + i] -= dot[i] * changes[k, p, s0 + i]
        for p in range(n_z):
            for j in range(s0, s0 + n):
                direction[p, j] = 0.0 if frozen[p, j] else direction[p, j]


@kernel
def second_loop(
    width: int, x: Array, gradient: Array, lower: Array, upper: Array, frozen: AnyArray, steps: Array, changes: Array,
    rho: Array, head: int, n_pairs: int, matrix: Array, poi: int, direction: Array, alpha: Array, step: Array,
    trial: Array, decrement: Array, scaled: Array,
) -> None:
    """Finish the recursion; set the next ``trial``, the Newton ``decrement`` and the ``scaled`` gradient.

    decrement : half of g' H g over free parameters, the NLL that a Newton step would gain.
    scaled : largest |g_p| sqrt(V_pp), a gradient in units of the parameter's uncertainty.
    """
    n_z, memory = x.shape[0], rho.shape[0]
    dot = np.empty(STRIP)
    for s0 in range(0, width, STRIP):
        n = min(STRIP, width - s0)
        if poi >= 0 and matrix[poi, poi] > 0.0:
            # The POI at its bound is by far the most common frozen parameter: take the exact inverse without it.
            for i in range(n):
                dot[i] = direction[poi, s0 + i] / matrix[poi, poi] if frozen[poi, s0 + i] else 0.0
            for p in range(n_z):
                for i in range(n):
                    direction[p, s0 + i] -= matrix[p, poi] * dot[i]
        for back in range(n_pairs - 1, -1, -1):
            k = (head - back + memory) % memory
            for i in range(n):
                dot[i] = 0.0
            for p in range(n_z):
                for i in range(n):
                    dot[i] += changes[k, p, s0 + i] * direction[p, s0 + i]
            for i in range(n):
                dot[i] = alpha[k, s0 + i] - rho[k, s0 + i] * dot[i]
            for p in range(n_z):
                for i in range(n):
                    direction[p, s0 + i] += dot[i] * steps[k, p, s0 + i]
        for i in range(n):
            dot[i] = 0.0
            scaled[s0 + i] = 0.0
        for p in range(n_z):
            scale = math.sqrt(matrix[p, p])
            for i in range(n):
                j = s0 + i
                free = frozen[p, j] == 0
                d = direction[p, j] if free else 0.0
                g = gradient[p, j] if free else 0.0
                direction[p, j] = d
                dot[i] += g * d
                scaled[j] = max(scaled[j], abs(g) * scale)
        for i in range(n):
            if not dot[i] > 0.0:
                diagonal_direction(n_z, s0 + i, gradient, frozen, matrix, direction, rho)
                dot[i] = 0.0
                for p in range(n_z):
                    dot[i] += direction[p, s0 + i] * (0.0 if frozen[p, s0 + i] else gradient[p, s0 + i])
            decrement[s0 + i] = 0.5 * dot[i]
        for p in range(n_z):
            for j in range(s0, s0 + n):
                trial[p, j] = min(max(x[p, j] - step[j] * direction[p, j], lower[p]), upper[p])


@kernel
def diagonal_direction(
    n_z: int, j: int, gradient: Array, frozen: AnyArray, matrix: Array, direction: Array, rho: Array
) -> None:
    """Replace column j's direction, which was not one of descent, by a scaled gradient, and forget its pairs."""
    for p in range(n_z):
        direction[p, j] = 0.0 if frozen[p, j] else gradient[p, j] * matrix[p, p]
    for k in range(rho.shape[0]):
        rho[k, j] = 0.0


@kernel
def gather_columns(source: AnyArray, keep: AnyArray, n: int, out: AnyArray) -> None:
    """Copy columns ``keep[:n]`` (ascending) of ``source`` to the first n of ``out``, which may be ``source``."""
    for p in range(source.shape[0]):
        for j in range(n):
            out[p, j] = source[p, keep[j]]


@kernel
def gather_pairs(pairs: Array, keep: AnyArray, n: int) -> None:
    """Move columns ``keep[:n]`` (ascending) of the (memory, Z, N) pairs to the front, in place."""
    for k in range(pairs.shape[0]):
        for p in range(pairs.shape[1]):
            for j in range(n):
                pairs[k, p, j] = pairs[k, p, keep[j]]
