# LEAD -> KERNEL HELPER (02:02): I rewrote cpu_bins.py, cpu_kernels.py (tHu poisson now 8.7 us, complex 0.2) and am doing
# cpu_lbfgs.py + cpu.py layout right now. DO NOT overwrite these four with your drafts. YOURS: cpu_newton.py (curvature_factors
# still 630 us; see how cpu_kernels.py vectorises with 1-D row views), cpu_steps.py (newton_steps 300 us), cpu_sampling jit swap,
# and compile time of those. Apply your exp/log1p functions to cpu_kernels.py only by small edits. Remove this note when read.
"""Kernels of the robust tier: damped Newton steps with the exact Hessian of every column.

The Hessian of the profile likelihood has a part from matmuls, ``sum_k w_k J_k J_k'`` over bins and profiled
slots, and a sparse part from the second derivatives of the rates (docs/maths.md, "Exact Hessian"). The kernels
here fill the factors of the first and add the second; only upper triangles are read.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from nsmath._typing import AnyArray, Array, IntArray
from nsmath.backends.cpu_bins import NO_GAMMA, asked_rate, solve_bin
from nsmath.backends.cpu_tensors import KernelTensors
from nsmath.backends.jit import inlined, kernel

TINY_AUX = 1e-7
"""Stands in for an auxiliary Poisson count of 0, whose gamma the Hessian could not see otherwise."""
TINY_FACTOR = 1e-100
"""Stands in for a factor that is 0: only quotients of it are used, and those stay exact."""


class CurvatureTables(NamedTuple):
    """Index tables of the Hessian: template nonzeros by row, and the J-rows of each bin.

    row_start (R+1,), row_h : histosys of each row; row_s, row_a : their template values.
    bin_k (B,) : J-row of the bin's sum; slot_k (L,) : J-row of a slot of its own, or -1.
    """

    row_start: IntArray
    row_h: IntArray
    row_s: Array
    row_a: Array
    bin_k: IntArray
    slot_k: IntArray
    n_k: int


def curvature_tables(t: KernelTensors, template: Array) -> CurvatureTables:
    """Return the tables for a model; bins with a single slot need one J-row only."""
    n_h = template.shape[1] // 2
    half, curved = template[:, :n_h], template[:, n_h:]
    rows, columns = np.nonzero((half != 0.0) | (curved != 0.0))
    start = np.searchsorted(rows, np.arange(template.shape[0] + 1)).astype(np.int64)
    n_bins = len(t.bin_slot) - 1
    slot_k = np.full(len(t.slot_gamma), -1, dtype=np.int64)
    k = n_bins
    for b in range(n_bins):
        first, last = int(t.bin_slot[b]), int(t.bin_slot[b + 1])
        for slot in range(first, last) if last - first > 1 else ():
            if t.slot_gamma[slot] >= 0:
                slot_k[slot] = k
                k += 1
    return CurvatureTables(
        start, columns.astype(np.int64), half[rows, columns], curved[rows, columns],
        np.arange(n_bins, dtype=np.int64), slot_k, k,
    )


@inlined
def entry_derivatives(t: KernelTensors, e: int, x: float) -> tuple[float, float, float]:
    """Return (f, f'/f, f''/f) of one normsys entry at alpha = x."""
    if abs(x) < t.threshold:
        a = t.entry_poly[e]
        f = 1.0 + x * (a[0] + x * (a[1] + x * (a[2] + x * (a[3] + x * (a[4] + x * a[5])))))
        d = a[0] + x * (2.0 * a[1] + x * (3.0 * a[2] + x * (4.0 * a[3] + x * (5.0 * a[4] + x * 6.0 * a[5]))))
        d2 = 2.0 * a[1] + x * (6.0 * a[2] + x * (12.0 * a[3] + x * (20.0 * a[4] + x * 30.0 * a[5])))
        return f, d / f, d2 / f
    slope = t.entry_log[e, 0] if x > 0.0 else -t.entry_log[e, 1]
    return math.exp(slope * x), slope, slope * slope


@inlined
def additive_derivatives(additive: Array, x: float) -> tuple[float, float]:
    """Return (q', q'') of the additive code at alpha = x."""
    if abs(x) < additive[0]:
        u = x * x
        c1, c2, c3 = additive[1], additive[2], additive[3]
        return x * (2.0 * c1 + u * (4.0 * c2 + u * 6.0 * c3)), 2.0 * c1 + u * (12.0 * c2 + u * 30.0 * c3)
    return (additive[4] if x > 0.0 else -additive[4]), 0.0


@inlined
def column_slots(t: KernelTensors, x: Array, shapes: Array, i: int, factor: Array, row_factor: Array, slots: Array,
                 slope: Array, bend: Array) -> None:
    """Fill one column's cell factors, row factors (all of m x), slot sums and the entries' derivatives."""
    slots[:] = 0.0
    for q in range(len(t.cell_row) - 1):
        m = 1.0
        for e in range(t.cell_entry[q], t.cell_entry[q + 1]):
            f, slope[e], bend[e] = entry_derivatives(t, e, x[t.entry_z[e]])
            m *= f
        for j in range(t.cell_factor[q], t.cell_factor[q + 1]):
            m *= x[t.factor_z[j]]
        factor[q] = m
        for r in range(t.cell_row[q], t.cell_row[q + 1]):
            f = m
            for j in range(t.row_factor_start[r], t.row_factor_start[r + 1]):
                f *= x[t.row_factor_z[j]]
            row_factor[r] = f
            slots[t.row_slot[r]] += f * shapes[r, i]


@inlined
def bin_weights(
    t: KernelTensors, c: CurvatureTables, b: int, count: float, aux: Array, slots: Array, omega: Array,
    share: Array, weight: Array, small: Array, kind: IntArray,
) -> None:
    """Fill one bin's slot weights ``omega``, ``share`` c_l = d(gamma_l S_l)/dS_l at fixed r, and J-row weights."""
    first, last = t.bin_slot[b], t.bin_slot[b + 1]
    for slot in range(first, last):
        k, g = slot - first, t.slot_gamma[slot]
        small[0, k] = slots[slot]
        kind[k] = NO_GAMMA
        if g >= 0:
            kind[k], small[1, k] = t.gamma_is_poisson[g], aux[g]
            small[2, k], small[3, k], small[4, k] = t.gamma_scale[g], t.gamma_lower[g], t.gamma_upper[g]
    if t.slot_gamma[last - 1] >= 0:
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
    weight[c.bin_k[b]] = w
    for slot in range(first, last):
        g = t.slot_gamma[slot]
        if g < 0:
            omega[slot], share[slot] = r, 1.0
            continue
        s, scale, gamma = slots[slot], t.gamma_scale[g], small[5, slot - first]
        per_s = 0.0
        if t.gamma_lower[g] < gamma < t.gamma_upper[g]:
            per_s = -gamma * r / (scale + s * r) if t.gamma_is_poisson[g] else -scale * scale * r
        omega[slot], share[slot] = r * gamma, gamma + s * per_s
        if c.slot_k[slot] >= 0:
            weight[c.slot_k[slot]] = r * per_s
        else:
            # One slot: both terms stand on the same J, so one J-row with their sum will do.
            weight[c.bin_k[b]] = w * share[slot] * share[slot] + r * per_s
            share[slot] = 1.0


@inlined
def add_symmetric(hessian: Array, p: int, q: int, value: float) -> None:
    """Add to the upper triangle."""
    if p <= q:
        hessian[p, q] += value
    else:
        hessian[q, p] += value


@inlined
def cell_curvature(
    t: KernelTensors, c: CurvatureTables, q: int, i: int, x: Array, shapes: Array, row_factor: Array, omega: Array,
    slope: Array, bend: Array, dq: Array, d2q: Array, pulled: Array, log_z: IntArray, log_d: Array, hessian: Array,
) -> None:
    """Add ``sum over rows r of cell q of omega d2 (a m x)_r`` to the upper triangle of ``hessian``."""
    n_log = 0
    for e in range(t.cell_entry[q], t.cell_entry[q + 1]):
        log_z[n_log], log_d[n_log] = t.entry_z[e], slope[e]
        n_log += 1
    for j in range(t.cell_factor[q], t.cell_factor[q + 1]):
        log_z[n_log], log_d[n_log] = t.factor_z[j], 1.0 / x[t.factor_z[j]]
        n_log += 1
    kappa = 0.0
    first, last = t.cell_row[q], t.cell_row[q + 1]
    for r in range(first, last):
        w = omega[t.row_slot[r]] * row_factor[r]
        kappa += w * shapes[r, i]
        for k in range(c.row_start[r], c.row_start[r + 1]):
            h = c.row_h[k]
            pulled[h] += w * (c.row_s[k] + dq[h] * c.row_a[k])
            z = t.histosys_z[h]
            hessian[z, z] += w * d2q[h] * c.row_a[k]
    for j in range(n_log):
        value = kappa * log_d[j]
        for k in range(j):
            add_symmetric(hessian, log_z[j], log_z[k], value * log_d[k])
    for e in range(t.cell_entry[q], t.cell_entry[q + 1]):
        z = t.entry_z[e]
        hessian[z, z] += kappa * bend[e]
    for r in range(first, last):
        for k in range(c.row_start[r], c.row_start[r + 1]):
            h = c.row_h[k]
            if pulled[h] != 0.0:
                z = t.histosys_z[h]
                for j in range(n_log):
                    value = pulled[h] * log_d[j]
                    add_symmetric(hessian, z, log_z[j], 2.0 * value if z == log_z[j] else value)
                pulled[h] = 0.0
    for r in range(first, last):
        f0, f1 = t.row_factor_start[r], t.row_factor_start[r + 1]
        for j in range(f0, f1):
            z = t.row_factor_z[j]
            w = omega[t.row_slot[r]] * row_factor[r] / x[z]
            for k in range(n_log):
                add_symmetric(hessian, z, log_z[k], w * shapes[r, i] * log_d[k])
            for k in range(f0, j):
                add_symmetric(hessian, z, t.row_factor_z[k], w * shapes[r, i] / x[t.row_factor_z[k]])
            for k in range(c.row_start[r], c.row_start[r + 1]):
                h = c.row_h[k]
                add_symmetric(hessian, z, t.histosys_z[h], w * (c.row_s[k] + dq[h] * c.row_a[k]))


@inlined
def jacobian_rows(
    t: KernelTensors, c: CurvatureTables, q: int, i: int, b0: int, x: Array, shapes: Array, row_factor: Array,
    share: Array, slope: Array, dq: Array, right: Array,
) -> None:
    """Add the rows of cell q, which start at bin b0, to the J-rows ``right`` (K, Z) of one column."""
    for r in range(t.cell_row[q], t.cell_row[q + 1]):
        slot = t.row_slot[r]
        own = c.slot_k[slot]
        for target in range(2):
            k = c.bin_k[b0 + r - t.cell_row[q]] if target == 0 else own
            if k < 0:
                continue
            scale = share[slot] if target == 0 else 1.0
            f = row_factor[r] * scale
            rate = f * shapes[r, i]
            for n in range(c.row_start[r], c.row_start[r + 1]):
                h = c.row_h[n]
                right[k, t.histosys_z[h]] += f * (c.row_s[n] + dq[h] * c.row_a[n])
            for e in range(t.cell_entry[q], t.cell_entry[q + 1]):
                right[k, t.entry_z[e]] += rate * slope[e]
            for j in range(t.cell_factor[q], t.cell_factor[q + 1]):
                right[k, t.factor_z[j]] += rate / x[t.factor_z[j]]
            for j in range(t.row_factor_start[r], t.row_factor_start[r + 1]):
                right[k, t.row_factor_z[j]] += rate / x[t.row_factor_z[j]]


@kernel
def curvature_factors(
    t: KernelTensors, c: CurvatureTables, width: int, todo: AnyArray, z: Array, shapes: Array, data: Array,
    aux: Array, left: Array, right: Array, hessian: Array, prior: Array,
) -> None:
    """Fill ``left`` and ``right`` (N, K, Z), whose product completes ``hessian`` (N, Z, Z), and its sparse part.

    Columns with ``todo`` 0 get left = 0 and keep their Hessian. ``prior`` (N, Z) becomes the curvature of
    the constraints alone.
    """
    n_z, n_q, n_l = z.shape[0], len(t.cell_row) - 1, len(t.slot_gamma)
    x, dq, d2q = np.empty(n_z), np.empty(len(t.histosys_z)), np.empty(len(t.histosys_z))
    factor, row_factor, slots = np.empty(n_q), np.empty(shapes.shape[0]), np.empty(n_l)
    slope, bend = np.empty(len(t.entry_z)), np.empty(len(t.entry_z))
    omega, share, weight = np.empty(n_l), np.empty(n_l), np.empty(c.n_k)
    pulled = np.zeros(len(t.histosys_z))
    log_z, log_d = np.empty(n_z + 1, dtype=np.int64), np.empty(n_z + 1)
    gamma_aux = np.empty(len(t.gamma_aux))
    small, kind = np.empty((6, t.max_slots)), np.empty(t.max_slots, dtype=np.int64)
    for i in range(width):
        left[i] = 0.0
        if not todo[i]:
            continue
        right[i] = 0.0
        hessian[i] = 0.0
        for p in range(n_z):
            x[p] = z[p, i] if abs(z[p, i]) > TINY_FACTOR else TINY_FACTOR
        for h in range(len(t.histosys_z)):
            dq[h], d2q[h] = additive_derivatives(t.additive, z[t.histosys_z[h], i])
        column_slots(t, x, shapes, i, factor, row_factor, slots, slope, bend)
        for g in range(len(t.gamma_aux)):
            a = aux[t.gamma_aux[g], i]
            gamma_aux[g] = max(a, TINY_AUX) if t.gamma_is_poisson[g] else a
        for b in range(len(t.bin_slot) - 1):
            bin_weights(t, c, b, data[b, i], gamma_aux, slots, omega, share, weight, small, kind)
        for channel in range(len(t.channel_cell) - 1):
            for q in range(t.channel_cell[channel], t.channel_cell[channel + 1]):
                cell_curvature(t, c, q, i, x, shapes, row_factor, omega, slope, bend, dq, d2q, pulled, log_z, log_d,
                               hessian[i])
                jacobian_rows(t, c, q, i, t.channel_bin[channel], x, shapes, row_factor, share, slope, dq, right[i])
        prior[i] = 0.0
        for k in range(len(t.z_normal)):
            p, value = t.z_normal[k], 1.0 / (t.z_normal_sigma[k] * t.z_normal_sigma[k])
            hessian[i, p, p] += value
            prior[i, p] += value
        for k in range(len(t.z_poisson)):
            p = t.z_poisson[k]
            value = aux[t.z_poisson_aux[k], i] / (x[p] * x[p])
            hessian[i, p, p] += value
            prior[i, p] += value
        for k in range(c.n_k):
            w = weight[k]
            for p in range(n_z):
                left[i, k, p] = w * right[i, k, p]
