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
    [2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457]
    + [13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.3871328727963666080],
    [5226.4952788528545610, 28729.085735721942674, 39307.895800092710610, 21213.794301586595867]
    + [5394.1960214247511077, 687.18700749205790830, 42.313330701600911252, 1.0],
)
_NEAR = (
    [7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1]
    + [1.27045825245236838258, 3.64784832476320460504, 5.76949722146069140550]
    + [4.63033784615654529590, 1.42343711074968357734],
    [1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2]
    + [1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940]
    + [2.05319162663775882187, 1.0],
)
_FAR = (
    [2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3]
    + [2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580]
    + [5.46378491116411436990, 6.65790464350110377720],
    [2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5]
    + [7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1]
    + [5.99832206555887937690e-1, 1.0],
)


def philox(
    counter: tuple[Words, Words, Words, Words], key: tuple[int, int]
) -> tuple[Words, Words, Words, Words]:
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
