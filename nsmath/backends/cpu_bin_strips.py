"""Bins of a strip of columns: their gammas, profiled with all columns abreast, and their part of the NLL.

Closed forms and Newton steps run in loops over the strip, without branches; what they do not solve (a gamma at its
bound in a closed form, an auxiliary count of 0, a rate at 0) goes column by column to `cpu_bins.solve_bin`.
"""

from __future__ import annotations

import math

from nsmath._typing import Array, IntArray
from nsmath.backends.cpu_bins import NO_GAMMA, ROOT_TOLERANCE, gamma_at, normal_bin_rate, poisson_bin_rate, solve_bin
from nsmath.backends.cpu_functions import log_gap
from nsmath.backends.cpu_strips import STRIP, strip
from nsmath.backends.cpu_tensors import Offsets
from nsmath.backends.jit import inlined, inner

# Rows of a strip's scratch.
POLY, EXPO, VALUE, SLOPE, CELL, OTHER, COUNT, RESIDUAL, GAMMA, RATE, TOTAL, MARK, ZERO, N_ROWS = range(14)

MAX_STRIP_STEPS = 12
"""Newton steps that a strip takes together: twice what most bins need."""


@inlined
def one_poisson_gamma(
    scale: float,
    o: Array,
    s: Array,
    count: Array,
    aux: Array,
    residual: Array,
    out: Array,
) -> None:
    """Solve bins ``o + gamma s`` with a Poisson constraint in closed form; NaN where that does not apply."""
    for i in range(STRIP):
        rate = poisson_bin_rate(o[i], s[i], count[i], aux[i], scale)
        good = (s[i] >= 0.0) & (aux[i] > 0.0) & (rate > 0.0)
        residual[i] = 1.0 - count[i] / rate if good else math.nan
    for i in range(STRIP):
        out[i] = aux[i] / (scale + s[i] * residual[i])


@inlined
def one_normal_gamma(scale: float, o: Array, s: Array, count: Array, aux: Array, residual: Array, out: Array) -> None:
    """Solve bins ``o + gamma s`` with a normal constraint in closed form; NaN where that does not apply."""
    variance = scale * scale
    for i in range(STRIP):
        rate = normal_bin_rate(o[i], s[i], count[i], aux[i], variance)
        good = (s[i] >= 0.0) & (rate > 0.0)
        residual[i] = 1.0 - count[i] / rate if good else math.nan
    for i in range(STRIP):
        out[i] = aux[i] - variance * s[i] * residual[i]


@inner
def add_deviance(rate: Array, count: Array, total: Array) -> None:
    """Add the Poisson terms of a strip to ``total``; see `nsmath.backends.cpu_bins.poisson_term`."""
    for i in range(STRIP):
        n = count[i] if count[i] > 0.0 else 1.0
        seen = n * log_gap((rate[i] - n) / n) if rate[i] > 0.0 else math.inf
        unseen = rate[i] if rate[i] >= 0.0 else math.inf
        total[i] += seen if count[i] > 0.0 else unseen


@inlined
def add_asked_poisson(
    scale: float, lower: float, upper: float, r: Array, s: Array, aux: Array, rate: Array, slope: Array, bad: Array
) -> None:
    """Add a Poisson slot's ``gamma(r) S`` and its derivative; an auxiliary count of 0 is ``bad``."""
    for i in range(STRIP):
        denominator = scale + s[i] * r[i]
        gamma = aux[i] / denominator if denominator > 0.0 else math.inf
        held = gamma if gamma > lower else lower
        held = held if held < upper else upper
        rate[i] += held * s[i]
        slope[i] -= held * s[i] * (s[i] / denominator) if held == gamma else 0.0
    for i in range(STRIP):
        bad[i] = bad[i] if aux[i] > 0.0 else 1.0


@inlined
def add_asked_normal(
    scale: float, lower: float, upper: float, r: Array, s: Array, aux: Array, rate: Array, slope: Array
) -> None:
    """Add a normal slot's ``gamma(r) S`` and its derivative."""
    variance = scale * scale
    for i in range(STRIP):
        gamma = aux[i] - variance * s[i] * r[i]
        held = gamma if gamma > lower else lower
        held = held if held < upper else upper
        rate[i] += held * s[i]
        slope[i] -= variance * s[i] * s[i] if held == gamma else 0.0


