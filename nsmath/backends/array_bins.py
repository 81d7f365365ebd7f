"""Bins of all columns: their profiled gammas and their part of the NLL, in terms of the residual r = 1 - n / lambda.

docs/maths.md, "Profiled gammas". The equations there are solved for r, not for lambda: deviations of gammas from their
auxiliary data follow from r without a difference of large numbers, which is what float32 needs. With one gamma in
a bin, a its auxiliary value, lambda_0 = O + S a and c = lambda_0 - n,

    p r^2 + b r - c = 0,    p = O S / tau,  b = lambda_0 + (n - O) S / tau    (Poisson)
                            p = -v,         b = lambda_0 + v,  v = sigma^2 S^2    (normal),

whose root below 1 is ``2 c / (b + root)``, root^2 = b^2 + 4 p c written as a sum of positive terms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nsmath._typing import IntArray
from nsmath.backends.array_door import ArrayDoor, XpArray, namespace_of
from nsmath.backends.array_formulas import log_gap, poisson_term
from nsmath.backends.array_reductions import Grouped
from nsmath.backends.array_roots import Roots, gamma_at
from nsmath.model.tensors import ModelTensors


class Profile(NamedTuple):
    """Bins of m columns.

    Attributes
    ----------
    residual, rate : (B, m) r and lambda. gammas : (G, m).
    deviation : (G, m) gamma - a, relative to a (Poisson) or in sigmas (normal).
    is_free : (G, m) whether a gamma is inside its bounds.
    held : (B, m) empty bins whose rate profiling holds at 0.
    """

    residual: XpArray
    rate: XpArray
    gammas: XpArray
    deviation: XpArray
    is_free: XpArray
    held: XpArray


class BinTables:
    """Where the gammas of each bin are, and their constraints as columns (G, 1)."""

    def __init__(self, door: ArrayDoor, tensors: ModelTensors, eps: float) -> None:
        t = tensors
        slot_bin = np.repeat(np.arange(t.n_bins), np.diff(t.bin_slot))
        has_gamma = t.slot_gamma >= 0
        self.n_gammas, self.n_bins = t.n_gammas, t.n_bins
        self.plain_slot = door.index(np.flatnonzero(~has_gamma))
        self.rest = Grouped(door, slot_bin[~has_gamma], t.n_bins)
        if not t.n_gammas:
            return
        order = np.argsort(t.slot_gamma[has_gamma])
        gamma_slot = np.flatnonzero(has_gamma)[order]
        gamma_bin = slot_bin[gamma_slot]
        self.gamma_slot, self.gamma_bin = door.index(gamma_slot), door.index(gamma_bin)
        self.aux_row = door.index(t.gamma_aux)
        # Slots are sums of rows, then of gammas times slots: each slot is either plain or a gamma's.
        self.slot_gamma = door.index(np.where(has_gamma, t.slot_gamma, t.n_gammas))
        self.by_bin = Grouped(door, gamma_bin, t.n_bins)
        poisson = t.gamma_is_poisson.astype(bool)[:, None]
        scale = t.gamma_scale[:, None]
        self.is_poisson = door.flag_table(poisson)
        self.tau = door.constant(np.where(poisson, scale, 1.0))
        self.sigma = door.constant(np.where(poisson, 1.0, scale))
        self.lower = door.constant(t.lower[t.gamma_parameter][:, None])
        self.upper = door.constant(t.upper[t.gamma_parameter][:, None])
        count = np.bincount(gamma_bin, minlength=t.n_bins)
        self.is_profiled = door.flag_table((count > 0)[:, None])
        self._order_bins(door, count, gamma_bin)
        self.roots = Roots(door, self, count, gamma_bin, eps) if (count > 1).any() else None

    def _order_bins(self, door: ArrayDoor, count: IntArray, gamma_bin: IntArray) -> None:
        """Tables that put together what single gammas and several ones give."""
        single, several = np.flatnonzero(count == 1), np.flatnonzero(count > 1)
        plain = np.flatnonzero(count == 0)
        self.single_bin, self.plain_bin = door.index(single), door.index(plain)
        self.single_gamma = door.index(np.flatnonzero(np.isin(gamma_bin, single)))
        self.n_single, self.n_plain = len(single), len(plain)
        # Gammas are in the order of their slots, so those of single bins are in the order of the bins.
        single_bins = gamma_bin[np.isin(gamma_bin, single)]
        bins = np.concatenate([plain, single_bins, several])
        self.bin_order = door.index(np.argsort(bins))
        self.single_bin = door.index(single_bins)
        several_gammas = [np.flatnonzero(gamma_bin == b) for b in several]
        gammas = np.concatenate([np.flatnonzero(np.isin(gamma_bin, single)), *several_gammas])
        self.gamma_order = door.index(np.argsort(gammas))


class Constraint(NamedTuple):
    """Constraints of some gammas with their slot sums, all (K, m) or (K, 1)."""

    s: XpArray
    aux: XpArray
    is_poisson: XpArray
    tau: XpArray
    sigma: XpArray
    lower: XpArray
    upper: XpArray

    def take(self, rows: XpArray) -> Constraint:
        """Return these rows."""
        xp = namespace_of(rows)
        return Constraint(*(xp.take(array, rows, axis=0) for array in self))

    @property
    def centre(self) -> XpArray:
        """The gamma that the auxiliary data prefer."""
        xp = namespace_of(self.s)
        return xp.where(self.is_poisson, self.aux / self.tau, self.aux)

    @property
    def ratio(self) -> XpArray:
        """S / tau for Poisson constraints."""
        return self.s / self.tau

    @property
    def variance_s(self) -> XpArray:
        """sigma^2 S for normal constraints."""
        return self.sigma * self.sigma * self.s


def single_gamma(c: Constraint, rest: XpArray, n: XpArray) -> tuple[XpArray, XpArray]:
    """Return residual and gamma (K, m) of bins ``rest + gamma S`` with one gamma each, within its bounds."""
    xp = namespace_of(c.s)
    seen = n > 0.0
    r = xp.where(seen, _seen_residual(c, rest, n), 1.0)
    gamma = gamma_at(r, c)
    # An auxiliary count of 0 makes the gamma at its root 0 / 0; the rate says what it is.
    gamma = xp.where(c.is_poisson & (c.aux <= 0.0) & seen, (n / (1.0 - r) - rest) / c.s, gamma)
    gamma = xp.minimum(xp.maximum(gamma, c.lower), c.upper)
    rate = rest + gamma * c.s
    # Clipped, the rate is what the bound gives.
    clipped = (gamma <= c.lower) | (gamma >= c.upper)
    r = xp.where(seen & clipped, (rate - n) / rate, r)
    # An empty bin whose rate would be negative is held at 0.
    low = ~seen & (rate < 0.0)
    zero = xp.minimum(xp.maximum(xp.where(low, -rest / c.s, gamma), c.lower), c.upper)
    r_zero = xp.where(c.is_poisson, (c.centre / zero - 1.0) / c.ratio, (c.aux - zero) / c.variance_s)
    return xp.where(low, r_zero, r), xp.where(low, zero, gamma)


def _seen_residual(c: Constraint, rest: XpArray, n: XpArray) -> XpArray:
    """Return the root of the module's quadratic for bins with counts."""
    xp = namespace_of(c.s)
    sa, rho, v = c.s * c.centre, c.ratio, c.s * c.variance_s
    rate = rest + sa
    balance, pull = rho * n, rest * (1.0 + rho)
    p = xp.where(c.is_poisson, rest * rho, -v)
    b = xp.where(c.is_poisson, rate + (n - rest) * rho, rate + v)
    square = xp.where(
        c.is_poisson,
        (balance - pull) * (balance - pull) + 2.0 * sa * (balance + pull) + sa * sa,
        (rate - v) * (rate - v) + 4.0 * v * n,
    )
    root = xp.sqrt(xp.maximum(square, 0.0))
    return xp.where(b >= 0.0, 2.0 * (rate - n) / (b + root), 0.5 * (root - b) / p)


