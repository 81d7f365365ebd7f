"""Toys on the CPU: Poisson counts and normals of many toys at once, compiled by numba.

Rows are draws, columns are toys. Uniforms of a stretch of toys are made in one loop without branches, which
LLVM vectorises, and are then turned into variates row by row, while a row's table lies in the first cache.
No fastmath: the bits are part of the promise (`nsmath.formulas.random`).
"""

from __future__ import annotations

import numpy as np

from nsmath._typing import AnyArray, Array, BoolArray, IntArray
from nsmath.backends.jit import exact_inlined, exact_kernel
from nsmath.formulas.poisson_tables import SamplingTables
from nsmath.formulas.random import compile_formulas

_F = compile_formulas(exact_inlined)
_kernel = exact_kernel

_uniform_pair = _F.uniform_pair
_toy_words = _F.toy_words
_normal_centre = _F.normal_centre
_tail_root = _F.tail_root
_normal_near = _F.normal_near
_normal_far = _F.normal_far
_table_count = _F.table_count
_ptrs_constants = _F.ptrs_constants
_ptrs_attempt = _F.ptrs_attempt
_ptrs_count = _F.ptrs_count

# Toys per stretch: scratch rows (4 KiB each) and a table share the first cache.
_STRETCH = 512


@_kernel
def _fill_uniforms(
    even: Array, odd: Array, block: int, attempt: int, hypothesis: int, toys: IntArray, key0: int, key1: int
) -> None:
    """Fill ``even`` and ``odd``, shape (>= toys.size,), with the two uniforms of each toy's block."""
    for t in range(toys.size):
        low, high = _toy_words(toys[t], hypothesis)
        even[t], odd[t] = _uniform_pair(block, attempt, low, high, key0, key1)


@_kernel
def _table_row(target: Array, uniforms: Array, cdf: Array, guide: AnyArray, first_count: int) -> None:
    for t in range(target.size):
        target[t] = first_count + _table_count(uniforms[t], cdf, guide)


@_kernel
def _ptrs_row(
    target: Array,
    even: Array,
    odd: Array,
    rate: float,
    draw: int,
    hypothesis: int,
    toys: IntArray,
    key0: int,
    key1: int,
) -> None:
    """Fill ``target`` by rejection; ``even`` and ``odd`` are scratch."""
    a, b, inverse_alpha, v_r = _ptrs_constants(rate)
    _fill_uniforms(even, odd, draw, 1, hypothesis, toys, key0, key1)
    for t in range(target.size):
        k = _ptrs_attempt(even[t], odd[t], rate, a, b, inverse_alpha, v_r)
        if k < 0.0:
            low, high = _toy_words(toys[t], hypothesis)
            k = _ptrs_count(rate, a, b, inverse_alpha, v_r, draw, 2, low, high, key0, key1)
        target[t] = k


@_kernel
def _normal_row(
    target: Array, uniforms: Array, mean: float, sigma: float, place: IntArray, root: Array, z: Array
) -> None:
    """Fill ``target`` with normals; ``place``, ``root`` and ``z``, one longer than a stretch, are scratch.

    The centre is computed for all. The tails, one in seven, are packed first, so that each loop vectorises.
    """
    for t in range(target.size):
        target[t] = mean + sigma * _normal_centre(uniforms[t] - 0.5)
    n_tails = 0
    for t in range(target.size):
        u = uniforms[t]
        place[n_tails] = t
        root[n_tails] = min(u, 1.0 - u)
        n_tails += abs(u - 0.5) > 0.425
    for j in range(n_tails):
        root[j] = _tail_root(root[j])
    for j in range(n_tails):
        z[j] = _normal_near(root[j])
    for j in range(n_tails):
        if root[j] > 5.0:
            z[j] = _normal_far(root[j])
        t = place[j]
        target[t] = mean + sigma * (z[j] if uniforms[t] > 0.5 else -z[j])


