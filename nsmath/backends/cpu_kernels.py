"""Kernels around the two template matmuls: interpolation before them, the likelihood between, gathers after.

All arrays are parameter-major with contiguous columns. A kernel walks over strips of `STRIP` columns and, within a
strip, over channels, so that what it keeps for later stays in the first two cache levels.

Inner loops have the constant length STRIP and touch few one-dimensional rows, indexed by the loop variable alone:
that is what the compiler turns into vector instructions (a computed index could be negative, and more than three
or four rows would need too many overlap checks). Buffers are whole strips wide, so a loop may run over columns
that no fit uses.
"""

from __future__ import annotations

import numpy as np

from nsmath._typing import Array, IntArray
from nsmath.backends.cpu_bin_strips import CELL, EXPO, N_ROWS, OTHER, POLY, SLOPE, TOTAL, VALUE, bin_values
from nsmath.backends.cpu_bins import poisson_term
from nsmath.backends.cpu_functions import exponential
from nsmath.backends.cpu_strips import STRIP, strip
from nsmath.backends.cpu_tensors import Offsets
from nsmath.backends.jit import inlined, inner, kernel


@kernel
def features(z: Array, histosys_z: IntArray, additive: Array, width: int, out: Array, derivative: Array) -> None:
    """Fill the prolog of the template matmul: ``out`` (2H+1, N) = [alpha; q(alpha); 1], ``derivative`` (H, N) = q'."""
    n_histosys = len(histosys_z)
    threshold, c1, c2, c3 = additive[0], additive[1], additive[2], additive[3]
    slope, intercept = additive[4], additive[5]
    for h in range(n_histosys):
        p = histosys_z[h]
        for i in range(width):
            x = z[p, i]
            t = x * x
            size = abs(x)
            inside = size < threshold
            out[h, i] = x
            out[n_histosys + h, i] = t * (c1 + t * (c2 + t * c3)) if inside else slope * size + intercept
            derivative[h, i] = x * (2.0 * c1 + t * (4.0 * c2 + t * 6.0 * c3)) if inside else (
                slope if x > 0.0 else -slope)  # fmt: skip
    for i in range(width):
        out[2 * n_histosys, i] = 1.0


@inlined
def entry_strip(
    x_row: Array,
    poly: Array,
    expo: Array,
    value: Array,
    slope: Array,
    out: Array,
    threshold: float,
    a: Array,
    log_hi: float,
    log_lo: float,
) -> None:
    """Multiply one normsys entry into ``poly`` and ``expo``; ``out`` becomes d log(factor) / d alpha."""
    a1, a2, a3, a4, a5, a6 = a[0], a[1], a[2], a[3], a[4], a[5]
    b2, b3, b4, b5, b6 = 2.0 * a2, 3.0 * a3, 4.0 * a4, 5.0 * a5, 6.0 * a6
    for i in range(STRIP):
        x = x_row[i]
        f = 1.0 + x * (a1 + x * (a2 + x * (a3 + x * (a4 + x * (a5 + x * a6)))))
        value[i] = f
        slope[i] = (a1 + x * (b2 + x * (b3 + x * (b4 + x * (b5 + x * b6))))) / f
    for i in range(STRIP):
        x = x_row[i]
        outer = log_hi if x > 0.0 else log_lo
        out[i] = slope[i] if abs(x) < threshold else outer
    for i in range(STRIP):
        poly[i] *= value[i] if abs(x_row[i]) < threshold else 1.0
    for i in range(STRIP):
        x = x_row[i]
        expo[i] += 0.0 if abs(x) < threshold else (log_hi if x > 0.0 else log_lo) * x


@inner
def cell_factor(
    t: Offsets,
    ints: IntArray,
    floats: Array,
    z: Array,
    s0: int,
    q: int,
    first_entry: int,
    log_slope: Array,
    base: Array,
    factor: Array,
    w: Array,
) -> None:
    """Fill ``base``, the product of a cell's interpolated factors, and ``factor``, that times its scalars."""
    poly, expo = w[POLY], w[EXPO]
    for i in range(STRIP):
        poly[i] = 1.0
        expo[i] = 0.0
    for e in range(ints[t.cell_entry + q], ints[t.cell_entry + q + 1]):
        entry_strip(
            strip(z, ints[t.entry_z + e], s0), poly, expo, w[VALUE], w[SLOPE], log_slope[e - first_entry],
            t.threshold, floats[t.entry_poly + 6 * e : t.entry_poly + 6 * e + 6], floats[t.entry_log + 2 * e],
            -floats[t.entry_log + 2 * e + 1],
        )  # fmt: skip
    for i in range(STRIP):
        poly[i] *= exponential(expo[i])
    for i in range(STRIP):
        base[i] = poly[i]
        factor[i] = poly[i]
    for j in range(ints[t.cell_factor + q], ints[t.cell_factor + q + 1]):
        multiply(factor, strip(z, ints[t.factor_z + j], s0))


