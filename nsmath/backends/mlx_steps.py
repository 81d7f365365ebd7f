"""Steps of the two tiers for all columns at once; algorithms and rules are those of every backend (docs/maths.md, 7).

The quasi-Newton recursion runs where the columns are. Cholesky factors are MLX's batched ones, which exist on its CPU
device only: Newton steps are solved there in float64, on the same memory.
"""

from __future__ import annotations

from typing import NamedTuple

from nsmath.backends.mlx_arrays import MxArray, mx
from nsmath.backends.ops import (
    ARMIJO,
    FIRST_DAMPING,
    FLAT,
    HOPELESS_DAMPING,
    MAX_DAMPING,
    MIN_GAIN,
    NO_DAMPING,
    SHORT_STEP,
    SHRINK,
    Precision,
)

FACTOR_ERROR = 1e-6
"""A row of a Cholesky factor whose square misses the diagonal by this share was never finished: LAPACK stops at the
first pivot that is not positive, and MLX says nothing."""


class Bounds(NamedTuple):
    """Bounds of the minimised parameters, (Z, 1)."""

    lower: MxArray
    upper: MxArray


class Pairs(NamedTuple):
    """Quasi-Newton memory, oldest first: steps and changes of the gradient (memory, Z, m), rho = 1 / s'y (memory, m).

    rho is 0 where a pair is not used.
    """

    steps: MxArray
    changes: MxArray
    rho: MxArray

    @classmethod
    def empty(cls, memory: int, n_z: int, m: int, dtype: object) -> Pairs:
        """Return a memory of nothing."""
        shape = (memory, n_z, m)
        return cls(mx.zeros(shape, dtype=dtype), mx.zeros(shape, dtype=dtype), mx.zeros((memory, m), dtype=dtype))


class Trials(NamedTuple):
    """What `quasi_newton` sets: trial (Z, m), decrement, scaled (m,), and rho (memory, m) of the pairs still used."""

    trial: MxArray
    decrement: MxArray
    scaled: MxArray
    rho: MxArray


def frozen(x: MxArray, gradient: MxArray, fixed: MxArray, bounds: Bounds) -> MxArray:
    """Return (Z, m) True where a parameter is fixed, or at a bound that its gradient pushes it against."""
    return fixed | ((x <= bounds.lower) & (gradient > 0.0)) | ((x >= bounds.upper) & (gradient < 0.0))


def quasi_newton(
    x: MxArray, gradient: MxArray, fixed: MxArray, step: MxArray, pairs: Pairs, matrix: MxArray, bounds: Bounds,
    poi: MxArray | None,
) -> Trials:  # fmt: skip
    """Return the next trials (Nocedal & Wright, Numerical Optimization, 2nd ed., algorithm 7.4).

    poi : (Z,) 1 at the parameter of interest, for columns in which it is frozen; None where it is fixed or absent.
    """
    held = frozen(x, gradient, fixed, bounds)
    projected = mx.where(held, 0.0, gradient)
    d, alphas = projected, []
    memory = pairs.steps.shape[0]
    for k in reversed(range(memory)):
        alphas.append(pairs.rho[k] * (pairs.steps[k] * d).sum(axis=0))
        d = d - alphas[-1] * pairs.changes[k]
    d = matrix @ mx.where(held, 0.0, d)
    if poi is not None:
        # The common inverse with the POI held, for the columns whose POI is at its bound.
        row = (matrix @ poi)[:, None]
        own = (row * poi[:, None]).sum()
        at_bound = (held * poi[:, None]).sum(axis=0) > 0.0
        share = (poi[:, None] * d).sum(axis=0) / mx.where(own > 0.0, own, 1.0)
        d = d - row * mx.where(at_bound & (own > 0.0), share, 0.0)
    for k in range(memory):
        beta = pairs.rho[k] * (pairs.changes[k] * d).sum(axis=0)
        d = d + (alphas[memory - 1 - k] - beta) * pairs.steps[k]
    d = mx.where(held, 0.0, d)
    diagonal = mx.diagonal(matrix)[:, None]
    descends = (projected * d).sum(axis=0) > 0.0
    d = mx.where(descends, d, projected * diagonal)
    trial = mx.minimum(mx.maximum(x - step * d, bounds.lower), bounds.upper)
    scaled = (mx.abs(projected) * mx.sqrt(diagonal)).max(axis=0)
    return Trials(trial, 0.5 * (projected * d).sum(axis=0), scaled, mx.where(descends, pairs.rho, 0.0))


