"""Bins with several gammas: one monotone scalar equation each, all bins and columns abreast.

``(1 - r) Lambda(r) = n`` with ``Lambda(r) = O + sum_k S_k gamma_k(r)`` (docs/maths.md, eq. 10): Newton steps inside a
bracket that bisection shrinks when they fail. An auxiliary count of 0 makes a gamma jump from bound to bound at one r,
which is looked at first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nsmath._typing import IntArray
from nsmath.backends.array_door import ArrayDoor, XpArray, namespace_of

if TYPE_CHECKING:
    from nsmath.backends.array_bins import BinTables, Constraint

STEPS = 4
"""Newton steps between looks at whether all bins are solved."""
MAX_LOOKS = 50
FAR = -1e15
"""No gammas answer once r is beyond all scales: the column is outside the domain."""
ROUNDINGS = 8
"""The equation counts as solved when it misses n by so many roundings; the NLL errs by the square."""


def gamma_at(r: XpArray, c: Constraint) -> XpArray:
    """Return the gammas (..., m) that minimise their slots' NLL at residual ``r``, within their bounds."""
    xp = namespace_of(r)
    slope = 1.0 + c.ratio * r
    poisson = xp.where(slope > 0.0, c.centre / slope, xp.inf)
    gamma = xp.where(c.is_poisson, poisson, c.aux - c.variance_s * r)
    return xp.minimum(xp.maximum(gamma, c.lower), c.upper)


class State(NamedTuple):
    """Iterates (B', m): r, its bracket, and what is solved."""

    r: XpArray
    low: XpArray
    high: XpArray
    solved: XpArray


class Roots:
    """Solver for the bins with several gammas; B' of them, K gammas at most."""

    def __init__(self, door: ArrayDoor, tables: BinTables, count: IntArray, gamma_bin: IntArray, eps: float) -> None:
        bins = np.flatnonzero(count > 1)
        self.bins, self.width = door.index(bins), int(count[bins].max())
        self.tolerance = ROUNDINGS * eps
        index = np.zeros((len(bins), self.width), dtype=np.int64)
        real = np.zeros(index.shape, dtype=bool)
        for i, b in enumerate(bins):
            own = np.flatnonzero(gamma_bin == b)
            index[i, : len(own)], real[i, : len(own)] = own, True
        self.index, self.is_real = door.index(index), door.flag_table(real[:, :, None])
        self.flat = door.index(np.flatnonzero(real.ravel()))

    def constraint(self, c: Constraint) -> Constraint:
        """Return constraints as (B', K, m); what only fills a bin up gets S = 0."""
        xp = namespace_of(c.s)
        wide = type(c)(*(xp.take(array, self.index, axis=0) for array in c))
        return wide._replace(s=xp.where(self.is_real, wide.s, 0.0))

    def start(self, c: Constraint, rest: XpArray, n: XpArray) -> tuple[State, XpArray]:
        """Return the first iterates, and the gammas (B', K, m) that balance their bins at a pole, -1 elsewhere."""
        xp = namespace_of(c.s)
        one = xp.ones_like(n)
        rate_at_one, _ = _asked(one, c, rest)
        empty = (n <= 0.0) & (rate_at_one >= 0.0)
        r, balanced, found = xp.where(empty, 1.0, 0.0), [], empty
        for k in range(self.width):
            s = c.s[:, k]
            pole = -1.0 / xp.where(s != 0.0, c.ratio[:, k], 1.0)
            is_pole = c.is_poisson[:, k] & (c.aux[:, k] <= 0.0) & (s != 0.0) & (pole < 1.0)
            gammas = gamma_at(pole[:, None], c)
            others = rest + sum(gammas[:, j] * c.s[:, j] for j in range(self.width) if j != k)
            gamma = (n / (1.0 - pole) - others) / xp.where(s != 0.0, s, 1.0)
            fits = is_pole & (gamma >= c.lower[:, k]) & (gamma <= c.upper[:, k]) & ~found
            r, found = xp.where(fits, pole, r), found | fits
            balanced.append(xp.where(fits, gamma, -1.0))
        state = State(r, xp.full(r.shape, -xp.inf, dtype=r.dtype), one, found)
        return state, xp.stack(balanced, axis=1)

    def steps(self, state: State, c: Constraint, rest: XpArray, n: XpArray) -> State:
        """Return the iterates after a few steps."""
        for _ in range(STEPS):
            state = self._step(state, c, rest, n)
        return state

    def _step(self, state: State, c: Constraint, rest: XpArray, n: XpArray) -> State:
        xp = namespace_of(state.r)
        r = state.r
        rate, slope = _asked(r, c, rest)
        seen = n > 0.0
        f = xp.where(seen, (1.0 - r) * rate - n, rate)
        df = xp.where(seen, (1.0 - r) * slope - rate, slope)
        solved = state.solved | (xp.abs(f) <= self.tolerance * n)
        low, high = xp.where(f > 0.0, r, state.low), xp.where(f > 0.0, state.high, r)
        new = xp.where(df < 0.0, r - f / df, -xp.inf)
        inside = (new > low) & (new < high)
        # Without a lower end yet, walk down.
        other = xp.where(low > -xp.inf, 0.5 * (low + high), 4.0 * xp.minimum(r, -0.25))
        new = xp.where(inside, new, other)
        lost = new < FAR
        stays = solved | (new == r) | ~((new > low) & (new < high))
        new = xp.where(state.solved | (stays & ~lost), r, xp.where(lost, xp.nan, new))
        return State(new, low, high, solved | stays | lost)

    def gammas(self, state: State, balanced: XpArray, c: Constraint) -> XpArray:
        """Return the gammas (G', m) of the roots, bin after bin."""
        xp = namespace_of(state.r)
        gamma = xp.where(balanced >= 0.0, balanced, gamma_at(state.r[:, None], c))
        return xp.take(gamma.reshape(-1, gamma.shape[-1]), self.flat, axis=0)


def _asked(r: XpArray, c: Constraint, rest: XpArray) -> tuple[XpArray, XpArray]:
    """Return Lambda (B', m) at ``r`` (B', m) and its derivative, which is never above 0."""
    xp = namespace_of(r)
    own = r[:, None]
    gamma = gamma_at(own, c)
    is_free = (gamma > c.lower) & (gamma < c.upper)
    slope = xp.where(c.is_poisson, gamma * c.s * c.ratio / (1.0 + c.ratio * own), c.variance_s * c.s)
    return rest + (gamma * c.s).sum(axis=1), -xp.where(is_free, slope, 0.0).sum(axis=1)
