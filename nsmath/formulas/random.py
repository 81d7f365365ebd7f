"""Counter-based random variates as scalar formulas that any compiler of Python functions can take.

Every variate is a pure function of (seed, hypothesis, toy, draw): no state moves from one to the next, so a
toy is the same for any batch width, thread count, order, shard split or device. The generator is
Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11).

=======  =============================================================================
key      seed, low and high 32 bits
word 0   attempt 0: ``draw >> 1``; attempts 1, 2, ...: ``draw``
word 1   attempt: 0 for inversion (one uniform per variate), 1, 2, ... for rejection
word 2   toy, low 32 bits
word 3   toy, bits 32 to 47, and the hypothesis in the upper 16 bits
=======  =============================================================================

with 0 <= seed < 2^64, 0 <= hypothesis < 2^16, 0 <= toy < 2^48, 0 <= draw < 2^32. A block of four words holds
two uniforms. In attempt 0 they belong to the draws 2j and 2j + 1, which halves the work for neighbouring
rows; a rejection attempt spends both on one draw.

Written once as plain functions of integers and floats, called as they are by tests and compiled by a backend
through `compile_formulas`. Two properties keep devices in step:

- Only + - * / sqrt and floor, which IEEE 754 rounds in one way; our own logarithm instead of a library's.
- A compiler that fuses multiply and add (CUDA by default) still finds the same counts: what feeds a floor or
  a comparison with a table has nothing to fuse that is not exact. Acceptances by logarithm could differ, at
  about 1e-15 per attempt, and normals do in the last bits: switch fusing off for the same bits everywhere.

All integers are int64, non-negative once masked: where signed meets unsigned, numba turns to floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import FunctionType, SimpleNamespace

from nsmath._typing import AnyArray, Array

_WORD = 0xFFFFFFFF
# Multipliers and key increments of Salmon et al.; the latter: golden ratio and sqrt(3) - 1, times 2^32.
_MULTIPLIER_0, _MULTIPLIER_1 = 0xD2511F53, 0xCD9E8D57
_WEYL_0, _WEYL_1 = 0x9E3779B9, 0xBB67AE85

_ROOT_HALF = 0.7071067811865476
_LN_2 = 0.6931471805599453
# Loop bound of the deviance series: |v| < 1/3 needs 16 terms, this only ends a loop on NaN.
_MAX_TERMS = 40


def philox4x32_10(c0: int, c1: int, c2: int, c3: int, key0: int, key1: int) -> tuple[int, int, int, int]:
    """Return the four 32-bit words of a counter under a key (Salmon et al., SC'11)."""
    for _ in range(10):
        # The product may wrap in int64; the bits are right, and the mask removes the sign the shift drags in.
        product0 = c0 * _MULTIPLIER_0
        product1 = c2 * _MULTIPLIER_1
        c0 = ((product1 >> 32) & _WORD) ^ c1 ^ key0
        c2 = ((product0 >> 32) & _WORD) ^ c3 ^ key1
        c1 = product1 & _WORD
        c3 = product0 & _WORD
        key0 = (key0 + _WEYL_0) & _WORD
        key1 = (key1 + _WEYL_1) & _WORD
    return c0, c1, c2, c3


def toy_words(toy: int, hypothesis: int) -> tuple[int, int]:
    """Return counter words 2 and 3 of a toy under a hypothesis."""
    return toy & _WORD, (toy >> 32) | (hypothesis << 16)


def unit_uniform(high: int, low: int) -> float:
    """Return a uniform from two words: an odd multiple of 2^-53 in (0, 1).

    Symmetric about one half, never 0 or 1, and exact in float64 (as are u - 1/2 and 1 - u). The lower 12 bits
    of ``low`` go unused.
    """
    return ((high << 20) + (low >> 12) + 0.5) * 2.0**-52


def uniform_pair(block: int, attempt: int, toy_low: int, toy_high: int, key0: int, key1: int) -> tuple[float, float]:
    """Return the two uniforms of one Philox block."""
    w0, w1, w2, w3 = philox4x32_10(block, attempt, toy_low, toy_high, key0, key1)
    return unit_uniform(w0, w1), unit_uniform(w2, w3)


def draw_uniform(draw: int, toy_low: int, toy_high: int, key0: int, key1: int) -> float:
    """Return the uniform that belongs to a draw: its half of the block it shares with its neighbour."""
    even, odd = uniform_pair(draw >> 1, 0, toy_low, toy_high, key0, key1)
    return odd if draw & 1 else even


def unit_log(x: float) -> float:
    """Return ln x for 2^-127 <= x < sqrt(2), good to about 1 ulp.

    x = m 2^e with 1/sqrt(2) <= m < sqrt(2), ln m = 2 artanh s with s = (m - 1) / (m + 1) by its power series.
    Not `math.log`, whose last bit depends on the device and could tip an acceptance.
    """
    # Selected factors instead of branches: loops over this vectorise.
    e = 0.0
    e -= 64.0 if x < _ROOT_HALF * 2.0**-63 else 0.0
    x *= 2.0**64 if x < _ROOT_HALF * 2.0**-63 else 1.0
    e -= 32.0 if x < _ROOT_HALF * 2.0**-31 else 0.0
    x *= 2.0**32 if x < _ROOT_HALF * 2.0**-31 else 1.0
    e -= 16.0 if x < _ROOT_HALF * 2.0**-15 else 0.0
    x *= 2.0**16 if x < _ROOT_HALF * 2.0**-15 else 1.0
    e -= 8.0 if x < _ROOT_HALF * 2.0**-7 else 0.0
    x *= 2.0**8 if x < _ROOT_HALF * 2.0**-7 else 1.0
    e -= 4.0 if x < _ROOT_HALF * 2.0**-3 else 0.0
    x *= 2.0**4 if x < _ROOT_HALF * 2.0**-3 else 1.0
    e -= 2.0 if x < _ROOT_HALF * 2.0**-1 else 0.0
    x *= 2.0**2 if x < _ROOT_HALF * 2.0**-1 else 1.0
    e -= 1.0 if x < _ROOT_HALF else 0.0
    x *= 2.0 if x < _ROOT_HALF else 1.0
    s = (x - 1.0) / (x + 1.0)
    z = s * s
    # |s| < 0.172: the first term left out, z^12 / 25, is below 2e-20.
    tail = 1.0 / 15.0 + z * (1.0 / 17.0 + z * (1.0 / 19.0 + z * (1.0 / 21.0 + z * (1.0 / 23.0))))
    tail = 1.0 / 7.0 + z * (1.0 / 9.0 + z * (1.0 / 11.0 + z * (1.0 / 13.0 + z * tail)))
    return e * _LN_2 + 2.0 * (s + s * z * (1.0 / 3.0 + z * (1.0 / 5.0 + z * tail)))


def normal_centre(q: float) -> float:
    """Return the standard normal quantile of 1/2 + q for |q| <= 0.425 (Wichura, AS 241, PPND16)."""
    r = 0.180625 - q * q
    above = 2509.0809287301226727 * r + 33430.575583588128105
    above = (above * r + 67265.770927008700853) * r + 45921.953931549871457
    above = (above * r + 13731.693765509461125) * r + 1971.5909503065514427
    above = (above * r + 133.14166789178437745) * r + 3.3871328727963666080
    below = 5226.4952788528545610 * r + 28729.085735721942674
    below = (below * r + 39307.895800092710610) * r + 21213.794301586595867
    below = (below * r + 5394.1960214247511077) * r + 687.18700749205790830
    below = (below * r + 42.313330701600911252) * r + 1.0
    return q * above / below


def tail_root(p: float) -> float:
    """Return sqrt(-ln p), the variable of AS 241 in the tails, for 2^-53 <= p < 0.075."""
    return math.sqrt(-unit_log(p))


def normal_near(root: float) -> float:
    """Return minus the standard normal quantile of p for a `tail_root` up to 5 (AS 241, PPND16)."""
    r = root - 1.6
    above = 7.74545014278341407640e-4 * r + 2.27238449892691845833e-2
    above = (above * r + 2.41780725177450611770e-1) * r + 1.27045825245236838258
    above = (above * r + 3.64784832476320460504) * r + 5.76949722146069140550
    above = (above * r + 4.63033784615654529590) * r + 1.42343711074968357734
    below = 1.05075007164441684324e-9 * r + 5.47593808499534494600e-4
    below = (below * r + 1.51986665636164571966e-2) * r + 1.48103976427480074590e-1
    below = (below * r + 6.89767334985100004550e-1) * r + 1.67638483018380384940
    below = (below * r + 2.05319162663775882187) * r + 1.0
    return above / below


def normal_far(root: float) -> float:
    """Return minus the standard normal quantile of p for a `tail_root` above 5, p < 1.4e-11."""
    r = root - 5.0
    above = 2.01033439929228813265e-7 * r + 2.71155556874348757815e-5
    above = (above * r + 1.24266094738807843860e-3) * r + 2.65321895265761230930e-2
    above = (above * r + 2.96560571828504891230e-1) * r + 1.78482653991729133580
    above = (above * r + 5.46378491116411436990) * r + 6.65790464350110377720
    below = 2.04426310338993978564e-15 * r + 1.42151175831644588870e-7
    below = (below * r + 1.84631831751005468180e-5) * r + 7.86869131145613259100e-4
    below = (below * r + 1.48753612908506148525e-2) * r + 1.36929880922735805310e-1
    below = (below * r + 5.99832206555887937690e-1) * r + 1.0
    return above / below


def normal_quantile(u: float) -> float:
    """Return the standard normal quantile of u, 2^-53 <= u <= 1 - 2^-53."""
    q = u - 0.5
    if abs(q) <= 0.425:
        return normal_centre(q)
    root = tail_root(min(u, 1.0 - u))
    z = normal_near(root) if root <= 5.0 else normal_far(root)
    return z if q > 0.0 else -z


def table_count(u: float, cdf: Array, guide: AnyArray) -> int:
    """Return the first position in a table whose entry exceeds u.

    ``guide`` knows, for each of its equal cells of (0, 1), where the lower edge falls; from there the search
    is linear. The number of cells is a power of two, so the product with u is exact. The last entry is 1.
    """
    position: int = guide[int(u * guide.size)]
    # Two unconditional steps settle almost every draw without a branch to mispredict.
    position += cdf[position] <= u
    position += cdf[position] <= u
    while cdf[position] <= u:
        position += 1
    return position


def ptrs_constants(rate: float) -> tuple[float, float, float, float]:
    """Return (a, b, 1/alpha, v_r) of algorithm PTRS (Hoermann, Insurance Math. Econom. 12 (1993) 39)."""
    b = 0.931 + 2.53 * math.sqrt(rate)
    return 0.02483 * b - 0.059, b, 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2.0)