@inlined
def root_step(count: Array, rate: Array, slope: Array, bad: Array, r: Array, mark: Array) -> float:
    """Take a Newton step on ``(1 - r) asked(r) = n`` where it is not solved yet; return how many columns are not.

    A column that is solved keeps its r, so how often its neighbours step does not touch it. With n = 0, r is 1
    or the general solver's business.
    """
    for i in range(STRIP):
        n = count[i]
        f = (1.0 - r[i]) * rate[i] - n
        df = (1.0 - r[i]) * slope[i] - rate[i]
        # Beyond r = 1 the equation has roots of no meaning, with a rate below 0.
        solved = (abs(f) <= ROOT_TOLERANCE * n) & (r[i] < 1.0) if n > 0.0 else rate[i] >= 0.0
        mark[i] = 0.0 if solved & (bad[i] == 0.0) else 1.0
        r[i] = r[i] if solved | (n <= 0.0) else r[i] - f / df
    left = 0.0
    for i in range(STRIP):
        left += mark[i]
    return left


@inner
def several_gammas(
    t: Offsets,
    ints: IntArray,
    floats: Array,
    first: int,
    last: int,
    slot0: int,
    slots: Array,
    s0: int,
    aux: Array,
    gammas: Array,
    w: Array,
) -> None:
    """Solve bins with several gammas, all columns abreast; mark the columns that plain Newton steps do not solve."""
    r, count, mark, rate, slope, bad = w[RESIDUAL], w[COUNT], w[MARK], w[RATE], w[SLOPE], w[OTHER]
    for i in range(STRIP):
        r[i] = 0.0 if count[i] > 0.0 else 1.0
    for _ in range(MAX_STRIP_STEPS):
        for i in range(STRIP):
            rate[i] = 0.0
            slope[i] = 0.0
            bad[i] = 0.0
        for slot in range(first, last):
            g, s = ints[t.slot_gamma + slot], slots[slot - slot0]
            if g < 0:
                for i in range(STRIP):
                    rate[i] += s[i]
                continue
            scale, lower, upper = floats[t.gamma_scale + g], floats[t.gamma_lower + g], floats[t.gamma_upper + g]
            aux_row = strip(aux, ints[t.gamma_aux + g], s0)
            if ints[t.gamma_is_poisson + g]:
                add_asked_poisson(scale, lower, upper, r, s, aux_row, rate, slope, bad)
            else:
                add_asked_normal(scale, lower, upper, r, s, aux_row, rate, slope)
        if root_step(count, rate, slope, bad, r, mark) == 0.0:
            break
    for slot in range(first, last):
        g, s = ints[t.slot_gamma + slot], slots[slot - slot0]
        if g < 0:
            continue
        scale, lower, upper = floats[t.gamma_scale + g], floats[t.gamma_lower + g], floats[t.gamma_upper + g]
        aux_row, out = strip(aux, ints[t.gamma_aux + g], s0), strip(gammas, g, s0)
        kind = ints[t.gamma_is_poisson + g]
        for i in range(STRIP):
            out[i] = gamma_at(r[i], s[i], kind, aux_row[i], scale, lower, upper)


@inlined
def gather_slots(
    t: Offsets,
    ints: IntArray,
    floats: Array,
    first: int,
    last: int,
    slot0: int,
    slots: Array,
    i: int,
    column: int,
    aux: Array,
    small: Array,
    kind: IntArray,
) -> None:
    """Copy one column of a bin's slots into the small arrays that `solve_bin` takes."""
    for slot in range(first, last):
        k = slot - first
        g = ints[t.slot_gamma + slot]
        small[0, k] = slots[slot - slot0, i]
        if g < 0:
            kind[k] = NO_GAMMA
            continue
        kind[k] = ints[t.gamma_is_poisson + g]
        small[1, k] = aux[ints[t.gamma_aux + g], column]
        small[2, k], small[3, k] = floats[t.gamma_scale + g], floats[t.gamma_lower + g]
        small[4, k] = floats[t.gamma_upper + g]


