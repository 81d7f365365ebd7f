"""Kernels around the two template matmuls: interpolation before them, the likelihood between, gathers after.

All arrays are parameter-major with contiguous columns. A kernel walks over strips of columns and, within a
strip, over channels, so that what it keeps for later stays in the first two cache levels. Inner loops run over
the columns of a strip without branches, which is what lets the compiler use vector instructions.
"""

from __future__ import annotations

import math
import numpy as np

from nsmath._typing import Array, IntArray
from nsmath.backends.cpu_bins import bin_residual, gamma_term, poisson_term, slot_gamma_value
from nsmath.backends.cpu_tensors import KernelTensors
from nsmath.backends.jit import inlined, kernel

STRIP = 32
"""Columns that a kernel takes at a time."""


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
                slope if x > 0.0 else -slope)
    for i in range(width):
        out[2 * n_histosys, i] = 1.0


@inlined
def cell_entries(t: KernelTensors, z: Array, s0: int, n: int, q: int, first_entry: int, log_slope: Array, poly: Array,
                 expo: Array) -> None:
    """Multiply up the normsys entries of cell q: ``poly`` the polynomials, ``expo`` the exponents beyond.

    ``log_slope[e]`` becomes d log(factor) / d alpha of each entry.
    """
    for i in range(n):
        poly[i] = 1.0
        expo[i] = 0.0
    threshold = t.threshold
    for e in range(t.cell_entry[q], t.cell_entry[q + 1]):
        p = t.entry_z[e]
        a1, a2, a3 = t.entry_poly[e, 0], t.entry_poly[e, 1], t.entry_poly[e, 2]
        a4, a5, a6 = t.entry_poly[e, 3], t.entry_poly[e, 4], t.entry_poly[e, 5]
        log_hi, log_lo = t.entry_log[e, 0], -t.entry_log[e, 1]
        k = e - first_entry
        for i in range(n):
            x = z[p, s0 + i]
            f = 1.0 + x * (a1 + x * (a2 + x * (a3 + x * (a4 + x * (a5 + x * a6)))))
            d = a1 + x * (2.0 * a2 + x * (3.0 * a3 + x * (4.0 * a4 + x * (5.0 * a5 + x * 6.0 * a6))))
            outer = log_hi if x > 0.0 else log_lo
            inside = abs(x) < threshold
            poly[i] *= f if inside else 1.0
            expo[i] += 0.0 if inside else outer * x
            log_slope[k, i] = d / f if inside else outer


@inlined
def bin_values(
    t: KernelTensors, b: int, slots: Array, slot0: int, s0: int, n: int, profile: bool, data: Array, aux: Array,
    gammas: Array, nll: Array, weight: Array, rate: Array,
) -> None:
    """Add bin b's Poisson term and the terms of its gammas to ``nll``; set ``weight`` (slots) = d NLL / d S_l.

    ``profile``: gammas are solved for and written; otherwise they are read. ``rate`` (B, N) gets lambda_b.
    """
    first, last = t.bin_slot[b], t.bin_slot[b + 1]
    has_gamma = t.slot_gamma[last - 1] >= 0
    for i in range(n):
        column = s0 + i
        count = data[b, column]
        if profile and has_gamma:
            r = bin_residual(t, count, first, last, slots, slot0, i, aux, column)
            for slot in range(first, last):
                g = t.slot_gamma[slot]
                if g >= 0:
                    gammas[g, column] = slot_gamma_value(t, r, slot, count, first, last, slots, slot0, i, aux, column)
        lam = 0.0
        for slot in range(first, last):
            g = t.slot_gamma[slot]
            s = slots[slot - slot0, i]
            lam += s * gammas[g, column] if g >= 0 else s
        if not (profile and has_gamma):
            r = 1.0 - count / lam if count > 0.0 else 1.0
        elif count <= 0.0 and r < 1.0:
            # A rate that profiling holds at its bound 0 comes out as rounding noise of either sign.
            lam = 0.0
        value = poisson_term(lam, count)
        for slot in range(first, last):
            g = t.slot_gamma[slot]
            if g < 0:
                weight[slot - slot0, i] = r
                continue
            a, scale, is_poisson = aux[t.gamma_aux[g], column], t.gamma_scale[g], t.gamma_is_poisson[g]
            gamma = gammas[g, column]
            value += gamma_term(gamma, is_poisson, a, scale)
            weight[slot - slot0, i] = r * gamma
        nll[column] += value
        rate[b, column] = lam


