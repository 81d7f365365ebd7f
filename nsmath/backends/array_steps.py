"""Steps of the two tiers for all columns at once; algorithms and rules are those of every backend (docs/maths.md, 7).

Batched Cholesky factors are the library's: a `Solver` says how it calls them. Newton steps are solved in float64.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from nsmath.backends.array_door import Namespace, XpArray, namespace_of
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
first pivot that is not positive, and the array libraries say nothing."""


class Solver(Protocol):
    """Batched linear algebra of an array library, in float64."""

    def cholesky(self, matrix: XpArray) -> XpArray:
        """Return lower triangular factors (m, Z, Z), of no meaning where a matrix is not positive definite."""

    def solved(self, matrix: XpArray, factor: XpArray, right: XpArray) -> XpArray:
        """Return the solutions (m, Z) for right sides (m, Z), given matrices (m, Z, Z) and their factors."""

    def is_any(self, flags: XpArray) -> bool:
        """Return on the host whether any flag is set."""


class Bounds(NamedTuple):
    """Bounds of the minimised parameters, (Z, 1)."""

    lower: XpArray
    upper: XpArray


class Pairs(NamedTuple):
    """Quasi-Newton memory, oldest first: steps and changes of the gradient (memory, Z, m), rho = 1 / s'y (memory, m).

    rho is 0 where a pair is not used.
    """

    steps: XpArray
    changes: XpArray
    rho: XpArray

    @classmethod
    def empty(cls, memory: int, n_z: int, m: int, xp: Namespace, dtype: object) -> Pairs:
        """Return a memory of nothing."""
        shape = (memory, n_z, m)
        return cls(xp.zeros(shape, dtype=dtype), xp.zeros(shape, dtype=dtype), xp.zeros((memory, m), dtype=dtype))


class Trials(NamedTuple):
    """What `quasi_newton` sets: trial (Z, m), decrement, scaled (m,), and rho (memory, m) of the pairs still used."""

    trial: XpArray
    decrement: XpArray
    scaled: XpArray
    rho: XpArray


def frozen(x: XpArray, gradient: XpArray, fixed: XpArray, bounds: Bounds) -> XpArray:
    """Return (Z, m) True where a parameter is fixed, or at a bound that its gradient pushes it against."""
    return fixed | ((x <= bounds.lower) & (gradient > 0.0)) | ((x >= bounds.upper) & (gradient < 0.0))


def quasi_newton(
    x: XpArray, gradient: XpArray, fixed: XpArray, step: XpArray, pairs: Pairs, matrix: XpArray, bounds: Bounds,
    poi: XpArray | None,
) -> Trials:  # fmt: skip
    """Return the next trials (Nocedal & Wright, Numerical Optimization, 2nd ed., algorithm 7.4).

    poi : (Z,) 1 at the parameter of interest, for columns in which it is frozen; None where it is fixed or absent.
    """
    xp = namespace_of(x)
    held = frozen(x, gradient, fixed, bounds)
    projected = xp.where(held, 0.0, gradient)
    d, alphas = projected, []
    memory = pairs.steps.shape[0]
    for k in reversed(range(memory)):
        alphas.append(pairs.rho[k] * (pairs.steps[k] * d).sum(axis=0))
        d = d - alphas[-1] * pairs.changes[k]
    d = matrix @ xp.where(held, 0.0, d)
    if poi is not None:
        # The common inverse with the POI held, for the columns whose POI is at its bound.
        row = (matrix @ poi)[:, None]
        own = (row * poi[:, None]).sum()
        at_bound = (held * poi[:, None]).sum(axis=0) > 0.0
        share = (poi[:, None] * d).sum(axis=0) / xp.where(own > 0.0, own, 1.0)
        d = d - row * xp.where(at_bound & (own > 0.0), share, 0.0)
    for k in range(memory):
        beta = pairs.rho[k] * (pairs.changes[k] * d).sum(axis=0)
        d = d + (alphas[memory - 1 - k] - beta) * pairs.steps[k]
    d = xp.where(held, 0.0, d)
    diagonal = xp.diagonal(matrix)[:, None]
    descends = (projected * d).sum(axis=0) > 0.0
    d = xp.where(descends, d, projected * diagonal)
    trial = xp.minimum(xp.maximum(x - step * d, bounds.lower), bounds.upper)
    scaled = (xp.abs(projected) * xp.sqrt(diagonal)).max(axis=0)
    return Trials(trial, 0.5 * (projected * d).sum(axis=0), scaled, xp.where(descends, pairs.rho, 0.0))