def constraints(tables: BinTables, slots: XpArray, aux: XpArray) -> Constraint:
    """Return the constraints of all gammas (G, m) with their slot sums; ``aux`` (A, m)."""
    xp = namespace_of(slots)
    s = xp.take(slots, tables.gamma_slot, axis=0)
    rows = xp.take(aux, tables.aux_row, axis=0)
    return Constraint(s, rows, tables.is_poisson, tables.tau, tables.sigma, tables.lower, tables.upper)


def profile(tables: BinTables, c: Constraint, rest: XpArray, data: XpArray, several: Solved | None) -> Profile:
    """Return the bins with all gammas profiled; ``several`` is what `Roots.solve` gives for bins with several."""
    xp = namespace_of(c.s)
    residuals, gammas = [], []
    if tables.n_plain:
        own, n = (xp.take(array, tables.plain_bin, axis=0) for array in (rest, data))
        residuals.append(xp.where(n > 0.0, (own - n) / own, 1.0))
    if tables.n_single:
        own, n = (xp.take(array, tables.single_bin, axis=0) for array in (rest, data))
        r, gamma = single_gamma(c.take(tables.single_gamma), own, n)
        residuals.append(r)
        gammas.append(gamma)
    if several is not None:
        residuals.append(several.residual)
        gammas.append(several.gammas)
    r = xp.take(xp.concatenate(residuals, axis=0), tables.bin_order, axis=0)
    gamma = xp.take(xp.concatenate(gammas, axis=0), tables.gamma_order, axis=0)
    held = (data <= 0.0) & (r < 1.0) & tables.is_profiled
    rate = xp.where(held, 0.0, rest + tables.by_bin(gamma * c.s))
    return Profile(r, rate, gamma, *_deviation(tables, c, gamma, r), held)