@inner
def bin_gammas(
    t: Offsets,
    ints: IntArray,
    floats: Array,
    first: int,
    last: int,
    slot0: int,
    slots: Array,
    s0: int,
    n: int,
    aux: Array,
    gammas: Array,
    small: Array,
    kind: IntArray,
    w: Array,
) -> None:
    """Profile a bin's gammas into ``gammas``; the RESIDUAL row becomes r."""
    residual, count, mark = w[RESIDUAL], w[COUNT], w[MARK]
    g = ints[t.slot_gamma + last - 1]
    if last - first == 1 or (last - first == 2 and ints[t.slot_gamma + first] < 0):
        aux_row, out = strip(aux, ints[t.gamma_aux + g], s0), strip(gammas, g, s0)
        o, s = slots[first - slot0] if last - first == 2 else w[ZERO], slots[last - 1 - slot0]
        if ints[t.gamma_is_poisson + g]:
            one_poisson_gamma(floats[t.gamma_scale + g], o, s, count, aux_row, residual, out)
        else:
            one_normal_gamma(floats[t.gamma_scale + g], o, s, count, aux_row, residual, out)
        lower, upper = floats[t.gamma_lower + g], floats[t.gamma_upper + g]
        for i in range(STRIP):
            mark[i] = 0.0 if (out[i] >= lower) & (out[i] <= upper) else 1.0
    else:
        several_gammas(t, ints, floats, first, last, slot0, slots, s0, aux, gammas, w)
    for i in range(n):
        if mark[i] == 0.0:
            continue
        gather_slots(t, ints, floats, first, last, slot0, slots, i, s0 + i, aux, small, kind)
        residual[i] = solve_bin(
            count[i], last - first, kind, small[0], small[1], small[2], small[3], small[4], small[5]
        )
        for slot in range(first, last):
            if ints[t.slot_gamma + slot] >= 0:
                gammas[ints[t.slot_gamma + slot], s0 + i] = small[5, slot - first]


@inner
def bin_rate(
    t: Offsets,
    ints: IntArray,
    floats: Array,
    first: int,
    last: int,
    slot0: int,
    slots: Array,
    s0: int,
    solved: bool,
    gammas: Array,
    w: Array,
) -> None:
    """Fill the RATE row, and the RESIDUAL row where profiling has not."""
    rate, count, residual = w[RATE], w[COUNT], w[RESIDUAL]
    for i in range(STRIP):
        rate[i] = 0.0
    for slot in range(first, last):
        g, s = ints[t.slot_gamma + slot], slots[slot - slot0]
        if g < 0:
            for i in range(STRIP):
                rate[i] += s[i]
        else:
            gamma_row = strip(gammas, g, s0)
            for i in range(STRIP):
                rate[i] += s[i] * gamma_row[i]
    if solved:
        for i in range(STRIP):
            # A rate that profiling holds at its bound 0 comes out as rounding noise of either sign.
            rate[i] = 0.0 if (count[i] <= 0.0) & (residual[i] < 1.0) else rate[i]
    else:
        for i in range(STRIP):
            residual[i] = 1.0 - count[i] / rate[i] if count[i] > 0.0 else 1.0


@inner
def bin_values(
    t: Offsets,
    ints: IntArray,
    floats: Array,
    b: int,
    slot0: int,
    slots: Array,
    weight: Array,
    s0: int,
    n_used: int,
    profile: bool,
    data: Array,
    aux: Array,
    gammas: Array,
    rates: Array,
    small: Array,
    kind: IntArray,
    w: Array,
) -> None:
    """Add bin b's Poisson term and its gammas' terms to the TOTAL row; fill its slots' rows d NLL / d S_l."""
    count, rate, residual, total = w[COUNT], w[RATE], w[RESIDUAL], w[TOTAL]
    first, last = ints[t.bin_slot + b], ints[t.bin_slot + b + 1]
    solved = profile and ints[t.slot_gamma + last - 1] >= 0
    data_row, rate_row = strip(data, b, s0), strip(rates, b, s0)
    for i in range(STRIP):
        count[i] = data_row[i]
    if solved:
        bin_gammas(t, ints, floats, first, last, slot0, slots, s0, n_used, aux, gammas, small, kind, w)
    bin_rate(t, ints, floats, first, last, slot0, slots, s0, solved, gammas, w)
    for i in range(STRIP):
        rate_row[i] = rate[i]
    add_deviance(rate, count, total)
    for slot in range(first, last):
        g, target = ints[t.slot_gamma + slot], weight[slot - slot0]
        if g < 0:
            for i in range(STRIP):
                target[i] = residual[i]
            continue
        gamma_row, aux_row = strip(gammas, g, s0), strip(aux, ints[t.gamma_aux + g], s0)
        scale = floats[t.gamma_scale + g]
        for i in range(STRIP):
            target[i] = residual[i] * gamma_row[i]
        if ints[t.gamma_is_poisson + g]:
            for i in range(STRIP):
                rate[i] = gamma_row[i] * scale
            add_deviance(rate, aux_row, total)
        else:
            for i in range(STRIP):
                pull = (gamma_row[i] - aux_row[i]) / scale
                total[i] += 0.5 * pull * pull