class Point(NamedTuple):
    """Where columns are: x (Z, m), nll (m,), gradient (Z, m)."""

    x: MxArray
    nll: MxArray
    gradient: MxArray

    def moved(self, taken: MxArray, trial: Point) -> Point:
        """Return the trial for the columns ``taken``, this point for all others."""
        return Point(*(mx.where(taken, new, old) for new, old in zip(trial, self, strict=True)))


def armijo(at: Point, trial: Point, step: MxArray, pairs: Pairs, precision: Precision) -> tuple[Point, MxArray, Pairs]:
    """Return points, step lengths and pairs after taking the trials that decrease the NLL enough."""
    s = trial.x - at.x
    slope = mx.minimum((s * at.gradient).sum(axis=0), 0.0)
    taken = trial.nll <= at.nll + ARMIJO * slope + precision.nll_noise * (1.0 + mx.abs(at.nll))
    s = mx.where(taken, s, 0.0)
    y = mx.where(taken, trial.gradient - at.gradient, 0.0)
    sy = (s * y).sum(axis=0)
    rho = mx.where(sy > precision.min_curvature, 1.0 / mx.where(sy > precision.min_curvature, sy, 1.0), 0.0)
    newest = (s, y, rho)
    moved = Pairs(*(mx.concatenate([old[1:], new[None]], axis=0) for old, new in zip(pairs, newest, strict=True)))
    return at.moved(taken, trial), mx.where(taken, mx.ones_like(step), SHRINK * step), moved


class Newton(NamedTuple):
    """What `newton` sets: trial (Z, m), and damping, predicted gain, decrement, scaled (m,)."""

    trial: MxArray
    damping: MxArray
    predicted: MxArray
    decrement: MxArray
    scaled: MxArray


def newton(at: Point, hessian: MxArray, prior: MxArray, fixed: MxArray, damping: MxArray, bounds: Bounds) -> Newton:
    """Return damped Newton trials within bounds; runs on MLX's CPU device in float64.

    hessian : (m, Z, Z); prior : (m, Z). Columns outside the domain get a step of no meaning: they are lost anyway.
    """
    dtype = at.x.dtype
    with mx.stream(mx.cpu):
        legal = mx.isfinite(at.nll)
        x, g, held = (
            at.x.astype(mx.float64).T,
            at.gradient.astype(mx.float64).T,
            frozen(at.x, at.gradient, fixed, bounds).T,
        )
        eye = mx.eye(x.shape[1], dtype=mx.float64)
        h = mx.where(legal[:, None, None], hessian.astype(mx.float64), eye)
        g = mx.where(legal[:, None], g, 0.0)
        lower, upper = (bound.astype(mx.float64).T for bound in bounds)
        metric = mx.maximum(mx.abs(mx.diagonal(h, axis1=1, axis2=2)), prior.astype(mx.float64)) + FLAT
        scaled = mx.where(held, 0.0, mx.abs(g) / mx.sqrt(metric)).max(axis=1)
        step, damping = _active_set(x, g, h, metric, held, damping.astype(mx.float64), lower, upper)
        trial = mx.minimum(mx.maximum(x + step, lower), upper)
        gain = _model_gain(g, h, trial - x)
        cut = _cut_back(x, step, lower, upper)
        uphill = ~(gain > 0.0)
        trial = mx.where(uphill[:, None], cut, trial)
        predicted = mx.where(uphill, _model_gain(g, h, cut - x), gain)
        decrement = mx.where(damping == 0.0, -0.5 * (g * step).sum(axis=1), mx.inf)
        found = Newton(trial.T, damping, predicted, decrement, scaled)
        return Newton(*(array.astype(dtype) for array in found))