@_kernel
def _poisson_rows(
    out: Array,
    rates: Array,
    uses_table: BoolArray,
    cdf: Array,
    cdf_start: IntArray,
    guide: AnyArray,
    guide_start: IntArray,
    first_count: IntArray,
    key0: int,
    key1: int,
    hypothesis: int,
    toys: IntArray,
    first_draw: int,
) -> None:
    uniforms, scratch = np.empty((2, _STRETCH)), np.empty((2, _STRETCH))
    row = 0
    while row < rates.size:
        # The rows whose draws share a block: two, or one at either end.
        draw = first_draw + row
        end = min(row + 2 - (draw & 1), rates.size)
        any_table = uses_table[row] or uses_table[end - 1]
        for begin in range(0, toys.size, _STRETCH):
            some = toys[begin : begin + _STRETCH]
            if any_table:
                _fill_uniforms(uniforms[0], uniforms[1], draw >> 1, 0, hypothesis, some, key0, key1)
            for i in range(row, end):
                target = out[i, begin : begin + some.size]
                draw_i = first_draw + i
                if uses_table[i]:
                    cdf_i = cdf[cdf_start[i] : cdf_start[i + 1]]
                    guide_i = guide[guide_start[i] : guide_start[i + 1]]
                    _table_row(target, uniforms[draw_i & 1], cdf_i, guide_i, first_count[i])
                else:
                    _ptrs_row(target, scratch[0], scratch[1], rates[i], draw_i, hypothesis, some, key0, key1)
        row = end


@_kernel
def _normal_rows(
    out: Array,
    mean: Array,
    sigma: Array,
    key0: int,
    key1: int,
    hypothesis: int,
    toys: IntArray,
    first_draw: int,
) -> None:
    uniforms, packed = np.empty((2, _STRETCH)), np.empty((2, _STRETCH + 1))
    place = np.empty(_STRETCH + 1, dtype=np.int64)
    row = 0
    while row < mean.size:
        draw = first_draw + row
        end = min(row + 2 - (draw & 1), mean.size)
        for begin in range(0, toys.size, _STRETCH):
            some = toys[begin : begin + _STRETCH]
            _fill_uniforms(uniforms[0], uniforms[1], draw >> 1, 0, hypothesis, some, key0, key1)
            for i in range(row, end):
                target = out[i, begin : begin + some.size]
                half = uniforms[(first_draw + i) & 1]
                _normal_row(target, half, mean[i], sigma[i], place, packed[0], packed[1])
        row = end


def sample_poisson(
    out: Array, tables: SamplingTables, toys: IntArray, *, seed: int, hypothesis: int, first_draw: int
) -> None:
    """Fill ``out`` with Poisson counts.

    Parameters
    ----------
    out : array, shape (>= A, >= n), C order; rows 0 to A - 1 and columns 0 to n - 1 are written.
    tables : of the A rates.
    toys : array, shape (n,), index of the toy in each column, in any order.
    seed, hypothesis : the stream.
    first_draw : draw index of row 0.
    """
    _poisson_rows(
        out,
        tables.rates,
        tables.uses_table,
        tables.cdf,
        tables.cdf_start,
        tables.guide,
        tables.guide_start,
        tables.first_count,
        *_key(seed),
        int(hypothesis),
        toys,
        first_draw,
    )


def sample_normal(
    out: Array, mean: Array, sigma: Array, toys: IntArray, *, seed: int, hypothesis: int, first_draw: int
) -> None:
    """Fill ``out`` with normals of ``mean`` and ``sigma``, shape (A,); the rest as in `sample_poisson`."""
    _normal_rows(out, mean, sigma, *_key(seed), int(hypothesis), toys, first_draw)


def _key(seed: int) -> tuple[int, int]:
    # Plain ints: numba would see an unsigned scalar or an enum as another type, and compile again.
    return int(seed) & 0xFFFFFFFF, int(seed) >> 32