class Point(NamedTuple):
    """Where columns are: x (Z, m), nll (m,), gradient (Z, m)."""

    x: XpArray
    nll: XpArray
    gradient: XpArray

    def moved(self, taken: XpArray, trial: Point) -> Point:
        """Return the trial for the columns ``taken``, this point for all others."""
        xp = namespace_of(taken)
        return Point(*(xp.where(taken, new, old) for new, old in zip(trial, self, strict=True)))


def armijo(at: Point, trial: Point, step: XpArray, pairs: Pairs, precision: Precision) -> tuple[Point, XpArray, Pairs]:
    """Return points, step lengths and pairs after taking the trials that decrease the NLL enough."""
    xp = namespace_of(at.x)
    s = trial.x - at.x
    slope = xp.minimum((s * at.gradient).sum(axis=0), 0.0)
    taken = trial.nll <= at.nll + ARMIJO * slope + precision.nll_noise * (1.0 + xp.abs(at.nll))
    s = xp.where(taken, s, 0.0)
    y = xp.where(taken, trial.gradient - at.gradient, 0.0)
    sy = (s * y).sum(axis=0)
    rho = xp.where(sy > precision.min_curvature, 1.0 / xp.where(sy > precision.min_curvature, sy, 1.0), 0.0)
    newest = (s, y, rho)
    moved = Pairs(*(xp.concatenate([old[1:], new[None]], axis=0) for old, new in zip(pairs, newest, strict=True)))
    return at.moved(taken, trial), xp.where(taken, xp.ones_like(step), SHRINK * step), moved


class Newton(NamedTuple):
    """What `newton` sets: trial (Z, m), and damping, predicted gain, decrement, scaled (m,)."""

    trial: XpArray
    damping: XpArray
    predicted: XpArray
    decrement: XpArray
    scaled: XpArray


def newton(
    at: Point, hessian: XpArray, prior: XpArray, fixed: XpArray, damping: XpArray, bounds: Bounds, solver: Solver
) -> Newton:
    """Return damped Newton trials within bounds, solved in float64.

    hessian : (m, Z, Z); prior : (m, Z). Columns outside the domain get a step of no meaning: they are lost anyway.
    """
    xp = namespace_of(at.x)
    dtype = at.x.dtype
    legal = xp.isfinite(at.nll)
    x, g, held = (
        at.x.astype(xp.float64).T,
        at.gradient.astype(xp.float64).T,
        frozen(at.x, at.gradient, fixed, bounds).T,
    )
    eye = xp.eye(x.shape[1], dtype=xp.float64)
    h = xp.where(legal[:, None, None], hessian.astype(xp.float64), eye)
    g = xp.where(legal[:, None], g, 0.0)
    lower, upper = (bound.astype(xp.float64).T for bound in bounds)
    metric = xp.maximum(xp.abs(xp.diagonal(h, axis1=1, axis2=2)), prior.astype(xp.float64)) + FLAT
    scaled = xp.where(held, 0.0, xp.abs(g) / xp.sqrt(metric)).max(axis=1)
    damping = damping.astype(xp.float64)
    step, damping = _active_set(x, g, h, metric, held, damping, lower, upper, solver)
    trial = xp.minimum(xp.maximum(x + step, lower), upper)
    gain = _model_gain(g, h, trial - x)
    cut = _cut_back(x, step, lower, upper)
    uphill = ~(gain > 0.0)
    trial = xp.where(uphill[:, None], cut, trial)
    predicted = xp.where(uphill, _model_gain(g, h, cut - x), gain)
    decrement = xp.where(damping == 0.0, -0.5 * (g * step).sum(axis=1), xp.inf)
    found = Newton(trial.T, damping, predicted, decrement, scaled)
    return Newton(*(array.astype(dtype) for array in found))