def _deviation(tables: BinTables, c: Constraint, gamma: XpArray, r: XpArray) -> tuple[XpArray, XpArray]:
    """Return deviations and which gammas are inside their bounds; from r there, since that loses nothing."""
    xp = namespace_of(c.s)
    own = xp.take(r, tables.gamma_bin, axis=0)
    is_free = (gamma > c.lower) & (gamma < c.upper)
    x = c.ratio * own
    # At an auxiliary count of 0 the root is a pole, and gamma whatever balances the bin.
    stationary = xp.where(c.is_poisson, -x / (1.0 + x), -c.sigma * c.s * own)
    direct = deviation_of(c, gamma)
    return xp.where(is_free & ((c.aux > 0.0) | ~c.is_poisson), stationary, direct), is_free


def deviation_of(c: Constraint, gamma: XpArray) -> XpArray:
    """Return gamma - a relative to a (Poisson) or in sigmas (normal)."""
    xp = namespace_of(c.s)
    centre = c.centre
    return xp.where(c.is_poisson, (gamma - centre) / xp.where(c.aux > 0.0, centre, 1.0), (gamma - c.aux) / c.sigma)


def bin_terms(tables: BinTables, bins: Profile, data: XpArray) -> XpArray:
    """Return the Poisson terms of all bins, (B, m)."""
    xp = namespace_of(bins.rate)
    if not tables.n_gammas:
        return poisson_term(bins.rate, data)
    n, r = xp.where(data > 0.0, data, 1.0), bins.residual
    # lambda / n - 1 = r / (1 - r), but near r = 1 that is a difference of large numbers itself.
    d = xp.where(xp.abs(r) < 0.5, r / (1.0 - r), (bins.rate - n) / n)
    seen = xp.where(bins.rate > 0.0, n * log_gap(d), xp.inf)
    return xp.where(data > 0.0, seen, xp.where(bins.rate >= 0.0, bins.rate, xp.inf))


def gamma_terms(c: Constraint, bins: Profile) -> XpArray:
    """Return the constraint terms of all gammas, (G, m)."""
    xp = namespace_of(c.s)
    d = bins.deviation
    counted = xp.where(c.aux > 0.0, c.aux * log_gap(xp.where(c.is_poisson, d, 0.0)), c.tau * bins.gammas)
    return xp.where(c.is_poisson, counted, 0.5 * d * d)


class Solved(NamedTuple):
    """Bins with several gammas: residual (B', m), and gammas (G', m) bin after bin."""

    residual: XpArray
    gammas: XpArray
