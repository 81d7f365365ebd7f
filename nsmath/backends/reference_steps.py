"""Steps of the reference backend's two tiers: projected L-BFGS for all columns at once, damped Newton one by one.

Algorithms and rules are those of every backend (docs/maths.md, section 7); written here for reading.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nsmath._typing import Array, BoolArray, IntArray
from nsmath.backends.ops import (
    ARMIJO,
    FIRST_DAMPING,
    FLAT,
    MAX_DAMPING,
    MIN_CURVATURE,
    MIN_GAIN,
    NLL_NOISE,
    NO_DAMPING,
    SHRINK,
)

if TYPE_CHECKING:
    from nsmath.backends.reference import ReferenceTile


@dataclass(frozen=True, slots=True)
class Pair:
    """One step (Z, N), the gradient's change over it (Z, N), and rho = 1 / s'y (N,), 0 where the pair is not used."""

    step: Array
    change: Array
    rho: Array

    def keep(self, columns: IntArray) -> Pair:
        """Return the pair of these columns."""
        return Pair(self.step[:, columns], self.change[:, columns], self.rho[columns])


def _frozen(tile: ReferenceTile) -> BoolArray:
    """Return (Z, n) True where a parameter is fixed, or at a bound that its gradient pushes it against."""
    x, gradient = tile.x[:, : tile.n], tile.gradient[:, : tile.n]
    lower, upper = tile.model.lower[:, None], tile.model.upper[:, None]
    stuck = ((x <= lower) & (gradient > 0.0)) | ((x >= upper) & (gradient < 0.0))
    frozen: BoolArray = tile.fixed[:, : tile.n] | stuck
    return frozen


def quasi_newton_trials(tile: ReferenceTile) -> None:
    """Set ``trial``, ``decrement``, ``scaled`` (Nocedal & Wright, Numerical Optimization, 2nd ed., algorithm 7.4)."""
    n, matrix, poi = tile.n, tile.matrix, tile.poi
    x, gradient = tile.x[:, :n], tile.gradient[:, :n]
    frozen = _frozen(tile)
    projected = np.where(frozen, 0.0, gradient)
    d, alphas = projected, []
    for pair in reversed(tile.pairs):
        alphas.append(pair.rho * (pair.step * d).sum(axis=0))
        d = d - alphas[-1] * pair.change
    d = matrix @ np.where(frozen, 0.0, d)
    if poi >= 0 and matrix[poi, poi] > 0.0:
        # The common inverse with the POI held, for the columns whose POI is at its bound.
        d = d - np.outer(matrix[:, poi], np.where(frozen[poi], d[poi] / matrix[poi, poi], 0.0))
    for pair, alpha in zip(tile.pairs, reversed(alphas), strict=True):
        d = d + (alpha - pair.rho * (pair.change * d).sum(axis=0)) * pair.step
    d = np.where(frozen, 0.0, d)
    uphill = ~((projected * d).sum(axis=0) > 0.0)
    d = np.where(uphill, projected * np.diag(matrix)[:, None], d)
    for pair in tile.pairs:
        pair.rho[uphill] = 0.0
    tile.decrement[:n] = 0.5 * (projected * d).sum(axis=0)
    tile.scaled[:n] = (np.abs(projected) * np.sqrt(np.diag(matrix))[:, None]).max(axis=0, initial=0.0)
    tile.trial[:, :n] = np.clip(x - tile.step[:n] * d, tile.model.lower[:, None], tile.model.upper[:, None])


def armijo(tile: ReferenceTile) -> None:
    """Take the trials that decrease the NLL enough and remember their pairs; shorten the others' next step."""
    n = tile.n
    s = tile.trial[:, :n] - tile.x[:, :n]
    slope = np.minimum((s * tile.gradient[:, :n]).sum(axis=0), 0.0)
    taken = tile.trial_nll[:n] <= tile.nll[:n] + ARMIJO * slope + NLL_NOISE * (1.0 + np.abs(tile.nll[:n]))
    s = np.where(taken, s, 0.0)
    y = np.where(taken, tile.trial_gradient[:, :n] - tile.gradient[:, :n], 0.0)
    sy = (s * y).sum(axis=0)
    rho = np.divide(1.0, sy, out=np.zeros(n), where=sy > MIN_CURVATURE)
    tile.pairs = [*tile.pairs, Pair(s, y, rho)][-tile.memory :]
    _move(tile, taken)
    tile.step[:n] = np.where(taken, 1.0, SHRINK * tile.step[:n])