@inlined
def constraint_terms(t: KernelTensors, z: Array, aux: Array, s0: int, n: int, nll: Array, gradient: Array) -> None:
    """Add the constraint terms of the minimised parameters and their derivatives."""
    for k in range(len(t.z_normal)):
        p, a, sigma = t.z_normal[k], t.z_normal_aux[k], t.z_normal_sigma[k]
        for i in range(s0, s0 + n):
            pull = (z[p, i] - aux[a, i]) / sigma
            nll[i] += 0.5 * pull * pull
            gradient[p, i] += pull / sigma
    for k in range(len(t.z_poisson)):
        p, a, tau = t.z_poisson[k], t.z_poisson_aux[k], t.z_poisson_tau[k]
        for i in range(s0, s0 + n):
            nll[i] += poisson_term(z[p, i] * tau, aux[a, i])
            gradient[p, i] += tau - (aux[a, i] / z[p, i] if aux[a, i] > 0.0 else 0.0)


@inlined
def row_products(
    t: KernelTensors, z: Array, shapes: Array, c: int, s0: int, n: int, factor: Array, base: Array, slots: Array,
    log_slope: Array, poly: Array, expo: Array,
) -> None:
    """Fill a channel's cell factors and slot sums.

    ``base[q]`` is the interpolated factor of a cell, ``factor[q]`` that times its scalar parameters;
    ``slots[l]`` the sum of a x over a slot's rows.
    """
    q0, slot0 = t.channel_cell[c], t.bin_slot[t.channel_bin[c]]
    for slot in range(t.bin_slot[t.channel_bin[c + 1]] - slot0):
        for i in range(n):
            slots[slot, i] = 0.0
    for q in range(q0, t.channel_cell[c + 1]):
        k = q - q0
        if t.cell_entry[q + 1] > t.cell_entry[q]:
            cell_entries(t, z, s0, n, q, t.cell_entry[q0], log_slope, poly, expo)
            for i in range(n):
                base[k, i] = poly[i] * math.exp(expo[i]) if expo[i] != 0.0 else poly[i]
        else:
            for i in range(n):
                base[k, i] = 1.0
        for i in range(n):
            factor[k, i] = base[k, i]
        for j in range(t.cell_factor[q], t.cell_factor[q + 1]):
            p = t.factor_z[j]
            for i in range(n):
                factor[k, i] *= z[p, s0 + i]
        for r in range(t.cell_row[q], t.cell_row[q + 1]):
            slot = t.row_slot[r] - slot0
            if t.row_factor_start[r] == t.row_factor_start[r + 1]:
                for i in range(n):
                    slots[slot, i] += factor[k, i] * shapes[r, s0 + i]
            else:
                for i in range(n):
                    x = factor[k, i] * shapes[r, s0 + i]
                    for j in range(t.row_factor_start[r], t.row_factor_start[r + 1]):
                        x *= z[t.row_factor_z[j], s0 + i]
                    slots[slot, i] += x