@inlined
def multiply(out: Array, x_row: Array) -> None:
    """Multiply a row by another."""
    for i in range(STRIP):
        out[i] *= x_row[i]


@inner
def row_product(
    t: Offsets,
    ints: IntArray,
    floats: Array,
    z: Array,
    s0: int,
    r: int,
    without: int,
    out: Array,
) -> None:
    """Fill ``out`` with the product of row r's own factors, leaving out the one at ``without`` (or none)."""
    for i in range(STRIP):
        out[i] = 1.0
    for j in range(ints[t.row_factor_start + r], ints[t.row_factor_start + r + 1]):
        if j != without:
            multiply(out, strip(z, ints[t.row_factor_z + j], s0))


@inner
def constraint_terms(
    t: Offsets,
    ints: IntArray,
    floats: Array,
    z: Array,
    aux: Array,
    s0: int,
    gradient: Array,
    total: Array,
) -> None:
    """Add the constraint terms of the minimised parameters and their derivatives."""
    for k in range(t.n_z_normal):
        p, sigma = ints[t.z_normal + k], floats[t.z_normal_sigma + k]
        z_row, aux_row = strip(z, p, s0), strip(aux, ints[t.z_normal_aux + k], s0)
        out = strip(gradient, p, s0)
        for i in range(STRIP):
            pull = (z_row[i] - aux_row[i]) / sigma
            total[i] += 0.5 * pull * pull
            out[i] += pull / sigma
    for k in range(t.n_z_poisson):
        p, a, tau = ints[t.z_poisson + k], ints[t.z_poisson_aux + k], floats[t.z_poisson_tau + k]
        for i in range(STRIP):
            count = aux[a, s0 + i]
            total[i] += poisson_term(z[p, s0 + i] * tau, count)
            gradient[p, s0 + i] += tau - (count / z[p, s0 + i] if count > 0.0 else 0.0)


@inner
def channel_slots(
    t: Offsets,
    ints: IntArray,
    floats: Array,
    z: Array,
    shapes: Array,
    c: int,
    s0: int,
    log_slope: Array,
    base: Array,
    factor: Array,
    slots: Array,
    w: Array,
) -> None:
    """Fill a channel's rows: cell factors, entry slopes, slot sums ``sum of a m x``."""
    q0, slot0 = ints[t.channel_cell + c], ints[t.bin_slot + ints[t.channel_bin + c]]
    other = w[OTHER]
    for slot in range(ints[t.bin_slot + ints[t.channel_bin + c + 1]] - slot0):
        s = slots[slot]
        for i in range(STRIP):
            s[i] = 0.0
    for q in range(q0, ints[t.channel_cell + c + 1]):
        f = factor[q - q0]
        cell_factor(t, ints, floats, z, s0, q, ints[t.cell_entry + q0], log_slope, base[q - q0], f, w)
        for r in range(ints[t.cell_row + q], ints[t.cell_row + q + 1]):
            s, shape_row = slots[ints[t.row_slot + r] - slot0], strip(shapes, r, s0)
            if ints[t.row_factor_start + r] == ints[t.row_factor_start + r + 1]:
                for i in range(STRIP):
                    s[i] += f[i] * shape_row[i]
            else:
                row_product(t, ints, floats, z, s0, r, -1, other)
                for i in range(STRIP):
                    s[i] += f[i] * shape_row[i] * other[i]