def poisson_deviance_half(k: float, rate: float) -> float:
    """Return k ln(k / rate) + rate - k for rate / 2 <= k <= 2 rate.

    As a series in v = (k - rate) / (k + rate) (Loader, "Fast and accurate computation of binomial
    probabilities", 2000), so that nothing cancels where k and rate agree to many digits.
    """
    difference = k - rate
    v = difference / (k + rate)
    v2 = v * v
    total = difference * v
    power = 2.0 * k * v
    for j in range(1, _MAX_TERMS):
        power *= v2
        term = power / (2.0 * j + 1.0)
        if total + term == total:
            break
        total += term
    return total


def ptrs_attempt(u: float, v: float, rate: float, a: float, b: float, inverse_alpha: float, v_r: float) -> float:
    """Return a Poisson count by transformed rejection, or -1 if the two uniforms are rejected.

    Algorithm PTRS (Hoermann 1993) for 1000 <= rate <= 1e15, with two changes. The log density is minus half
    the deviance and Stirling's remainder (Loader 2000) instead of k ln(rate) - rate - ln k!, which
    has no digits left at 1e15. The shift is rounded down to 2^-10 before the mean is added: that only moves
    the offset 0.43, all cells of k keep width 1, and no fused multiply-add can tip the floor.
    """
    u -= 0.5
    us = 0.5 - abs(u)
    shift = (2.0 * a / us + b) * u
    # Beyond half the mean the density is below exp(-100), where no v gets. Keeps the floor in int64, too.
    if abs(shift) >= 0.5 * rate:
        return -1.0
    k = float(math.floor(math.floor(shift * 1024.0) * 2.0**-10 + (rate + 0.43)))
    if us >= 0.07 and v <= v_r:
        return k
    if us < 0.013 and v > us:
        return -1.0
    hat = v * inverse_alpha * math.sqrt(2.0 * math.pi * k) / (a / (us * us) + b)
    remainder = (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / (1260.0 * k * k)) / (k * k)) / k
    return k if unit_log(hat) <= -poisson_deviance_half(k, rate) - remainder else -1.0