def _move(tile: ReferenceTile, taken: BoolArray) -> None:
    """Go to the trials of the columns ``taken`` (n,)."""
    n = tile.n
    tile.x[:, :n] = np.where(taken, tile.trial[:, :n], tile.x[:, :n])
    tile.gradient[:, :n] = np.where(taken, tile.trial_gradient[:, :n], tile.gradient[:, :n])
    tile.nll[:n] = np.where(taken, tile.trial_nll[:n], tile.nll[:n])


def newton_trials(tile: ReferenceTile) -> None:
    """Set ``trial``, ``predicted``, ``damping``, ``decrement`` and ``scaled`` of every column."""
    frozen = _frozen(tile)
    for i in range(tile.n):
        _newton_trial(tile, i, frozen[:, i])


def _newton_trial(tile: ReferenceTile, i: int, held: BoolArray) -> None:
    """Column i's trial; ``held`` (Z,) starts as the frozen parameters and grows."""
    x, g, hessian = tile.x[:, i], tile.gradient[:, i], tile.hessian[i]
    lower, upper = tile.model.lower, tile.model.upper
    metric = np.maximum(np.abs(np.diag(hessian)), tile.prior[i]) + FLAT
    tile.scaled[i] = (np.abs(g) / np.sqrt(metric))[~held].max(initial=0.0)
    while True:
        free = np.flatnonzero(~held)
        step, tile.damping[i] = _damped_step(hessian[np.ix_(free, free)], metric[free], g[free], tile.damping[i])
        outward = ((x[free] <= lower[free]) & (step < 0.0)) | ((x[free] >= upper[free]) & (step > 0.0))
        # A parameter on its bound that the joint step would push outward is held, and the rest solved anew.
        if not outward.any():
            break
        held[free[outward]] = True
    full = np.zeros_like(x)
    full[free] = step
    trial = np.clip(x + full, lower, upper)
    gain = _model_gain(g, hessian, trial - x)
    if not gain > 0.0 and len(free):
        # Cut back to the first bound it meets: then it keeps its direction, which descends.
        room = np.where(full < 0.0, lower - x, upper - x)
        length = min(1.0, np.divide(room, full, out=np.ones_like(x), where=full != 0.0).min())
        trial = np.clip(x + length * full, lower, upper)
        gain = _model_gain(g, hessian, trial - x)
    tile.trial[:, i], tile.predicted[i] = trial, gain
    tile.decrement[i] = -0.5 * (g @ full) if tile.damping[i] == 0.0 else np.inf


def _damped_step(hessian: Array, metric: Array, gradient: Array, damping: float) -> tuple[Array, float]:
    """Return the step -(H + damping D)^-1 g and the damping, raised until the matrix is positive definite."""
    while True:
        matrix = hessian + damping * np.diag(metric)
        try:
            factor = np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            if damping > MAX_DAMPING:
                return np.zeros_like(gradient), damping
            damping = max(FIRST_DAMPING, 4.0 * damping)
            continue
        step: Array = -np.linalg.solve(factor.T, np.linalg.solve(factor, gradient))
        return step, damping


def _model_gain(gradient: Array, hessian: Array, step: Array) -> float:
    return -float(gradient @ step + 0.5 * step @ hessian @ step)


def gain_ratio(tile: ReferenceTile) -> None:
    """Take the trials that gain enough of what was predicted; set ``todo`` and the damping from the ratio."""
    n = tile.n
    noise = NLL_NOISE * (1.0 + np.abs(tile.nll[:n]))
    predicted, damping = tile.predicted[:n], tile.damping[:n]
    gain = tile.nll[:n] - tile.trial_nll[:n]
    small = predicted <= 16.0 * noise
    ratio = np.divide(gain, predicted, out=np.full(n, -1.0), where=predicted > 0.0)
    taken = (ratio > MIN_GAIN) | (small & (gain >= -2.0 * noise))
    _move(tile, taken)
    tile.todo[:n] = taken
    relaxed = np.where(damping > NO_DAMPING, 0.1 * damping, 0.0)
    tightened = np.where(ratio < 0.25, np.maximum(FIRST_DAMPING, 3.0 * damping), damping)
    rejected = np.maximum(FIRST_DAMPING, 6.0 * damping)
    tile.damping[:n] = np.where(taken, np.where((ratio > 0.75) | small, relaxed, tightened), rejected)
