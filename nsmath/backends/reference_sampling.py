"""Toys in plain NumPy, one row at a time: the slow and obvious twin of every other backend's sampling.

Same variates from the same counters (`nsmath.formulas.random`), written a second time: unsigned words, binary
search instead of guide tables, the library's logarithm. Counts agree exactly, normals to the last bits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nsmath._typing import Array, IntArray
from nsmath.formulas.poisson_tables import SamplingTables
from nsmath.formulas.random import ptrs_constants

Words = NDArray[np.uint64]

_WORD = np.uint64(0xFFFFFFFF)
_HALF_WORD = np.uint64(32)

# Wichura, AS 241 (Appl. Statist. 37 (1988) 477), PPND16: numerator and denominator, highest power first.
_CENTRE = (
    [
        2509.0809287301227, 33430.57558358813, 67265.7709270087, 45921.95393154987,
        13731.69376550946, 1971.5909503065513, 133.14166789178438, 3.3871328727963665,
    ],
    [
        5226.495278852854, 28729.085735721943, 39307.89580009271, 21213.794301586597,
        5394.196021424751, 687.1870074920579, 42.31333070160091, 1.0,
    ],
)  # fmt: skip
_NEAR = (
    [
        0.0007745450142783414, 0.022723844989269184, 0.2417807251774506, 1.2704582524523684,
        3.6478483247632045, 5.769497221460691, 4.630337846156546, 1.4234371107496835,
    ],
    [
        1.0507500716444169e-09, 0.0005475938084995345, 0.015198666563616457, 0.14810397642748008,
        0.6897673349851, 1.6763848301838038, 2.053191626637759, 1.0,
    ],
)  # fmt: skip
_FAR = (
    [
        2.0103343992922881e-07, 2.7115555687434876e-05, 0.0012426609473880784, 0.026532189526576124,
        0.29656057182850487, 1.7848265399172913, 5.463784911164114, 6.657904643501103,
    ],
    [
        2.0442631033899397e-15, 1.421511758316446e-07, 1.8463183175100548e-05, 0.0007868691311456133,
        0.014875361290850615, 0.1369298809227358, 0.599832206555888, 1.0,
    ],
)  # fmt: skip


def philox(counter: tuple[Words, Words, Words, Words], key: tuple[int, int]) -> tuple[Words, Words, Words, Words]:
    """Return the four words of counters, shape (n,) each, under a key (Salmon et al., SC'11)."""
    left, left_other, right, right_other = counter
    for turn in range(10):
        key_left = np.uint64((key[0] + turn * 0x9E3779B9) & 0xFFFFFFFF)
        key_right = np.uint64((key[1] + turn * 0xBB67AE85) & 0xFFFFFFFF)
        from_left = left * np.uint64(0xD2511F53)
        from_right = right * np.uint64(0xCD9E8D57)
        left = (from_right >> _HALF_WORD) ^ left_other ^ key_left
        right = (from_left >> _HALF_WORD) ^ right_other ^ key_right
        left_other, right_other = from_right & _WORD, from_left & _WORD
    return left, left_other, right, right_other


def uniforms(block: int, attempt: int, toys: IntArray, *, seed: int, hypothesis: int) -> tuple[Array, Array]:
    """Return the two uniforms of a block for each toy, shape (n,): odd multiples of 2^-53."""
    index = toys.astype(np.uint64)
    counter = (
        np.full_like(index, block),
        np.full_like(index, attempt),
        index & _WORD,
        (index >> _HALF_WORD) | np.uint64(hypothesis << 16),
    )
    w0, w1, w2, w3 = philox(counter, (seed & 0xFFFFFFFF, seed >> 32))
    twelve = np.uint64(12)
    first = w0.astype(np.float64) * 2.0**-32 + ((w1 >> twelve).astype(np.float64) + 0.5) * 2.0**-52
    second = w2.astype(np.float64) * 2.0**-32 + ((w3 >> twelve).astype(np.float64) + 0.5) * 2.0**-52
    return first, second


def normal_quantile(u: Array) -> Array:
    """Return the standard normal quantile, shape of u (Wichura, AS 241, PPND16)."""
    q = u - 0.5
    root = np.sqrt(-np.log(np.minimum(u, 1.0 - u)))
    centre = q * _ratio(_CENTRE, 0.180625 - q * q)
    tail = np.where(root <= 5.0, _ratio(_NEAR, root - 1.6), _ratio(_FAR, root - 5.0))
    z: Array = np.where(np.abs(q) <= 0.425, centre, np.copysign(tail, q))
    return z


def rejection_counts(rate: float, draw: int, toys: IntArray, *, seed: int, hypothesis: int) -> Array:
    """Return Poisson counts by algorithm PTRS, shape (n,); see `nsmath.formulas.random.ptrs_attempt`."""
    a, b, inverse_alpha, v_r = ptrs_constants(rate)
    counts = np.full(toys.size, -1.0)
    attempt = 0
    while np.any(counts < 0.0):
        attempt += 1
        todo = np.flatnonzero(counts < 0.0)
        u, v = uniforms(draw, attempt, toys[todo], seed=seed, hypothesis=hypothesis)
        u -= 0.5
        us = 0.5 - np.abs(u)
        shift = (2.0 * a / us + b) * u
        inside = np.abs(shift) < 0.5 * rate
        k = np.floor(np.floor(np.where(inside, shift, 0.0) * 1024.0) / 1024.0 + (rate + 0.43))
        quick = (us >= 0.07) & (v <= v_r)
        hat = v * inverse_alpha * np.sqrt(2.0 * np.pi * k) / (a / (us * us) + b)
        fits = ((us >= 0.013) | (v <= us)) & (np.log(hat) <= _log_density(k, rate))
        counts[todo] = np.where(inside & (quick | fits), k, -1.0)
    return counts


def sample_poisson(
    out: Array, tables: SamplingTables, toys: IntArray, *, seed: int, hypothesis: int, first_draw: int
) -> None:
    """Fill ``out`` with Poisson counts; arguments as in `nsmath.backends.cpu_sampling.sample_poisson`."""
    for i, rate in enumerate(tables.rates):
        draw = first_draw + i
        if tables.uses_table[i]:
            u = uniforms(draw >> 1, 0, toys, seed=seed, hypothesis=hypothesis)[draw & 1]
            cdf = tables.cdf[tables.cdf_start[i] : tables.cdf_start[i + 1]]
            out[i, : toys.size] = tables.first_count[i] + np.searchsorted(cdf, u, side="right")
        else:
            out[i, : toys.size] = rejection_counts(float(rate), draw, toys, seed=seed, hypothesis=hypothesis)


def sample_normal(
    out: Array, mean: Array, sigma: Array, toys: IntArray, *, seed: int, hypothesis: int, first_draw: int
) -> None:
    """Fill ``out`` with normals; arguments as in `nsmath.backends.cpu_sampling.sample_normal`."""
    for i in range(mean.size):
        draw = first_draw + i
        u = uniforms(draw >> 1, 0, toys, seed=seed, hypothesis=hypothesis)[draw & 1]
        out[i, : toys.size] = mean[i] + sigma[i] * normal_quantile(u)


def _ratio(polynomials: tuple[list[float], list[float]], x: Array) -> Array:
    ratio: Array = np.polyval(polynomials[0], x) / np.polyval(polynomials[1], x)
    return ratio


def _log_density(k: Array, rate: float) -> Array:
    """Return ln(P(k) sqrt(2 pi k)) for |k - rate| < rate / 2 (Loader 2000)."""
    v = (k - rate) / (k + rate)
    # v^2 < 1/9: 17 terms reach the last bit.
    terms = sum(v ** (2 * j + 1) / (2 * j + 1) for j in range(17, 0, -1))
    deviance_half = (k - rate) * v + 2.0 * k * terms
    return np.asarray(-deviance_half - (1.0 / 12.0 - 1.0 / (360.0 * k**2) + 1.0 / (1260.0 * k**4)) / k)
