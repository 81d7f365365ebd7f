"""Kernels of the robust tier: damped Newton steps with the exact Hessian of every column.

The Hessian of the profile likelihood has a part from matmuls, ``sum_k w_k J_k J_k'`` over bins and profiled
slots, and a sparse part from the second derivatives of the rates (docs/maths.md, "Exact Hessian"). The kernels
here fill the factors of the first and add the second; only upper triangles are read.
"""

from __future__ import annotations

import numpy as np

from nsmath._typing import AnyArray, Array, IntArray
from nsmath.backends.cpu_bins import NO_GAMMA, asked_rate, solve_bin
from nsmath.backends.cpu_curvature import (
    CurvatureTables,
    cell_vectors,
    entry_logs,
    finish_j_rows,
    outer_products,
    row_factor_pairs,
    slot_sums,
    symmetric_sum,
)
from nsmath.backends.cpu_tensors import Offsets
from nsmath.backends.jit import inlined, inner, kernel

TINY_AUX = 1e-7
"""Stands in for an auxiliary Poisson count of 0, whose gamma the Hessian could not see otherwise."""
TINY_FACTOR = 1e-100
"""Stands in for a factor that is 0: only quotients of it are used, and those stay exact."""


@inlined
def additive_derivatives(additive: Array, x: float) -> tuple[float, float]:
    """Return (q', q'') of the additive code at alpha = x."""
    if abs(x) < additive[0]:
        u = x * x
        c1, c2, c3 = additive[1], additive[2], additive[3]
        return x * (2.0 * c1 + u * (4.0 * c2 + u * 6.0 * c3)), 2.0 * c1 + u * (12.0 * c2 + u * 30.0 * c3)
    return (additive[4] if x > 0.0 else -additive[4]), 0.0


@inner
def bin_weights(
    t: Offsets,
    ints: IntArray,
    floats: Array,
    counts: Array,
    aux: Array,
    slots: Array,
    omega: Array,
    share: Array,
    weight: Array,
    small: Array,
    kind: IntArray,
) -> None:
    """Fill the slot weights ``omega``, ``share`` c_l = d(gamma_l S_l)/dS_l at fixed r, and the J-rows' weights."""
    for b in range(t.n_bins):
        count = counts[b]
        first, last = ints[t.bin_slot + b], ints[t.bin_slot + b + 1]
        for slot in range(first, last):
            k, g = slot - first, ints[t.slot_gamma + slot]
            small[0, k] = slots[slot]
            kind[k] = NO_GAMMA
            if g >= 0:
                kind[k], small[1, k] = ints[t.gamma_is_poisson + g], aux[g]
                small[2, k], small[3, k] = floats[t.gamma_scale + g], floats[t.gamma_lower + g]
                small[4, k] = floats[t.gamma_upper + g]
        if ints[t.slot_gamma + last - 1] >= 0:
            r = solve_bin(count, last - first, kind, small[0], small[1], small[2], small[3], small[4], small[5])
            rate, slope = asked_rate(r, last - first, kind, small[0], small[1], small[2], small[3], small[4])
        else:
            rate, slope = 0.0, 0.0
            for slot in range(first, last):
                rate += slots[slot]
            r = 1.0 - count / rate if count > 0.0 else 1.0
        w = count / (rate * rate) if rate > 0.0 else 0.0
        w /= 1.0 - w * slope
        if count <= 0.0 and r < 1.0 and slope < 0.0:
            # The rate is held at its bound 0, as if its weight were infinite.
            w = -1.0 / slope
        weight[b] = w
        for slot in range(first, last):
            g = ints[t.slot_gamma + slot]
            if g < 0:
                omega[slot], share[slot] = r, 1.0
                continue
            s, scale, gamma = slots[slot], floats[t.gamma_scale + g], small[5, slot - first]
            per_s = 0.0
            if floats[t.gamma_lower + g] < gamma < floats[t.gamma_upper + g]:
                per_s = -gamma * r / (scale + s * r) if ints[t.gamma_is_poisson + g] else -scale * scale * r
            omega[slot], share[slot] = r * gamma, gamma + s * per_s
            if ints[t.slot_k + slot] >= 0:
                weight[ints[t.slot_k + slot]] = r * per_s
            else:
                # One slot: both terms stand on the same J, so one J-row with their sum will do.
                weight[b] = w * share[slot] * share[slot] + r * per_s
                share[slot] = 1.0