def _active_set(
    x: XpArray, g: XpArray, h: XpArray, metric: XpArray, held: XpArray, damping: XpArray, lower: XpArray,
    upper: XpArray, solver: Solver,
) -> tuple[XpArray, XpArray]:  # fmt: skip
    """Return steps (m, Z), 0 where parameters are held, and dampings (m,) that make the matrices positive definite."""
    xp = namespace_of(x)
    eye = xp.eye(x.shape[1], dtype=xp.float64)
    while True:
        apart = held[:, :, None] | held[:, None, :]
        matrix = xp.where(apart, eye, h + (damping[:, None] * metric)[:, :, None] * eye)
        factor = solver.cholesky(matrix)
        good = _is_factor(factor, matrix)
        raised = ~good & (damping <= MAX_DAMPING)
        if solver.is_any(raised):
            damping = xp.where(raised, xp.maximum(FIRST_DAMPING, 4.0 * damping), damping)
            continue
        step = solver.solved(matrix, factor, xp.where(held, 0.0, -g))
        step = xp.where(held | ~good[:, None], 0.0, step)
        outward = ((x <= lower) & (step < 0.0)) | ((x >= upper) & (step > 0.0))
        # A parameter on its bound that the joint step would push outward is held, and the rest solved anew.
        if not solver.is_any(outward):
            return step, damping
        held = held | outward


def _is_factor(factor: XpArray, matrix: XpArray) -> XpArray:
    """Return (m,) which factors are whole: LAPACK leaves a matrix that is not positive definite half done."""
    xp = namespace_of(factor)
    diagonal = xp.diagonal(matrix, axis1=1, axis2=2)
    error = xp.abs((factor * factor).sum(axis=2) - diagonal)
    rows = (error <= FACTOR_ERROR * xp.abs(diagonal)) & (xp.diagonal(factor, axis1=1, axis2=2) > 0.0)
    return rows.all(axis=1)


def _model_gain(g: XpArray, h: XpArray, step: XpArray) -> XpArray:
    return -((g * step).sum(axis=1) + 0.5 * (step * (h @ step[:, :, None])[:, :, 0]).sum(axis=1))


def _cut_back(x: XpArray, step: XpArray, lower: XpArray, upper: XpArray) -> XpArray:
    """Return trials cut back to the first bound they meet: then they keep their direction, which descends."""
    xp = namespace_of(x)
    room = xp.where(step < 0.0, lower - x, upper - x)
    share = xp.where(step != 0.0, room / xp.where(step != 0.0, step, 1.0), 1.0)
    length = xp.minimum(share.min(axis=1), 1.0)
    return xp.minimum(xp.maximum(x + length[:, None] * step, lower), upper)


def gain_ratio(
    at: Point, trial: Point, predicted: XpArray, damping: XpArray, precision: Precision
) -> tuple[Point, XpArray]:
    """Return points and dampings after taking the trials that gain enough of what was predicted."""
    xp = namespace_of(at.x)
    noise = precision.nll_noise * (1.0 + xp.abs(at.nll))
    gain, small = at.nll - trial.nll, predicted <= 16.0 * noise
    ratio = xp.where(predicted > 0.0, gain / xp.where(predicted > 0.0, predicted, 1.0), -1.0)
    taken = (ratio > MIN_GAIN) | (small & (gain >= -2.0 * noise))
    relaxed = xp.where(damping > NO_DAMPING, 0.1 * damping, 0.0)
    tightened = xp.where(ratio < 0.25, xp.maximum(FIRST_DAMPING, 3.0 * damping), damping)
    rejected = xp.maximum(FIRST_DAMPING, 6.0 * damping)
    accepted = xp.where((ratio > 0.75) | small, relaxed, tightened)
    return at.moved(taken, trial), xp.where(taken, accepted, rejected)


def ended(
    nll: XpArray, decrement: XpArray, scaled: XpArray, tolerances: tuple[float, float], precision: Precision
) -> tuple[XpArray, XpArray]:
    """Return (m,) which columns are converged, and which are outside the domain.

    Tolerances below what the precision can tell from rounding are raised to that.
    """
    xp = namespace_of(nll)
    outside = ~xp.isfinite(nll)
    done = (decrement < max(tolerances[0], precision.decrement)) & (scaled < max(tolerances[1], precision.scaled))
    return done & ~outside, outside


def cheap_lost(done: XpArray, outside: XpArray, step: XpArray) -> XpArray:
    """Return (m,) which columns the cheap tier cannot finish."""
    return ~done & ((step < SHORT_STEP) | outside)


def robust_lost(done: XpArray, outside: XpArray, damping: XpArray) -> XpArray:
    """Return (m,) which columns cannot get any further."""
    return ~done & (outside | (damping > HOPELESS_DAMPING))


def is_flat(scaled: XpArray, damping: XpArray, precision: Precision) -> XpArray:
    """Return (m,) which columns end in a flat direction, which keeps the Hessian singular for ever."""
    return (scaled < precision.flat_scaled) & (damping <= FIRST_DAMPING)
