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
from nsmath.backends.cpu_strips import STRIP, strip
from nsmath.backends.jit import inlined, inner, kernel

ARMIJO = 1e-4
SHRINK = 0.35
"""Step length after a rejected trial, relative to the one before."""
MIN_CURVATURE = 1e-14
"""A pair (s, y) with s'y below this carries no curvature, only rounding, and is not used."""
NLL_NOISE = 4e-14
"""Relative rounding of an NLL: trials that differ by less are equal."""


@inlined
def add_product(total: Array, a: Array, b: Array) -> None:
    """Add the product of two rows to a third."""
    for i in range(STRIP):
        total[i] += a[i] * b[i]


@inlined
def subtract_product(total: Array, a: Array, b: Array) -> None:
    """Subtract the product of two rows from a third."""
    for i in range(STRIP):
        total[i] -= a[i] * b[i]


@inlined
def clear(row: Array) -> None:
    """Set a row to 0."""
    for i in range(STRIP):
        row[i] = 0.0


@inlined
def take_difference(new: Array, old: Array, taken: Array, out: Array) -> None:
    """Fill ``out`` with new - old where ``taken``, else 0, and move ``old`` there."""
    for i in range(STRIP):
        out[i] = new[i] - old[i] if taken[i] > 0.0 else 0.0
    for i in range(STRIP):
        old[i] = new[i] if taken[i] > 0.0 else old[i]


@kernel
def accept(
    width: int,
    x: Array,
    nll: Array,
    gradient: Array,
    trial: Array,
    trial_nll: Array,
    trial_gradient: Array,
    step: Array,
    steps: Array,
    changes: Array,
    rho: Array,
    head: int,
) -> None:
    """Take trials that decrease the NLL enough (Armijo) and store their pair; shorten the others' next step.

    A rejected column stores a pair with rho = 0, which does nothing: so the ring position is common to all.
    """
    n_z = x.shape[0]
    slope, sy, taken = np.empty(STRIP), np.empty(STRIP), np.empty(STRIP)
    for s0 in range(0, width, STRIP):
        clear(slope)
        clear(sy)
        for p in range(n_z):
            new, old, g = strip(trial, p, s0), strip(x, p, s0), strip(gradient, p, s0)
            for i in range(STRIP):
                slope[i] += (new[i] - old[i]) * g[i]
        for i in range(STRIP):
            before = nll[s0 + i]
            limit = before + ARMIJO * min(slope[i], 0.0) + NLL_NOISE * (1.0 + abs(before))
            # A NaN or infinite NLL compares false.
            taken[i] = 1.0 if trial_nll[s0 + i] <= limit else 0.0
        new_steps, new_changes = steps[head], changes[head]
        for p in range(n_z):
            s, y = strip(new_steps, p, s0), strip(new_changes, p, s0)
            take_difference(strip(trial, p, s0), strip(x, p, s0), taken, s)
            take_difference(strip(trial_gradient, p, s0), strip(gradient, p, s0), taken, y)
            add_product(sy, s, y)
        for i in range(STRIP):
            rho[head, s0 + i] = 1.0 / sy[i] if sy[i] > MIN_CURVATURE else 0.0
            if taken[i] > 0.0:
                nll[s0 + i] = trial_nll[s0 + i]
                step[s0 + i] = 1.0
            else:
                step[s0 + i] *= SHRINK


@kernel
def first_loop(
    width: int,
    x: Array,
    gradient: Array,
    lower: Array,
    upper: Array,
    fixed: AnyArray,
    steps: Array,
    changes: Array,
    rho: Array,
    head: int,
    n_pairs: int,
    direction: Array,
    alpha: Array,
    frozen: AnyArray,
) -> None:
    """Freeze parameters, and run the first loop of the recursion on the projected gradient into ``direction``."""
    n_z, memory = x.shape[0], rho.shape[0]
    dot = np.empty(STRIP)
    for s0 in range(0, width, STRIP):
        for p in range(n_z):
            low, high = lower[p], upper[p]
            x_row, g_row, f_row = strip(x, p, s0), strip(gradient, p, s0), strip(fixed, p, s0)
            out, frozen_row = strip(direction, p, s0), strip(frozen, p, s0)
            for i in range(STRIP):
                stuck = ((x_row[i] <= low) & (g_row[i] > 0.0)) | ((x_row[i] >= high) & (g_row[i] < 0.0))
                frozen_row[i] = f_row[i] | (1 if stuck else 0)
            for i in range(STRIP):
                out[i] = g_row[i] if frozen_row[i] == 0 else 0.0
        for back in range(n_pairs):
            k = (head - back + memory) % memory
            old_steps, old_changes = steps[k], changes[k]
            clear(dot)
            for p in range(n_z):
                add_product(dot, strip(old_steps, p, s0), strip(direction, p, s0))
            rho_row, alpha_row = strip(rho, k, s0), strip(alpha, k, s0)
            for i in range(STRIP):
                dot[i] *= rho_row[i]
                alpha_row[i] = dot[i]
            for p in range(n_z):
                subtract_product(strip(direction, p, s0), dot, strip(old_changes, p, s0))
        for p in range(n_z):
            out, frozen_row = strip(direction, p, s0), strip(frozen, p, s0)
            for i in range(STRIP):
                out[i] = out[i] if frozen_row[i] == 0 else 0.0


