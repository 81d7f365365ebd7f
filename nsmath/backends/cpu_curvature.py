"""The sparse part of one column's Hessian, and its J-rows: what `cpu_newton` runs for every column.

docs/maths.md, "Exact Hessian". Within a cell every second derivative but the diagonal ones is an outer product:
with u_p = d log m / d theta_p of the cell's factors, v = sum over rows of omega d(a m x) / d(histosys), and kappa
= sum over rows of omega a m x,

    sum over rows of omega d2(a m x) / d theta_p d theta_q = (u v' + v u' + kappa u u')_pq  for p != q.

So with w = v + kappa u / 2 the cells' sum is M + M', row p of M being ``sum over cells of u_p w``: long contiguous
rows, read once, instead of a scattered update for every pair.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nsmath._typing import Array, IntArray
from nsmath.backends.cpu_functions import exponential
from nsmath.backends.cpu_tensors import Offsets
from nsmath.backends.jit import inlined, inner
from nsmath.model.tensors import ModelTensors


class CurvatureTables(NamedTuple):
    """Tables of the Hessian.

    poly : (6, E) and side : (2, E) log hi and -log lo, the entries' coefficients, entries contiguous.
    hist_start (Q+1,), hist_h, hist_z : the histosys that any row of a cell has, and their minimised index.
    block_start (Q,) : where the cell's (rows, histosys) matrices begin in block_s and block_a.
    z_start (Z+1,), z_cell, z_log : for each minimised parameter, the cells with a factor of it, and that factor's
        place in the list of logarithmic slopes: all E entries, all scalar factors, all per-bin factors.
    """

    poly: Array
    side: Array
    hist_start: IntArray
    hist_h: IntArray
    hist_z: IntArray
    block_start: IntArray
    block_s: Array
    block_a: Array
    z_start: IntArray
    z_cell: IntArray
    z_log: IntArray
    n_factors: int


def curvature_tables(tensors: ModelTensors) -> CurvatureTables:
    """Return the tables for a model."""
    t = tensors
    half, curved = t.template[:, : t.n_histosys], t.template[:, t.n_histosys :]
    hist, block_s, block_a = [], [np.zeros(0)], [np.zeros(0)]
    for first, last in zip(t.cell_row[:-1], t.cell_row[1:], strict=True):
        rows = slice(first, last)
        h = np.flatnonzero(((half[rows] != 0.0) | (curved[rows] != 0.0)).any(axis=0))
        hist.append(h)
        block_s.append(half[rows, h].ravel())
        block_a.append(curved[rows, h].ravel())
    hist_h = np.concatenate([np.zeros(0, dtype=np.int64), *hist])
    cell = np.arange(t.n_cells)
    log_z = np.concatenate([t.entry_z, t.factor_z])
    log_cell = np.concatenate([np.repeat(cell, np.diff(t.cell_entry)), np.repeat(cell, np.diff(t.cell_factor))])
    order = np.argsort(log_z, kind="stable")
    return CurvatureTables(
        poly=t.entry_poly.T.copy(),
        side=np.ascontiguousarray(t.entry_log.T * np.array([[1.0], [-1.0]])),
        hist_start=np.cumsum([0, *(h.size for h in hist)]),
        hist_h=hist_h,
        hist_z=t.histosys_z[hist_h],
        block_start=np.cumsum([block.size for block in block_s])[:-1],
        block_s=np.concatenate(block_s),
        block_a=np.concatenate(block_a),
        z_start=np.searchsorted(log_z[order], np.arange(t.n_minimised + 1)),
        z_cell=log_cell[order],
        z_log=order,
        n_factors=len(t.factor_z),
    )


@inner
def entry_logs(x: Array, entry_z: IntArray, poly: Array, side: Array, threshold: float, out: Array) -> None:
    """Fill ``out`` (4, E) with alpha, f, f'/f and f''/f of every normsys entry.

    A loop writes one row and reads at most seven: with more, the compiler gives up on vector instructions.
    """
    at, f, slope, bend = out[0], out[1], out[2], out[3]
    a1, a2, a3, a4, a5, a6 = poly[0], poly[1], poly[2], poly[3], poly[4], poly[5]
    hi, lo = side[0], side[1]
    n = entry_z.size
    for e in range(n):
        at[e] = x[entry_z[e]]
    for e in range(n):
        v = at[e]
        f[e] = 1.0 + v * (a1[e] + v * (a2[e] + v * (a3[e] + v * (a4[e] + v * (a5[e] + v * a6[e])))))
    for e in range(n):
        v = at[e]
        d = 5.0 * a5[e] + v * 6.0 * a6[e]
        slope[e] = (a1[e] + v * (2.0 * a2[e] + v * (3.0 * a3[e] + v * (4.0 * a4[e] + v * d)))) / f[e]
    for e in range(n):
        v = at[e]
        d = 12.0 * a4[e] + v * (20.0 * a5[e] + v * 30.0 * a6[e])
        bend[e] = (2.0 * a2[e] + v * (6.0 * a3[e] + v * d)) / f[e]
    for e in range(n):
        v = at[e]
        f[e] = f[e] if abs(v) < threshold else exponential((hi[e] if v > 0.0 else lo[e]) * v)
    for e in range(n):
        v = at[e]
        slope[e] = slope[e] if abs(v) < threshold else (hi[e] if v > 0.0 else lo[e])
    for e in range(n):
        bend[e] = bend[e] if abs(at[e]) < threshold else slope[e] * slope[e]


@inner
def slot_sums(
    t: Offsets,
    ints: IntArray,
    n_factors: int,
    x: Array,
    shape: Array,
    value: Array,
    log_slope: Array,
    row_factor: Array,
    slots: Array,
) -> None:
    """Fill the row factors (all of m x) and slot sums, and 1 / x of the other factors behind the entries' slopes."""
    slots[:] = 0.0
    n_logs = t.n_entries + n_factors
    for j in range(n_factors):
        log_slope[t.n_entries + j] = 1.0 / x[ints[t.factor_z + j]]
    for j in range(log_slope.size - n_logs):
        log_slope[n_logs + j] = 1.0 / x[ints[t.row_factor_z + j]]
    for q in range(t.n_cells):
        m = 1.0
        for e in range(ints[t.cell_entry + q], ints[t.cell_entry + q + 1]):
            m *= value[e]
        for j in range(ints[t.cell_factor + q], ints[t.cell_factor + q + 1]):
            m *= x[ints[t.factor_z + j]]
        for r in range(ints[t.cell_row + q], ints[t.cell_row + q + 1]):
            f = m
            for j in range(ints[t.row_factor_start + r], ints[t.row_factor_start + r + 1]):
                f *= x[ints[t.row_factor_z + j]]
            row_factor[r] = f
            slots[ints[t.row_slot + r]] += f * shape[r]


