"""Elementary functions without branches and without calls, so that loops over columns become vector instructions.

libm's `exp` and `log1p` cost 10 to 20 ns a call and keep a loop scalar. These take a few instructions per lane.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from nsmath.backends.jit import inlined

_EXPONENT_SHIFT = np.uint64(52)
# Bits of 1 less those of sqrt(1/2), where the mantissa of `log_gap` begins; and bits of 1, and of 2^52.
_ONE_ABOVE_ROOT_HALF = np.uint64(0x3FF0000000000000 - 0x3FE6A09E667F3BCD)
_ONE = np.uint64(0x3FF0000000000000)
_TWO_52 = np.uint64(0x4330000000000000)
# 2^52 + 2^51: adding it rounds to an integer, which then stands in the low bits.
_MAGIC = 6755399441055744.0
_LOG2_E = 1.4426950408889634
# ln 2 in two parts, the first with 21 trailing zero bits: its product with an exponent is exact.
_LN2_HIGH = 0.6931471803691238
_LN2_LOW = 1.9082149292705877e-10
_LARGEST_EXP = 709.0
_SMALLEST_EXP = -708.0


@intrinsic  # type: ignore[untyped-decorator]
def float_bits(_: Any, value: Any) -> Any:
    """Return the 64 bits of a float as an int."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.uint64(types.float64), generate


@intrinsic  # type: ignore[untyped-decorator]
def float_from_bits(_: Any, bits: Any) -> Any:
    """Return the float that has these 64 bits."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.uint64), generate


@inlined
def log_gap(d: float) -> float:
    """Return ``d - log(1 + d)`` for d > -1, with a relative error of a few 1e-16 also where d is small.

    1 + d = 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)). With s = f / (2 + f), log(1 + f) = f - s (f - R),
    R = 2 (s^2/3 + s^4/5 + ...). Where e = 0, f is d itself and the difference d - f cancels exactly.
    """
    bits = float_bits(1.0 + d)
    shifted = (bits + _ONE_ABOVE_ROOT_HALF) >> _EXPONENT_SHIFT
    # The exponent as a float by its bits alone: AVX2 has no conversion from 64-bit integers.
    e = float_from_bits(shifted | _TWO_52) - (4503599627370496.0 + 1023.0)
    m = float_from_bits(bits - (shifted << _EXPONENT_SHIFT) + _ONE)
    f = d if e == 0.0 else m - 1.0
    s = f / (2.0 + f)
    u = s * s
    tail = 2.0 / 3.0 + u * (
        2.0 / 5.0 + u * (
            2.0 / 7.0 + u * (
                2.0 / 9.0 + u * (2.0 / 11.0 + u * (2.0 / 13.0 + u * (2.0 / 15.0 + u * (2.0 / 17.0 + u * (
                    2.0 / 19.0 + u * 2.0 / 21.0))))))))  # fmt: skip
    gap: float = ((d - f - e * _LN2_HIGH) - e * _LN2_LOW) + s * (f - u * tail)
    return gap


@inlined
def exponential(x: float) -> float:
    """Return e^x to 1e-15 relative; infinite above 709, 0 below -708."""
    shifted = x * _LOG2_E + _MAGIC
    k = shifted - _MAGIC
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    p = 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * (1.0 / 120.0 + r * (
        1.0 / 720.0 + r * (1.0 / 5040.0 + r * (1.0 / 40320.0 + r * (1.0 / 362880.0 + r * (
            1.0 / 3628800.0 + r * (1.0 / 39916800.0 + r * (1.0 / 479001600.0 + r / 6227020800.0))))))))))))  # fmt: skip
    value = float_from_bits(float_bits(p) + (float_bits(shifted) << _EXPONENT_SHIFT))
    value = value if x > _SMALLEST_EXP else 0.0
    value = value if x < _LARGEST_EXP else float("inf")
    # NaN compares false: it must come out as it went in.
    return value if x == x else x