def _active_set(
    x: MxArray, g: MxArray, h: MxArray, metric: MxArray, held: MxArray, damping: MxArray, lower: MxArray, upper: MxArray
) -> tuple[MxArray, MxArray]:
    """Return steps (m, Z), 0 where parameters are held, and dampings (m,) that make the matrices positive definite."""
    eye = mx.eye(x.shape[1], dtype=mx.float64)
    while True:
        apart = held[:, :, None] | held[:, None, :]
        matrix = mx.where(apart, eye, h + (damping[:, None] * metric)[:, :, None] * eye)
        factor = mx.linalg.cholesky(matrix, stream=mx.cpu)
        good = _is_factor(factor, matrix)
        raised = ~good & (damping <= MAX_DAMPING)
        if mx.any(raised).item():
            damping = mx.where(raised, mx.maximum(FIRST_DAMPING, 4.0 * damping), damping)
            continue
        right = mx.where(held, 0.0, -g)[:, :, None]
        half = mx.linalg.solve_triangular(factor, right, upper=False, stream=mx.cpu)
        step = mx.linalg.solve_triangular(mx.swapaxes(factor, 1, 2), half, upper=True, stream=mx.cpu)[:, :, 0]
        step = mx.where(held | ~good[:, None], 0.0, step)
        outward = ((x <= lower) & (step < 0.0)) | ((x >= upper) & (step > 0.0))
        # A parameter on its bound that the joint step would push outward is held, and the rest solved anew.
        if not mx.any(outward).item():
            return step, damping
        held = held | outward


def _is_factor(factor: MxArray, matrix: MxArray) -> MxArray:
    """Return (m,) which factors are whole: LAPACK leaves a matrix that is not positive definite half done."""
    diagonal = mx.diagonal(matrix, axis1=1, axis2=2)
    error = mx.abs((factor * factor).sum(axis=2) - diagonal)
    rows = (error <= FACTOR_ERROR * mx.abs(diagonal)) & (mx.diagonal(factor, axis1=1, axis2=2) > 0.0)
    return rows.all(axis=1)


def _model_gain(g: MxArray, h: MxArray, step: MxArray) -> MxArray:
    return -((g * step).sum(axis=1) + 0.5 * (step * (h @ step[:, :, None])[:, :, 0]).sum(axis=1))


def _cut_back(x: MxArray, step: MxArray, lower: MxArray, upper: MxArray) -> MxArray:
    """Return trials cut back to the first bound they meet: then they keep their direction, which descends."""
    room = mx.where(step < 0.0, lower - x, upper - x)
    share = mx.where(step != 0.0, room / mx.where(step != 0.0, step, 1.0), 1.0)
    length = mx.minimum(share.min(axis=1), 1.0)
    return mx.minimum(mx.maximum(x + length[:, None] * step, lower), upper)


def gain_ratio(
    at: Point, trial: Point, predicted: MxArray, damping: MxArray, precision: Precision
) -> tuple[Point, MxArray]:
    """Return points and dampings after taking the trials that gain enough of what was predicted."""
    noise = precision.nll_noise * (1.0 + mx.abs(at.nll))
    gain, small = at.nll - trial.nll, predicted <= 16.0 * noise
    ratio = mx.where(predicted > 0.0, gain / mx.where(predicted > 0.0, predicted, 1.0), -1.0)
    taken = (ratio > MIN_GAIN) | (small & (gain >= -2.0 * noise))
    relaxed = mx.where(damping > NO_DAMPING, 0.1 * damping, 0.0)
    tightened = mx.where(ratio < 0.25, mx.maximum(FIRST_DAMPING, 3.0 * damping), damping)
    rejected = mx.maximum(FIRST_DAMPING, 6.0 * damping)
    accepted = mx.where((ratio > 0.75) | small, relaxed, tightened)
    return at.moved(taken, trial), mx.where(taken, accepted, rejected)


def ended(
    nll: MxArray, decrement: MxArray, scaled: MxArray, tolerances: tuple[float, float], precision: Precision
) -> tuple[MxArray, MxArray]:
    """Return (m,) which columns are converged, and which are outside the domain.

    Tolerances below what the precision can tell from rounding are raised to that.
    """
    outside = ~mx.isfinite(nll)
    done = (decrement < max(tolerances[0], precision.decrement)) & (scaled < max(tolerances[1], precision.scaled))
    return done & ~outside, outside


def cheap_lost(done: MxArray, outside: MxArray, step: MxArray) -> MxArray:
    """Return (m,) which columns the cheap tier cannot finish."""
    return ~done & ((step < SHORT_STEP) | outside)


def robust_lost(done: MxArray, outside: MxArray, damping: MxArray) -> MxArray:
    """Return (m,) which columns cannot get any further."""
    return ~done & (outside | (damping > HOPELESS_DAMPING))


def is_flat(scaled: MxArray, damping: MxArray, precision: Precision) -> MxArray:
    """Return (m,) which columns end in a flat direction, which keeps the Hessian singular for ever."""
    return (scaled < precision.flat_scaled) & (damping <= FIRST_DAMPING)
