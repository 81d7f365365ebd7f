"""Fits of many columns on one plan: the minimiser with its starts, bounds and matrix filled in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nsmath._typing import Array, BoolArray, IntArray
from nsmath.fitting.information import full_theta, inverse_information
from nsmath.fitting.kinks import kinks_of
from nsmath.fitting.minimiser import Columns, FitStatus, Problem, Tolerances, minimise
from nsmath.model.model import Model
from nsmath.plan.plan import Worker

PILOT = 32
"""Columns of the pilot that decides when the cheap tier hands over."""
N_OTHER_STARTS = 4
"""Further starts of a fit to observed data that was not easy."""
OTHER_START_SIGMAS = 0.5
"""How far they lie from the nominal point, in auxiliary sigmas."""
TYPICAL_NEWTON = 6.0
"""Robust iterations of a column, where the pilot had none."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What all columns of one kind of fit share.

    Attributes
    ----------
    starts : (Z,) start vectors, the common point first.
    fixed : (Z,) parameters that keep their start value.
    matrix : (Z, Z) inverse information at the common point.
    poi : minimised index of the free parameter of interest, -1 if fixed or absent.
    tolerances : see `Tolerances`; ``cheap`` is where the pilot puts the hand-over.
    kinks : minimised parameters whose interpolation has a kink at 0.
    """

    starts: tuple[Array, ...]
    fixed: BoolArray
    matrix: Array
    poi: int
    tolerances: Tolerances
    kinks: IntArray

    def problem(self, data: Any, aux: Any, first_start: Array | None = None) -> Problem:
        """Return the problem of these columns, (B, N) and (A, N); ``first_start`` (Z, N) replaces the common one."""
        starts: Sequence[Array] = self.starts if first_start is None else (first_start, *self.starts)
        return Problem(data, aux, starts, self.fixed, self.matrix, self.poi, self.tolerances, self.kinks)


def z_index(model: Model, parameter: int) -> int:
    """Return the position of a parameter (of P) among the minimised ones; -1 where it is not minimised."""
    where = np.flatnonzero(model.tensors.parameter == parameter)
    return int(where[0]) if len(where) else -1


def setup(
    worker: Worker, model: Model, start: Array, fixed: BoolArray, data: Array, aux: Array, *,
    other_starts: Sequence[Array] = (), tolerances: Tolerances | None = None,
) -> Setup:  # fmt: skip
    """Return the `Setup` of fits that start from ``start`` (Z,), with the information there.

    ``data`` (B,) and ``aux`` (A,) only place the gammas at the start.
    """
    t = model.tensors
    matrix = inverse_information(worker.robust, t, start, data, aux, fixed)
    poi = -1 if model.poi_index is None else z_index(model, model.poi_index)
    poi = -1 if poi >= 0 and fixed[poi] else poi
    return Setup((start, *other_starts), fixed, matrix, poi, tolerances or Tolerances(), kinks_of(t))


def with_pilot(worker: Worker, setting: Setup, data: Any, aux: Any, newton_cost: float) -> Setup:
    """Return ``setting`` with the hand-over that would have cost a few pilot columns the least.

    Deterministic: iteration counts of the pilot decide, weighed with the plan's stored ``newton_cost``.
    """
    limit = setting.tolerances.cheap
    columns = fit_columns(worker, setting, data, aux)
    needed = np.where(columns.is_robust, limit, columns.n_iterations)
    newton = columns.n_iterations[columns.is_robust] - limit
    # A column handed over early needs about as many robust iterations as one handed over late.
    typical = newton_cost * (float(np.mean(newton)) if len(newton) else TYPICAL_NEWTON)

    handovers = np.arange(limit + 1)
    # n steps take n + 1 looks at the gradient; hand-over 0 goes to the robust tier at once.
    looks = np.minimum(needed[:, None] + 1, handovers).sum(axis=0)
    cost = looks + typical * (needed[:, None] >= handovers).sum(axis=0)
    # Among equals the latest: the pilot has not seen the slowest columns of the study.
    best = limit - int(np.argmin(cost[::-1]))
    return replace(setting, tolerances=replace(setting.tolerances, cheap=best))


def fit_columns(worker: Worker, setting: Setup, data: Any, aux: Any, first_start: Array | None = None) -> Columns:
    """Return the fits of all columns, tile by tile; data (B, N), aux (A, N) on the host or the backend's own."""
    n, width = data.shape[1], worker.cheap.width
    if n <= width:
        return minimise(worker.cheap, worker.robust, setting.problem(data, aux, first_start))
    parts = []
    for first in range(0, n, width):
        chunk = slice(first, first + width)
        start = None if first_start is None else first_start[:, chunk]
        parts.append(minimise(worker.cheap, worker.robust, setting.problem(data[:, chunk], aux[:, chunk], start)))
    return Columns.joined(parts)


def best_fit(
    worker: Worker, model: Model, start: Array, fixed: BoolArray, data: Array, aux: Array, tolerances: Tolerances
) -> Columns:
    """Return the best fit to one set of data, a single column: ``data`` (B,), ``aux`` (A,) from ``start`` (Z,).

    A likelihood that needs the robust tier may have more than one minimum, so then other starts are tried too (the
    nominal point and points around it, the same ones every time) and the lowest minimum wins.
    """
    t = model.tensors
    setting = setup(worker, model, start, fixed, data, aux, tolerances=tolerances)
    first = fit_columns(worker, setting, data[:, None], aux[:, None])
    if not first.is_robust[0]:
        return first
    nominal = np.where(fixed, start, t.init[t.parameter])
    spread = np.zeros(len(start))
    spread[t.z_normal] = OTHER_START_SIGMAS * t.aux_scale[t.z_normal_aux]
    around = np.random.default_rng(0).normal(size=(len(start), N_OTHER_STARTS - 1)) * spread[:, None]
    around[fixed] = 0.0
    starts = np.column_stack([nominal, nominal[:, None] + around])
    bounds = (t.lower[t.parameter][:, None], t.upper[t.parameter][:, None])
    robust = replace(setting, tolerances=replace(tolerances, cheap=0))
    columns = np.ones(N_OTHER_STARTS)
    others = fit_columns(
        worker, robust, np.outer(data, columns), np.outer(aux, columns), np.clip(starts, *bounds)
    )  # fmt: skip
    everyone = Columns.joined([first, others])
    nll = np.where(everyone.status == FitStatus.CONVERGED, everyone.nll, np.inf)
    return everyone.column(int(np.argmin(nll)))


def theta_of(model: Model, columns: Columns) -> Array:
    """Return all parameters of the columns, (N, P)."""
    return np.ascontiguousarray(full_theta(model.tensors, columns.z, columns.gammas).T)


def nominal_start(model: Model) -> tuple[Array, BoolArray]:
    """Return the minimised parameters' start values (Z,) and which of them are fixed (Z,)."""
    t = model.tensors
    return t.init[t.parameter].copy(), t.is_fixed[t.parameter].astype(bool)
