"""p-values from toys: inclusive tails, binomial errors, bounds for empty tails, expected bands."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nsmath._typing import Array
from nsmath.infer.teststats import Q_TIE

NSIGMA_ORDER = (2, 1, 0, -1, -2)
"""Background fluctuations of the expected band, in the order of its CLs values: downward ones exclude more."""
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Tail:
    """The share of toys in a tail.

    Attributes
    ----------
    n_tail, n : toys in the tail, toys in all.
    """

    n_tail: int
    n: int

    @property
    def p(self) -> float:
        """The p-value; 0.0 means an empty tail, of which `upper` tells more."""
        return self.n_tail / self.n if self.n else math.nan

    @property
    def error(self) -> float | None:
        """Binomial standard error; None for an empty or a full tail, where it would be a false 0."""
        if self.n == 0 or self.n_tail in (0, self.n):
            return None
        return math.sqrt(self.p * (1.0 - self.p) / self.n)

    @property
    def upper(self) -> float | None:
        """One-sided 95 % C.L. upper limit of an empty tail, 1 - 0.05^(1/n), about 3 / n; None otherwise."""
        return 1.0 - (1.0 - CONFIDENCE) ** (1.0 / self.n) if self.n and self.n_tail == 0 else None

    @property
    def lower(self) -> float | None:
        """One-sided 95 % C.L. lower limit of a full tail, 0.05^(1/n); None otherwise."""
        return (1.0 - CONFIDENCE) ** (1.0 / self.n) if self.n and self.n_tail == self.n else None


def tail(q: Array, observed: float) -> Tail:
    """Return the inclusive tail q >= observed; toys within `Q_TIE` of it belong to the tail."""
    return Tail(int(np.count_nonzero(q >= observed - Q_TIE)), len(q))


def ratio(numerator: Tail, denominator: Tail) -> tuple[float | None, float | None, float | None]:
    """Return CLs = CLs+b / CLb, its error, and an upper bound in place of both where the numerator is empty.

    The two ensembles are independent, so relative errors add in quadrature. A full tail contributes none.
    """
    if denominator.n_tail == 0 or denominator.n == 0 or numerator.n == 0:
        return None, None, None
    value = numerator.p / denominator.p
    if numerator.n_tail == 0:
        assert numerator.upper is not None
        return None, None, numerator.upper / denominator.p
    variance = sum((t.error / t.p) ** 2 for t in (numerator, denominator) if t.error is not None)
    return value, value * math.sqrt(variance) if variance else None, None


def expected_band(q_b: Array, q_sb: Array) -> tuple[list[float | None], list[float | None], list[float | None]]:
    """Return the band of CLs that background alone would give: values, errors, upper bounds of empty tails.

    Every background toy in turn is the observation; the band holds the CLs values at the normal probabilities of
    -2, -1, 0, 1, 2 sigma. A quantile is the smallest value whose cumulative share reaches the probability, so it is
    always the result of some toy.

    Errors add in quadrature the one of that CLs itself and half the distance between the order statistics one
    binomial sigma away on either side. Where the band edge's s+b tail is empty, value and error are None and the
    third list has its one-sided 95 % C.L. upper limit.
    """
    n = len(q_b)
    # CLs falls as q grows, so the order of q (downward) is that of CLs (upward).
    q = np.sort(q_b)[::-1]

    def cls_at(rank: int) -> tuple[float | None, float | None, float | None]:
        observed = float(q[min(max(rank, 0), n - 1)])
        return ratio(tail(q_sb, observed), tail(q_b, observed))

    values: list[float | None] = []
    errors: list[float | None] = []
    uppers: list[float | None] = []
    for nsigma in NSIGMA_ORDER:
        probability = 0.5 * math.erfc(nsigma / math.sqrt(2.0))
        value, error, upper = cls_at(math.ceil(n * probability) - 1)
        spread = math.sqrt(n * probability * (1.0 - probability))
        low = cls_at(math.floor(n * probability - spread) - 1)[0] or 0.0
        high = cls_at(math.ceil(n * probability + spread) - 1)[0] or 0.0
        values.append(value)
        # No spread at all means that all tails here are full: no error is known, rather than none there.
        errors.append(None if upper is not None else math.hypot(error or 0.0, 0.5 * (high - low)) or None)
        uppers.append(upper)
    return values, errors, uppers