@inner
def pull_back_channel(
    t: Offsets,
    ints: IntArray,
    floats: Array,
    z: Array,
    shapes: Array,
    c: int,
    s0: int,
    log_slope: Array,
    base: Array,
    factor: Array,
    weight: Array,
    row_weight: Array,
    gradient: Array,
    w: Array,
) -> None:
    """Turn slot weights into row weights d NLL / d a_r, and add the gradients of all factors of a channel."""
    q0, slot0 = ints[t.channel_cell + c], ints[t.bin_slot + ints[t.channel_bin + c]]
    cell, other = w[CELL], w[OTHER]
    for q in range(q0, ints[t.channel_cell + c + 1]):
        b, f = base[q - q0], factor[q - q0]
        for i in range(STRIP):
            cell[i] = 0.0
        for r in range(ints[t.cell_row + q], ints[t.cell_row + q + 1]):
            v, out = weight[ints[t.row_slot + r] - slot0], strip(row_weight, r, s0)
            shape_row = strip(shapes, r, s0)
            if ints[t.row_factor_start + r] == ints[t.row_factor_start + r + 1]:
                for i in range(STRIP):
                    out[i] = v[i] * f[i]
                for i in range(STRIP):
                    cell[i] += v[i] * shape_row[i]
                continue
            for j in range(ints[t.row_factor_start + r], ints[t.row_factor_start + r + 1]):
                # Without its own parameter: no division, so parameters may be 0.
                row_product(t, ints, floats, z, s0, r, j, other)
                target = strip(gradient, ints[t.row_factor_z + j], s0)
                for i in range(STRIP):
                    target[i] += v[i] * f[i] * shape_row[i] * other[i]
            row_product(t, ints, floats, z, s0, r, -1, other)
            for i in range(STRIP):
                other[i] *= v[i]
            for i in range(STRIP):
                out[i] = other[i] * f[i]
            for i in range(STRIP):
                cell[i] += other[i] * shape_row[i]
        for j in range(ints[t.cell_factor + q], ints[t.cell_factor + q + 1]):
            for i in range(STRIP):
                other[i] = cell[i] * b[i]
            for k in range(ints[t.cell_factor + q], ints[t.cell_factor + q + 1]):
                if k != j:
                    multiply(other, strip(z, ints[t.factor_z + k], s0))
            target = strip(gradient, ints[t.factor_z + j], s0)
            for i in range(STRIP):
                target[i] += other[i]
        multiply(cell, f)
        for e in range(ints[t.cell_entry + q], ints[t.cell_entry + q + 1]):
            target, slope = strip(gradient, ints[t.entry_z + e], s0), log_slope[e - ints[t.cell_entry + q0]]
            for i in range(STRIP):
                target[i] += cell[i] * slope[i]


@kernel
def likelihood(
    t: Offsets,
    ints: IntArray,
    floats: Array,
    z: Array,
    shapes: Array,
    data: Array,
    aux: Array,
    width: int,
    profile: bool,
    gammas: Array,
    nll: Array,
    gradient: Array,
    row_weight: Array,
    rates: Array,
) -> None:
    """Epilog of the template matmul: the NLL of every column and all of its gradient but the histosys part.

    Parameters
    ----------
    z : (Z, N) minimised parameters; shapes : (R, N) the matmul's result; data : (B, N); aux : (A, N).
    profile : solve for the gammas (G, N), else take them as given.
    nll : (N,), relative to the saturated model; gradient : (Z, N); row_weight : (R, N) = d NLL / d a_r, the
        right side of the pull-back matmul; rates : (B, N).
    """
    w = np.zeros((N_ROWS, STRIP))
    base, factor = np.empty((t.max_cells, STRIP)), np.empty((t.max_cells, STRIP))
    slots, weight = np.empty((t.max_slots, STRIP)), np.empty((t.max_slots, STRIP))
    log_slope = np.empty((t.max_entries, STRIP))
    small, kind = np.empty((6, t.max_slots)), np.empty(t.max_slots, dtype=np.int64)
    total = w[TOTAL]
    for s0 in range(0, width, STRIP):
        n_used = min(STRIP, width - s0)
        for i in range(STRIP):
            total[i] = 0.0
        for p in range(gradient.shape[0]):
            out = strip(gradient, p, s0)
            for i in range(STRIP):
                out[i] = 0.0
        for c in range(t.n_channels):
            channel_slots(t, ints, floats, z, shapes, c, s0, log_slope, base, factor, slots, w)
            slot0 = ints[t.bin_slot + ints[t.channel_bin + c]]
            for b in range(ints[t.channel_bin + c], ints[t.channel_bin + c + 1]):
                bin_values(
                    t, ints, floats, b, slot0, slots, weight, s0, n_used, profile, data, aux, gammas, rates, small,
                    kind, w,
                )  # fmt: skip
            pull_back_channel(
                t, ints, floats, z, shapes, c, s0, log_slope, base, factor, weight, row_weight, gradient, w,
            )  # fmt: skip
        constraint_terms(t, ints, floats, z, aux, s0, gradient, total)
        for i in range(STRIP):
            nll[s0 + i] = total[i]


@kernel
def gather_histosys(histosys_z: IntArray, pulled: Array, derivative: Array, width: int, gradient: Array) -> None:
    """Add the pulled-back histosys features to the gradient: alpha's own row and q' times q's row."""
    n_histosys = len(histosys_z)
    for h in range(n_histosys):
        p = histosys_z[h]
        for i in range(width):
            gradient[p, i] += pulled[h, i] + pulled[n_histosys + h, i] * derivative[h, i]
