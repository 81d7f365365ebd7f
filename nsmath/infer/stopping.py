"""Enough toys, not more: when a study may stop, and how many toys it takes until then."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nsmath.errors import OptionError
from nsmath.infer.pvalues import Tail, ratio

GROWTH = (1.25, 4.0)
"""A round of toys brings the number to at least and at most so many times what it was."""
ROUND = 64
"""Numbers of toys are multiples of it: whole strips of every tile."""


@dataclass(frozen=True, slots=True)
class StoppingRule:
    """Stop when CLs (for ``q0``: p0) is known well enough; all conditions that are given must hold.

    Attributes
    ----------
    error : largest standard error of CLs.
    relative_error : largest standard error as a share of CLs; with both, the stricter one counts.
    decide : stop once CLs lies on one side of this, by ``n_sigma`` standard errors.
    max_toys : toys of each ensemble after which the study stops whatever is reached.
    """

    error: float | None = None
    relative_error: float | None = None
    decide: float | None = None
    n_sigma: float = 3.0
    max_toys: int = 1_000_000

    def __post_init__(self) -> None:
        for name, limit in (("error", 1.0), ("relative_error", 1.0), ("decide", 1.0), ("n_sigma", 10.0)):
            value = getattr(self, name)
            if value is not None and not 0.0 < value < limit:
                raise OptionError(f"{name} is {value:g}; expected a number between 0 and {limit:g}.")
        if self.error is None and self.relative_error is None and self.decide is None:
            raise OptionError("a stopping rule needs an error, a relative error, or a value to decide about.")

    @classmethod
    def of(
        cls, cls_errors: Sequence[str], decide: float | None, *, n_sigma: float, n_toys: int, max_toys: int
    ) -> StoppingRule | None:
        """Return the rule that options mean; None for a given number of toys.

        Parameters
        ----------
        cls_errors : each an absolute error such as ``0.002``, or a share of CLs such as ``5%``; the strictest
            of each kind counts.
        n_toys : toys of the first round.

        Raises
        ------
        OptionError
            Not a number, or out of range.
        """
        if not cls_errors and decide is None:
            return None
        error, relative = None, None
        for text in cls_errors:
            try:
                value = float(text.removesuffix("%"))
            except ValueError:
                raise OptionError(
                    f"cls_error {text!r}: expected a number such as 0.002, or a share such as 5%."
                ) from None
            if text.endswith("%"):
                relative = min(value / 100.0, relative or 1.0)
            else:
                error = min(value, error or 1.0)
        if max_toys < n_toys:
            raise OptionError(f"max_toys {max_toys} is below n_toys {n_toys}, the first round.")
        return cls(error, relative, decide, n_sigma, max_toys)

    def verdict(self, numerator: Tail, denominator: Tail | None) -> Verdict:
        """Return whether these tails suffice, and how many toys of each ensemble would be needed.

        ``denominator`` is None for a p-value on its own.
        """
        n = numerator.n
        value: float | None = numerator.p
        error, upper = numerator.error, numerator.upper
        if denominator is not None:
            value, error, upper = ratio(numerator, denominator)
        elif numerator.n_tail == 0:
            value = None
        needed = max(
            self._toys_for_error(n, value, error, upper), self._toys_to_decide(numerator, denominator, value, error)
        )
        return Verdict(needed <= n, needed, value, error, upper, self._decision(value, upper))

    def next_toys(self, verdict: Verdict, n: int) -> int:
        """Return the number of toys of the next round, more than ``n`` unless that is `max_toys` already."""
        low, high = (n * factor for factor in GROWTH)
        # A tenth more than the estimate: errors fluctuate, and a round has a price of its own.
        target = min(max(1.1 * verdict.needed, low), high)
        return min(ROUND * math.ceil(target / ROUND), self.max_toys)

    def _toys_for_error(self, n: int, value: float | None, error: float | None, upper: float | None) -> float:
        if self.error is None and self.relative_error is None:
            return 0.0
        if value is None:
            # An empty tail: its bound falls with the number of toys, but no relative error follows from it.
            if self.relative_error is not None or upper is None or self.error is None:
                return math.inf
            return n * upper / self.error
        if error is None:
            # Both tails are full: CLs is 1, as exactly as toys can tell.
            return 0.0
        relative = math.inf if self.relative_error is None else self.relative_error * value
        absolute = math.inf if self.error is None else self.error
        return n * (error / min(absolute, relative)) ** 2

    def _toys_to_decide(
        self, numerator: Tail, denominator: Tail | None, value: float | None, error: float | None
    ) -> float:
        if self.decide is None:
            return 0.0
        n = numerator.n
        if value is None:
            # No toy in the tail: the one-sided limit of the same significance must lie below.
            if denominator is not None and denominator.n_tail == 0:
                return math.inf
            miss = 0.5 * math.erfc(self.n_sigma / math.sqrt(2.0))
            share = denominator.p if denominator is not None else 1.0
            return math.log(miss) / math.log1p(-min(self.decide * share, 1.0 - 1e-12))
        distance = abs(value - self.decide)
        if error is None:
            return 0.0
        return n * (self.n_sigma * error / distance) ** 2 if distance > 0.0 else math.inf

    def _decision(self, value: float | None, upper: float | None) -> str | None:
        if self.decide is None:
            return None
        if value is None:
            return "below" if upper is not None and upper < self.decide else None
        return "below" if value < self.decide else "above"

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a rule says of some toys.

    Attributes
    ----------
    reached : the rule is satisfied. needed : toys of each ensemble that it would take; may be infinite.
    value, error, upper : CLs (or p0), its error, its bound where the tail is empty.
    decision : ``below`` or ``above`` the value to decide about; only to be believed where ``reached``.
    """

    reached: bool
    needed: float
    value: float | None
    error: float | None
    upper: float | None
    decision: str | None


def stopping_dict(rule: StoppingRule | None, verdict: Verdict | None) -> dict[str, Any] | None:
    """Return rule and outcome for JSON; None without a rule."""
    if rule is None or verdict is None:
        return None
    return {**rule.to_dict(), "reached": verdict.reached, "decision": verdict.decision if verdict.reached else None}
