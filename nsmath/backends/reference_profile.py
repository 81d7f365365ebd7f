"""Profiled gammas by bisection on the equation of their bin: the slow and obvious twin of the closed forms.

With lambda = n / t, t > 0, every gamma of a bin minimises ``constraint + (1 - t) S_l gamma`` by itself. What that gives
for lambda rises with t, so ``t lambda(t) = n`` has one root, and halving an interval finds it.
"""

from __future__ import annotations

import numpy as np

from nsmath._typing import Array, BoolArray, IntArray
from nsmath.model.tensors import ModelTensors

MAX_HALVINGS = 200
LARGEST = 1e17
"""A bin whose rate is still not positive at this t never will be: its column is out of the domain."""


def profile_gammas(tensors: ModelTensors, slots: Array, data: Array, aux: Array) -> tuple[Array, Array]:
    """Return the profiled gammas (N, G) and the residual r = 1 - n / lambda of each bin (N, B).

    r is NaN for bins without profiled gammas and where no gammas give a legal rate; where profiling holds an empty
    bin's rate at 0 it is 1 minus the multiplier of ``lambda >= 0``.

    Parameters
    ----------
    slots : (N, L) sums of the rows of each slot, without its gamma; data : (N, B); aux : (N, A).
    """
    gammas, residual = np.zeros((len(slots), tensors.n_gammas)), np.full(data.shape, np.nan)
    slot_bin = np.repeat(np.arange(tensors.n_bins), np.diff(tensors.bin_slot))
    n_gammas = np.bincount(slot_bin[tensors.slot_gamma >= 0], minlength=tensors.n_bins)
    for size in np.unique(n_gammas[n_gammas > 0]):
        bins = np.flatnonzero(n_gammas == size)
        own = np.flatnonzero(np.isin(slot_bin, bins) & (tensors.slot_gamma >= 0)).reshape(len(bins), size)
        whole = np.zeros_like(data)
        rest = np.flatnonzero(tensors.slot_gamma < 0)
        whole[:, slot_bin[rest]] = slots[:, rest]
        g = tensors.slot_gamma[own]
        gammas[:, g], residual[:, bins] = _Bins(tensors, g, whole[:, bins], slots[:, own], data[:, bins], aux).solve()
    return gammas, residual


class _Bins:
    """Bins with equally many gammas ``g`` (B', K): their slot sums ``s`` (N, B', K), and the rate ``rest`` (N, B')."""

    def __init__(self, tensors: ModelTensors, g: IntArray, rest: Array, s: Array, count: Array, aux: Array) -> None:
        self.rest, self.s, self.count = rest, s, count
        self.is_poisson = tensors.gamma_is_poisson[g].astype(bool)
        self.scale, self.aux = tensors.gamma_scale[g], aux[:, tensors.gamma_aux[g]]
        self.lower, self.upper = tensors.lower[tensors.gamma_parameter[g]], tensors.upper[tensors.gamma_parameter[g]]

    def gammas(self, t: Array) -> Array:
        """Return the minimum of each ``constraint + (1 - t) S gamma`` within its bounds (N, B', K); ``t`` (N, B')."""
        pull = (1.0 - t)[:, :, None] * self.s
        slope = self.scale + pull
        poisson = np.divide(self.aux, slope, out=np.full_like(slope, np.inf), where=slope > 0.0)
        gamma: Array = np.where(self.is_poisson, poisson, self.aux - self.scale**2 * pull)
        return np.clip(gamma, self.lower, self.upper)

    def rate(self, gamma: Array) -> Array:
        """Return the rate (N, B') at gammas (N, B', K)."""
        rate: Array = self.rest + (gamma * self.s).sum(axis=2)
        return rate

    def is_low(self, t: Array) -> BoolArray:
        """Return whether the root lies above ``t``: t lambda(t) < n, or lambda(t) < 0 in an empty bin."""
        rate = self.rate(self.gammas(t))
        low: BoolArray = np.where(self.count > 0.0, t * rate < self.count, rate < 0.0)
        return low

    def solve(self) -> tuple[Array, Array]:
        """Return the gammas (N, B', K) and the residual 1 - t (N, B') at the root."""
        low = np.zeros_like(self.count)
        # An empty bin with a rate that is legal as it stands: t = 0.
        high = np.where(self.is_low(low), 1.0, 0.0)
        while (wrong := self.is_low(high) & (high < LARGEST)).any():
            low, high = np.where(wrong, high, low), np.where(wrong, 4.0 * high, high)
        legal = ~self.is_low(high)
        for _ in range(MAX_HALVINGS):
            middle = 0.5 * (low + high)
            if ((middle == low) | (middle == high)).all():
                break
            is_low = self.is_low(middle)
            low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
        # An auxiliary count of 0 makes a gamma jump from bound to bound at one t; lambda = n / t says where it stops.
        below, above = self.gammas(low), self.gammas(high)
        gap = self.rate(above) - self.rate(below)
        wanted = np.divide(self.count, high, out=np.zeros_like(high), where=self.count > 0.0)
        share = np.divide(wanted - self.rate(below), gap, out=np.ones_like(gap), where=gap > 0.0)
        gamma = below + np.clip(share, 0.0, 1.0)[:, :, None] * (above - below)
        return gamma, np.where(legal, 1.0 - high, np.nan)