def ptrs_count(
    rate: float,
    a: float,
    b: float,
    inverse_alpha: float,
    v_r: float,
    draw: int,
    attempt: int,
    toy_low: int,
    toy_high: int,
    key0: int,
    key1: int,
) -> float:
    """Return the count of the first accepted `ptrs_attempt` from ``attempt`` (1, 2, ...) on."""
    k = -1.0
    while k < 0.0:
        u, v = uniform_pair(draw, attempt, toy_low, toy_high, key0, key1)
        k = ptrs_attempt(u, v, rate, a, b, inverse_alpha, v_r)
        attempt += 1
    return k


_FORMULAS = (
    philox4x32_10,
    toy_words,
    unit_uniform,
    uniform_pair,
    draw_uniform,
    unit_log,
    normal_centre,
    tail_root,
    normal_near,
    normal_far,
    normal_quantile,
    table_count,
    ptrs_constants,
    poisson_deviance_half,
    ptrs_attempt,
    ptrs_count,
)


def compile_formulas(jit: Callable[[FunctionType], object]) -> SimpleNamespace:
    """Return the formulas of this module compiled by ``jit`` (a device-function decorator), by name.

    Each function is given a scope in which the ones it calls are the compiled ones; hence callees first.
    """
    scope = dict(globals())
    for formula in _FORMULAS:
        scope[formula.__name__] = jit(FunctionType(formula.__code__, scope, formula.__name__))
    return SimpleNamespace(**{formula.__name__: scope[formula.__name__] for formula in _FORMULAS})