@inner
def constraint_curvatures(
    t: Offsets, ints: IntArray, floats: Array, x: Array, aux: Array, i: int, prior: Array
) -> None:
    """Fill ``prior`` (Z,) with the constraints' second derivatives of column i of ``aux``."""
    for p in range(prior.size):
        prior[p] = 0.0
    for k in range(t.n_z_normal):
        sigma = floats[t.z_normal_sigma + k]
        prior[ints[t.z_normal + k]] += 1.0 / (sigma * sigma)
    for k in range(t.n_z_poisson):
        p = ints[t.z_poisson + k]
        prior[p] += aux[ints[t.z_poisson_aux + k], i] / (x[p] * x[p])


@kernel
def curvature_factors(
    t: Offsets,
    ints: IntArray,
    floats: Array,
    c: CurvatureTables,
    width: int,
    todo: AnyArray,
    z: Array,
    shapes: Array,
    data: Array,
    aux: Array,
    left: Array,
    right: Array,
    hessian: Array,
    prior: Array,
) -> None:
    """Fill ``left`` and ``right`` (N, K, Z), whose product completes ``hessian`` (N, Z, Z), and its sparse part.

    Columns with ``todo`` 0 get left = 0 and keep their Hessian. ``prior`` (N, Z) becomes the curvature of
    the constraints alone.
    """
    n_z, n_l = z.shape[0], t.n_slots
    x, shape = np.empty(n_z), np.empty(t.n_rows)
    entry_z, row_factors = ints[t.entry_z : t.entry_z + t.n_entries], ints[t.row_factor_start + t.n_rows]
    entries, log_slope = np.empty((4, t.n_entries)), np.empty(t.n_entries + c.n_factors + row_factors)
    slope, bend, scratch = np.empty(t.n_histosys), np.empty(t.n_histosys), np.empty((4, t.n_histosys))
    row_factor, slots = np.empty(t.n_rows), np.empty(n_l)
    omega, share, weight = np.empty(n_l), np.empty(n_l), np.empty(t.n_k)
    gamma_aux, counts = np.empty(t.n_gammas), np.empty(t.n_bins)
    small, kind = np.empty((6, t.max_slots)), np.empty(t.max_slots, dtype=np.int64)
    vectors, half, diagonal = np.empty((t.n_cells, n_z)), np.empty((n_z, n_z)), np.empty(n_z)
    for i in range(width):
        if not todo[i]:
            left[i] = 0.0
            continue
        right[i] = 0.0
        for p in range(n_z):
            x[p] = z[p, i] if abs(z[p, i]) > TINY_FACTOR else TINY_FACTOR
        for r in range(t.n_rows):
            shape[r] = shapes[r, i]
        for h in range(t.n_histosys):
            slope[h], bend[h] = additive_derivatives(floats[t.additive : t.additive + 6], z[ints[t.histosys_z + h], i])
        for g in range(t.n_gammas):
            a = aux[ints[t.gamma_aux + g], i]
            gamma_aux[g] = max(a, TINY_AUX) if ints[t.gamma_is_poisson + g] else a
        entry_logs(x, entry_z, c.poly, c.side, t.threshold, entries)
        for e in range(t.n_entries):
            log_slope[e] = entries[2, e]
        slot_sums(t, ints, c.n_factors, x, shape, entries[1], log_slope, row_factor, slots)
        for b in range(t.n_bins):
            counts[b] = data[b, i]
        bin_weights(t, ints, floats, counts, gamma_aux, slots, omega, share, weight, small, kind)
        constraint_curvatures(t, ints, floats, x, aux, i, prior[i])
        for p in range(n_z):
            diagonal[p] = prior[i, p]
        cell_vectors(
            t, ints, c, shape, row_factor, omega, share, entries[3], log_slope, slope, bend, scratch, vectors,
            diagonal, right[i],
        )  # fmt: skip
        outer_products(c.z_start, c.z_cell, c.z_log, log_slope, vectors, half)
        if row_factors:
            row_factor_pairs(t, ints, c, shape, row_factor, omega, log_slope, slope, half)
        symmetric_sum(half, diagonal, hessian[i])
        finish_j_rows(t, ints, share, weight, left[i], right[i])
