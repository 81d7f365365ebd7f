"""Interpolation codes as rows of numbers, so that every backend shares one expression of them.

A variation is known at alpha = -1 (``lo``) and alpha = +1 (``hi``). How it behaves between and beyond is an
*interpolation code* (HistFactory, CERN-OPEN-2012-016, section 4; the smooth codes 4 and 4p: ROOT's
``FlexibleInterpVar`` and pyhf's ``code4``, ``code4p``).

Additive codes (histosys): with S = (hi - lo) / 2 and A = (hi + lo - 2 nominal) / 2 the shift of a yield is
``alpha S + q(alpha) A``: linear in two features of the parameter alone. A code is therefore just the even
function q: a polynomial in alpha^2 up to ``threshold``, ``slope |alpha| + intercept`` beyond.

Multiplicative codes (normsys): the factor is ``1 + sum_k a_k alpha^k`` (k = 1..6) up to ``threshold`` and
``hi^alpha`` or ``lo^-alpha`` beyond. Code 1 has threshold 0: exponential everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nsmath._typing import Array
from nsmath.errors import OptionError


@dataclass(frozen=True, slots=True)
class AdditiveCode:
    """The even function q(alpha) of an additive interpolation code.

    Attributes
    ----------
    threshold : |alpha| below which the polynomial holds (0: never).
    inner : coefficients of alpha^2, alpha^4, alpha^6.
    slope, intercept : q beyond the threshold is ``slope |alpha| + intercept``.
    """

    name: str
    threshold: float
    inner: tuple[float, float, float]
    slope: float
    intercept: float


@dataclass(frozen=True, slots=True)
class MultiplicativeCode:
    """A multiplicative interpolation code: polynomial of degree 6 within ``threshold``, exponential beyond."""

    name: str
    threshold: float


ADDITIVE_CODES: dict[str, AdditiveCode] = {
    code.name: code
    for code in (
        AdditiveCode("code0", 0.0, (0.0, 0.0, 0.0), 1.0, 0.0),
        # Beyond 1 the parabola goes on along its tangent. pyhf's code2 drops the value at 1 there and jumps;
        # we keep ROOT's continuous form (docs/maths.md).
        AdditiveCode("code2", 1.0, (1.0, 0.0, 0.0), 2.0, -1.0),
        AdditiveCode("code4p", 1.0, (15.0 / 8.0, -10.0 / 8.0, 3.0 / 8.0), 1.0, 0.0),
    )
}

MULTIPLICATIVE_CODES: dict[str, MultiplicativeCode] = {
    code.name: code for code in (MultiplicativeCode("code1", 0.0), MultiplicativeCode("code4", 1.0))
}


@dataclass(frozen=True, slots=True)
class Interpolation:
    """The interpolation code of each modifier type that interpolates.

    Attributes
    ----------
    histosys : name of an additive code (``code0``, ``code2``, ``code4p``).
    normsys : name of a multiplicative code (``code1``, ``code4``).
    """

    histosys: str = "code4p"
    normsys: str = "code4"

    def __post_init__(self) -> None:
        for modifier, table in (("histosys", ADDITIVE_CODES), ("normsys", MULTIPLICATIVE_CODES)):
            if getattr(self, modifier) not in table:
                raise OptionError(
                    f"interpolation of {modifier} is {getattr(self, modifier)!r}; "
                    f"expected one of {', '.join(table)}. Pass interp='root' or interp='pyhf' for the usual sets."
                )

    def to_dict(self) -> dict[str, str]:
        """Return ``{modifier type: code}``."""
        return {"normsys": self.normsys, "histosys": self.histosys}


INTERPOLATION_SETS: dict[str, Interpolation] = {
    "root": Interpolation(histosys="code4p", normsys="code4"),
    "pyhf": Interpolation(histosys="code0", normsys="code1"),
}


def interpolation(choice: str | Interpolation | dict[str, str]) -> Interpolation:
    """Return the `Interpolation` that a set name, a mapping ``{modifier: code}`` or a record means.

    Raises
    ------
    OptionError
        Unknown set, modifier type or code.
    """
    if isinstance(choice, Interpolation):
        return choice
    if isinstance(choice, str):
        if choice not in INTERPOLATION_SETS:
            raise OptionError(
                f"interpolation set {choice!r} is unknown; expected one of {', '.join(INTERPOLATION_SETS)}."
            )
        return INTERPOLATION_SETS[choice]
    unknown = sorted(set(choice) - {"histosys", "normsys"})
    if unknown:
        raise OptionError(f"modifier type {unknown[0]!r} has no interpolation; expected histosys or normsys.")
    return Interpolation(**choice)


def code4_coefficients(lo: Array, hi: Array) -> Array:
    """Return the six coefficients of code 4's polynomial for factors ``lo`` and ``hi``, shape (6, E).

    They match value, first and second derivative of the exponentials at alpha = -1 and +1
    (HistFactory, CERN-OPEN-2012-016, section 4.1.3).
    """
    powers = np.arange(1, 7)
    signs = np.array([1.0, -1.0])[:, None]
    value = signs**powers
    first = powers * signs ** (powers - 1)
    second = powers * (powers - 1) * signs**powers
    log_hi, log_lo = np.log(hi), np.log(lo)
    conditions = [hi - 1.0, lo - 1.0, log_hi * hi, -log_lo * lo, log_hi**2 * hi, log_lo**2 * lo]
    solution: Array = np.linalg.solve(np.concatenate([value, first, second]), np.stack(conditions))
    return solution