@inlined
def template_slopes(out: Array, factor: float, half: Array, curved: Array, slope: Array) -> None:
    """Fill a row's derivatives by its histosys parameters."""
    for k in range(out.size):
        out[k] = factor * (half[k] + slope[k] * curved[k])


@inlined
def add_scaled(out: Array, factor: float, row: Array) -> None:
    """Add ``factor`` times a row to another."""
    for k in range(out.size):
        out[k] += factor * row[k]


@inlined
def scatter(out: Array, where: IntArray, factor: float, row: Array) -> None:
    """Add ``factor`` times a row to the places ``where``."""
    for k in range(where.size):
        out[where[k]] += factor * row[k]


@inner
def cell_vectors(
    t: Offsets,
    ints: IntArray,
    c: CurvatureTables,
    shape: Array,
    row_factor: Array,
    omega: Array,
    share: Array,
    bend: Array,
    log_slope: Array,
    additive_slope: Array,
    additive_bend: Array,
    scratch: Array,
    vectors: Array,
    diagonal: Array,
    right: Array,
) -> None:
    """Fill every cell's ``vectors`` w (Q, Z); add to ``diagonal`` (Z,), and the cells' rows to ``right`` (K, Z).

    additive_slope, additive_bend : (H,) q' and q''; scratch : (4, H).
    """
    n_entries, n_logs = t.n_entries, t.n_entries + c.n_factors
    for channel in range(t.n_channels):
        first_bin = ints[t.channel_bin + channel]
        for q in range(ints[t.channel_cell + channel], ints[t.channel_cell + channel + 1]):
            h0, h1 = c.hist_start[q], c.hist_start[q + 1]
            n = h1 - h0
            hist_z = c.hist_z[h0:h1]
            slopes, own, total, curved = scratch[0, :n], scratch[1, :n], scratch[2, :n], scratch[3, :n]
            for k in range(n):
                slopes[k] = additive_slope[c.hist_h[h0 + k]]
                total[k] = 0.0
                curved[k] = 0.0
            e0, e1 = ints[t.cell_entry + q], ints[t.cell_entry + q + 1]
            f0, f1 = ints[t.cell_factor + q], ints[t.cell_factor + q + 1]
            entry_z, factor_z = ints[t.entry_z + e0 : t.entry_z + e1], ints[t.factor_z + f0 : t.factor_z + f1]
            entry_slope, factor_slope = log_slope[e0:e1], log_slope[n_entries + f0 : n_entries + f1]
            kappa, start = 0.0, c.block_start[q]
            first = ints[t.cell_row + q]
            for r in range(first, ints[t.cell_row + q + 1]):
                slot = ints[t.row_slot + r]
                j_row = ints[t.slot_k + slot]
                # A slot with a J-row of its own enters its bin's J-row as a whole, in `finish_j_rows`.
                target = right[j_row] if j_row >= 0 else right[first_bin + r - first]
                scale = 1.0 if j_row >= 0 else share[slot]
                w, f = omega[slot], row_factor[r]
                rate = f * shape[r]
                kappa += w * rate
                if n:
                    template_slopes(own, f, c.block_s[start : start + n], c.block_a[start : start + n], slopes)
                    add_scaled(total, w, own)
                    add_scaled(curved, w * f, c.block_a[start : start + n])
                    scatter(target, hist_z, scale, own)
                    start += n
                scatter(target, entry_z, scale * rate, entry_slope)
                scatter(target, factor_z, scale * rate, factor_slope)
                for j in range(ints[t.row_factor_start + r], ints[t.row_factor_start + r + 1]):
                    target[ints[t.row_factor_z + j]] += scale * rate * log_slope[n_logs + j]
            vector = vectors[q]
            for p in range(vector.size):
                vector[p] = 0.0
            scatter(vector, hist_z, 1.0, total)
            for k in range(n):
                diagonal[hist_z[k]] += curved[k] * additive_bend[c.hist_h[h0 + k]]
            for e in range(e0, e1):
                p = ints[t.entry_z + e]
                diagonal[p] += kappa * bend[e] + 2.0 * log_slope[e] * vector[p]
            for k in range(f1 - f0):
                diagonal[factor_z[k]] += 2.0 * factor_slope[k] * vector[factor_z[k]]
            scatter(vector, entry_z, 0.5 * kappa, entry_slope)
            scatter(vector, factor_z, 0.5 * kappa, factor_slope)


