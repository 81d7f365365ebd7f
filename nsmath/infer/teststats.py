"""Test statistics: rules on a free and a conditional fit (Cowan, Cranmer, Gross, Vitells, arXiv:1007.1727)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nsmath._typing import Array, BoolArray
from nsmath.errors import OptionError

Q_TIE = 1e-6
"""Toys whose q is within this of another count as equal to it.

Two fits of identical data differ by rounding and by what convergence leaves, together below 1e-7; counting models
put much of their probability on exact ties, and their real steps are far larger (docs/maths.md).
"""


@dataclass(frozen=True, slots=True)
class TestStatistic:
    """How q follows from two fits.

    Attributes
    ----------
    name : on the command line. symbol : in the literature. equation : of arXiv:1007.1727.
    poi_above : lower bound that the free fit's POI must respect; None for the model's own.
    one_sided : ``upper``: q = 0 where mu_hat exceeds the tested mu; ``lower``: where it is below.
    tests_null : the tested value is mu = 0, and the alternative is the given mu.
    is_tilde : asymptotic p-values are those of q_mu_tilde, eqs. (65) and (66).
    """

    __test__ = False  # not a test class, whatever pytest thinks of its name

    name: str
    symbol: str
    equation: str
    poi_above: float | None
    one_sided: str
    tests_null: bool
    is_tilde: bool = False

    def tested_mu(self, mu: float) -> float:
        """Return the value of the POI in the conditional fit."""
        return 0.0 if self.tests_null else mu

    def is_zero(self, mu_hat: Array, mu: float) -> BoolArray:
        """Return where q is 0 whatever the conditional fit gives."""
        tested = self.tested_mu(mu)
        zero: BoolArray = mu_hat > tested if self.one_sided == "upper" else mu_hat < tested
        return zero

    def q(self, mu_hat: Array, free_nll: Array, conditional_nll: Array, mu: float) -> Array:
        """Return q, shape of ``mu_hat``: twice the difference of the NLLs, never below 0."""
        with np.errstate(invalid="ignore"):
            difference = np.maximum(2.0 * (conditional_nll - free_nll), 0.0)
        return np.where(self.is_zero(mu_hat, mu), 0.0, difference)


TEST_STATISTICS: dict[str, TestStatistic] = {
    row.name: row
    for row in (
        # With mu_hat < 0 eq. (16) takes the conditional fit at 0 in place of the free one; for a likelihood with
        # one minimum in mu that is the free fit with mu >= 0.
        TestStatistic("qtilde", "q_mu_tilde", "eq. (16)", 0.0, "upper", False, is_tilde=True),
        TestStatistic("q", "q_mu", "eq. (14)", None, "upper", False),
        TestStatistic("q0", "q_0", "eq. (12)", None, "lower", True),
    )
}


def test_statistic(name: str) -> TestStatistic:
    """Return a row of `TEST_STATISTICS`.

    Raises
    ------
    OptionError
        Unknown name.
    """
    if name not in TEST_STATISTICS:
        raise OptionError(f"test statistic {name!r} is unknown; expected one of {', '.join(TEST_STATISTICS)}.")
    return TEST_STATISTICS[name]


test_statistic.__test__ = False  # type: ignore[attr-defined]