@inlined
def pull_back_rows(
    t: KernelTensors, z: Array, shapes: Array, c: int, s0: int, n: int, factor: Array, base: Array, weight: Array,
    log_slope: Array, cell: Array, row_weight: Array, gradient: Array,
) -> None:
    """Turn slot weights into row weights d NLL / d a_r, and add the gradients of all factors of a channel."""
    q0, slot0 = t.channel_cell[c], t.bin_slot[t.channel_bin[c]]
    for q in range(q0, t.channel_cell[c + 1]):
        k = q - q0
        for i in range(n):
            cell[i] = 0.0
        for r in range(t.cell_row[q], t.cell_row[q + 1]):
            slot = t.row_slot[r] - slot0
            f0, f1 = t.row_factor_start[r], t.row_factor_start[r + 1]
            if f0 == f1:
                for i in range(n):
                    row_weight[r, s0 + i] = weight[slot, i] * factor[k, i]
                    cell[i] += weight[slot, i] * shapes[r, s0 + i]
                continue
            for i in range(n):
                x = 1.0
                for j in range(f0, f1):
                    x *= z[t.row_factor_z[j], s0 + i]
                row_weight[r, s0 + i] = weight[slot, i] * factor[k, i] * x
                cell[i] += weight[slot, i] * shapes[r, s0 + i] * x
                for j in range(f0, f1):
                    # Without its own parameter: no division, so parameters may be 0.
                    x = weight[slot, i] * factor[k, i] * shapes[r, s0 + i]
                    for other in range(f0, f1):
                        if other != j:
                            x *= z[t.row_factor_z[other], s0 + i]
                    gradient[t.row_factor_z[j], s0 + i] += x
        for j in range(t.cell_factor[q], t.cell_factor[q + 1]):
            p = t.factor_z[j]
            for i in range(n):
                x = cell[i] * base[k, i]
                for other in range(t.cell_factor[q], t.cell_factor[q + 1]):
                    if other != j:
                        x *= z[t.factor_z[other], s0 + i]
                gradient[p, s0 + i] += x
        for i in range(n):
            cell[i] *= factor[k, i]
        for e in range(t.cell_entry[q], t.cell_entry[q + 1]):
            p, le = t.entry_z[e], e - t.cell_entry[q0]
            for i in range(n):
                gradient[p, s0 + i] += cell[i] * log_slope[le, i]


@kernel
def likelihood(
    t: KernelTensors, z: Array, shapes: Array, data: Array, aux: Array, width: int, profile: bool, gammas: Array,
    nll: Array, gradient: Array, row_weight: Array, rate: Array,
) -> None:
    """Epilog of the template matmul: the NLL of every column and all of its gradient but the histosys part.

    Parameters
    ----------
    z : (Z, N) minimised parameters; shapes : (R, N) the matmul's result; data : (B, N); aux : (A, N).
    profile : solve for the gammas (G, N), else take them as given.
    nll : (N,), relative to the saturated model; gradient : (Z, N); row_weight : (R, N) = d NLL / d a_r, the
        right side of the pull-back matmul; rate : (B, N).
    """
    factor = np.empty((t.max_cells, STRIP))
    base = np.empty((t.max_cells, STRIP))
    log_slope = np.empty((t.max_entries, STRIP))
    slots = np.empty((t.max_slots, STRIP))
    weight = np.empty((t.max_slots, STRIP))
    poly, expo, cell = np.empty(STRIP), np.empty(STRIP), np.empty(STRIP)
    for s0 in range(0, width, STRIP):
        n = min(STRIP, width - s0)
        nll[s0 : s0 + n] = 0.0
        gradient[:, s0 : s0 + n] = 0.0
        for c in range(len(t.channel_cell) - 1):
            row_products(t, z, shapes, c, s0, n, factor, base, slots, log_slope, poly, expo)
            slot0 = t.bin_slot[t.channel_bin[c]]
            for b in range(t.channel_bin[c], t.channel_bin[c + 1]):
                bin_values(t, b, slots, slot0, s0, n, profile, data, aux, gammas, nll, weight, rate)
            pull_back_rows(
                t, z, shapes, c, s0, n, factor, base, weight, log_slope, cell, row_weight, gradient
            )
        constraint_terms(t, z, aux, s0, n, nll, gradient)


@kernel
def gather_histosys(histosys_z: IntArray, pulled: Array, derivative: Array, width: int, gradient: Array) -> None:
    """Add the pulled-back histosys features to the gradient: alpha's own row and q' times q's row."""
    n_histosys = len(histosys_z)
    for h in range(n_histosys):
        p = histosys_z[h]
        for i in range(width):
            gradient[p, i] += pulled[h, i] + pulled[n_histosys + h, i] * derivative[h, i]