@kernel
def second_loop(
    width: int,
    x: Array,
    gradient: Array,
    lower: Array,
    upper: Array,
    frozen: AnyArray,
    steps: Array,
    changes: Array,
    rho: Array,
    head: int,
    n_pairs: int,
    matrix: Array,
    poi: int,
    direction: Array,
    alpha: Array,
    step: Array,
    trial: Array,
    decrement: Array,
    scaled: Array,
) -> None:
    """Finish the recursion; set the next ``trial``, the Newton ``decrement`` and the ``scaled`` gradient.

    decrement : half of g' H g over free parameters, the NLL that a Newton step would gain.
    scaled : largest |g_p| sqrt(V_pp), a gradient in units of the parameter's uncertainty.
    """
    n_z, memory = x.shape[0], rho.shape[0]
    dot, largest, g = np.empty(STRIP), np.empty(STRIP), np.empty(STRIP)
    for s0 in range(0, width, STRIP):
        if poi >= 0 and matrix[poi, poi] > 0.0:
            # The POI at its bound is by far the most common frozen parameter: take the exact inverse without it.
            for i in range(STRIP):
                dot[i] = direction[poi, s0 + i] / matrix[poi, poi] if frozen[poi, s0 + i] else 0.0
            for p in range(n_z):
                out, element = strip(direction, p, s0), matrix[p, poi]
                for i in range(STRIP):
                    out[i] -= element * dot[i]
        for back in range(n_pairs - 1, -1, -1):
            k = (head - back + memory) % memory
            old_steps, old_changes = steps[k], changes[k]
            clear(dot)
            for p in range(n_z):
                add_product(dot, strip(old_changes, p, s0), strip(direction, p, s0))
            rho_row, alpha_row = strip(rho, k, s0), strip(alpha, k, s0)
            for i in range(STRIP):
                dot[i] = alpha_row[i] - rho_row[i] * dot[i]
            for p in range(n_z):
                add_product(strip(direction, p, s0), dot, strip(old_steps, p, s0))
        clear(dot)
        clear(largest)
        for p in range(n_z):
            scale = math.sqrt(matrix[p, p])
            out, frozen_row, g_row = (
                strip(direction, p, s0), strip(frozen, p, s0), strip(gradient, p, s0)
            )  # fmt: skip
            for i in range(STRIP):
                g[i] = g_row[i] if frozen_row[i] == 0 else 0.0
            for i in range(STRIP):
                out[i] = out[i] if frozen_row[i] == 0 else 0.0
            add_product(dot, g, out)
            for i in range(STRIP):
                size = abs(g[i]) * scale
                largest[i] = size if size > largest[i] else largest[i]
        for i in range(STRIP):
            if not dot[i] > 0.0:
                dot[i] = diagonal_direction(n_z, s0 + i, gradient, frozen, matrix, direction, rho)
            decrement[s0 + i] = 0.5 * dot[i]
            scaled[s0 + i] = largest[i]
        step_row = step[s0 : s0 + STRIP]
        for p in range(n_z):
            low, high = lower[p], upper[p]
            x_row, out, trial_row = (
                strip(x, p, s0), strip(direction, p, s0), strip(trial, p, s0)
            )  # fmt: skip
            for i in range(STRIP):
                trial_row[i] = min(max(x_row[i] - step_row[i] * out[i], low), high)


@inner
def diagonal_direction(
    n_z: int, j: int, gradient: Array, frozen: AnyArray, matrix: Array, direction: Array, rho: Array
) -> float:
    """Replace column j's direction, which was not one of descent, by a scaled gradient, and forget its pairs.

    Returns its product with the gradient.
    """
    total = 0.0
    for p in range(n_z):
        g = 0.0 if frozen[p, j] else gradient[p, j]
        direction[p, j] = g * matrix[p, p]
        total += g * direction[p, j]
    for k in range(rho.shape[0]):
        rho[k, j] = 0.0
    return total


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