@inlined
def add_four(out: Array, a: float, b: float, c: float, d: float, r0: Array, r1: Array, r2: Array, r3: Array) -> None:
    """Add four scaled rows to another."""
    for p in range(out.size):
        out[p] += a * r0[p] + b * r1[p] + c * r2[p] + d * r3[p]


@inner
def outer_products(
    z_start: IntArray, z_cell: IntArray, z_log: IntArray, log_slope: Array, vectors: Array, out: Array
) -> None:
    """Fill ``out`` (Z, Z), M of the module's formula: row p is the sum of u_p w over the cells with a factor of p."""
    for p in range(out.shape[0]):
        row = out[p]
        for k in range(row.size):
            row[k] = 0.0
        k, end = z_start[p], z_start[p + 1]
        while k + 4 <= end:
            add_four(
                row, log_slope[z_log[k]], log_slope[z_log[k + 1]], log_slope[z_log[k + 2]], log_slope[z_log[k + 3]],
                vectors[z_cell[k]], vectors[z_cell[k + 1]], vectors[z_cell[k + 2]], vectors[z_cell[k + 3]],
            )  # fmt: skip
            k += 4
        while k < end:
            add_scaled(row, log_slope[z_log[k]], vectors[z_cell[k]])
            k += 1


@inner
def row_factor_pairs(
    t: Offsets,
    ints: IntArray,
    c: CurvatureTables,
    shape: Array,
    row_factor: Array,
    omega: Array,
    log_slope: Array,
    additive_slope: Array,
    out: Array,
) -> None:
    """Add to M (Z, Z) what per-bin factors share with each other and with everything else of their rows."""
    n_logs = t.n_entries + c.n_factors
    for q in range(t.n_cells):
        h0, h1 = c.hist_start[q], c.hist_start[q + 1]
        first, start = ints[t.cell_row + q], c.block_start[q]
        for r in range(first, ints[t.cell_row + q + 1]):
            r0, r1 = ints[t.row_factor_start + r], ints[t.row_factor_start + r + 1]
            for j in range(r0, r1):
                row = out[ints[t.row_factor_z + j]]
                w = omega[ints[t.row_slot + r]] * row_factor[r] * log_slope[n_logs + j]
                for e in range(ints[t.cell_entry + q], ints[t.cell_entry + q + 1]):
                    row[ints[t.entry_z + e]] += w * shape[r] * log_slope[e]
                for k in range(ints[t.cell_factor + q], ints[t.cell_factor + q + 1]):
                    row[ints[t.factor_z + k]] += w * shape[r] * log_slope[t.n_entries + k]
                for k in range(r0, j):
                    row[ints[t.row_factor_z + k]] += w * shape[r] * log_slope[n_logs + k]
                for k in range(h1 - h0):
                    block = start + (r - first) * (h1 - h0) + k
                    slope = additive_slope[c.hist_h[h0 + k]]
                    row[c.hist_z[h0 + k]] += w * (c.block_s[block] + slope * c.block_a[block])


@inner
def finish_j_rows(t: Offsets, ints: IntArray, share: Array, weight: Array, left: Array, right: Array) -> None:
    """Add the slots' own J-rows to their bins', and fill ``left`` (K, Z), the J-rows times their weights."""
    for b in range(t.n_bins):
        for slot in range(ints[t.bin_slot + b], ints[t.bin_slot + b + 1]):
            k = ints[t.slot_k + slot]
            if k >= 0:
                add_scaled(right[b], share[slot], right[k])
    for k in range(right.shape[0]):
        w, source, target = weight[k], right[k], left[k]
        for p in range(target.size):
            target[p] = w * source[p]


@inner
def symmetric_sum(half: Array, diagonal: Array, out: Array) -> None:
    """Fill ``out`` with M + M' above the diagonal, ``diagonal`` on it, 0 below."""
    n = out.shape[0]
    for p in range(n):
        for q in range(p):
            out[p, q] = 0.0
        out[p, p] = diagonal[p]
        row, column, target = half[p, p + 1 :], half[p + 1 :, p], out[p, p + 1 :]
        for k in range(row.size):
            target[k] = row[k] + column[k]
