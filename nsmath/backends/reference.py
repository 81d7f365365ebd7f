"""The ``reference`` backend: everything the obvious way in NumPy, float64. The oracle for the other backends.

Its likelihood is that of `nsmath.model.likelihood` with full parameter vectors; gammas are profiled by bisection
(`reference_profile`), Hessians come from the full one by a Schur complement. It shares no code with kernels, only the
rules of the two tiers (`nsmath.backends.ops`).
"""

from __future__ import annotations

import numpy as np

from nsmath._typing import Array, BoolArray, IntArray
from nsmath.backends import event_data, reference_sampling, reference_steps
from nsmath.backends.ops import cheap_ended, robust_ended
from nsmath.backends.reference_profile import profile_gammas
from nsmath.backends.transfers import Ledger
from nsmath.model.hessian import full_hessians
from nsmath.model.likelihood import (
    constraint_derivatives,
    constraint_terms,
    is_inert,
    poisson_term,
    residual,
)
from nsmath.model.rates import jacobian, rate_table, row_rates, sum_by
from nsmath.model.tensors import ModelTensors

_COLUMN_ARRAYS = (
    "x", "gradient", "trial", "trial_gradient", "data", "aux", "gammas", "fixed", "rate", "residual", "direction",
)  # fmt: skip
_COLUMN_VECTORS = (
    "nll", "trial_nll", "decrement", "scaled", "step", "damping", "predicted", "todo", "hessian", "prior",
)  # fmt: skip


class ReferenceModel:
    """One model on the reference backend."""

    name = "reference"
    device_name = "cpu"
    threads: int | None = None
    dtypes = ("float64",)
    empty_columns = staticmethod(event_data.empty_columns)
    put_rows = staticmethod(event_data.put_rows)
    description = f"NumPy {np.__version__}"
    sample_poisson = staticmethod(reference_sampling.sample_poisson)
    sample_normal = staticmethod(reference_sampling.sample_normal)

    def __init__(self, tensors: ModelTensors, *, dtype: str = "float64", ledger: Ledger | None = None) -> None:
        self.dtype, self.ledger = dtype, ledger or Ledger()
        self.tensors, self.table = tensors, rate_table(tensors)
        self.lower, self.upper = tensors.lower[tensors.parameter], tensors.upper[tensors.parameter]
        self.is_counted = ~is_inert(tensors)[tensors.aux_parameter]

    def tile(self, width: int, *, memory: int = 0, curvature: bool = False) -> ReferenceTile:
        """Return buffers for ``width`` columns; see `ReferenceTile`."""
        return ReferenceTile(self, width, memory=memory, curvature=curvature)

    def full(self, z: Array, gammas: Array) -> Array:
        """Return full parameter vectors (N, P) from ``z`` (Z, N) and ``gammas`` (G, N); inert ones at their start."""
        t = self.tensors
        theta = np.tile(t.init, (z.shape[1], 1))
        theta[:, t.parameter], theta[:, t.gamma_parameter] = z.T, gammas.T
        return theta


class ReferenceTile:
    """Buffers for up to ``width`` columns, of which the first ``n`` are active; see `nsmath.backends.ops.Tile`.

    Arrays are (parameters, columns). ``residual`` (B, N) is d NLL / d lambda of each bin.
    """

    looks_every = 1

    def __init__(self, model: ReferenceModel, width: int, *, memory: int, curvature: bool) -> None:
        t = model.tensors
        self.model, self.width, self.memory, self.has_curvature = model, width, memory, curvature
        self.n, self.poi, self.matrix = 0, -1, np.zeros((t.n_minimised, t.n_minimised))
        self.x, self.gradient, self.trial, self.trial_gradient, self.direction = np.zeros((5, t.n_minimised, width))
        self.data, self.rate, self.residual = np.zeros((3, t.n_bins, width))
        self.aux, self.gammas = np.zeros((t.n_aux, width)), np.zeros((t.n_gammas, width))
        self.fixed = np.zeros((t.n_minimised, width), dtype=bool)
        self.nll, self.trial_nll, self.decrement, self.scaled, self.damping, self.predicted = np.zeros((6, width))
        self.step, self.todo = np.ones(width), np.zeros(width, dtype=bool)
        self.hessian = np.zeros((width, t.n_minimised, t.n_minimised) if curvature else (width, 0, 0))
        self.prior = np.zeros((width, t.n_minimised))
        self.pairs: list[reference_steps.Pair] = []

    def free(self) -> None:
        """Nothing to release."""

    # -- one evaluation ------------------------------------------------------------------------------------

    def evaluate(self, z: Array, nll: Array, gradient: Array, *, profile: bool = True) -> None:
        """Fill ``nll`` and ``gradient`` of the active columns at ``z``; ``profile`` solves for the gammas first."""
        m, t, n = self.model, self.model.tensors, self.n
        data, aux = self.data[:, :n].T, self.aux[:, :n].T
        held = np.full(data.shape, np.nan)
        if profile and t.n_gammas:
            ones = np.ones((t.n_gammas, n))
            slots = sum_by(t.row_slot, t.n_slots, row_rates(m.table, m.full(z[:, :n], ones)))
            gammas, held = profile_gammas(t, slots, data, aux)
            self.gammas[:, :n] = gammas.T
        theta = m.full(z[:, :n], self.gammas[:, :n])
        rate = sum_by(m.table.row_bin, t.n_bins, row_rates(m.table, theta))
        # A rate that profiling holds at its bound 0 comes out as rounding noise of either sign.
        is_held = (data <= 0.0) & (held < 1.0)
        rate = np.where(is_held, 0.0, rate)
        r = np.where(is_held, held, residual(rate, data))
        counted = constraint_terms(t, theta, aux)[:, m.is_counted]
        nll[:n] = poisson_term(rate, data).sum(axis=1) + counted.sum(axis=1)
        slope = np.einsum("nb,nbp->np", r, jacobian(m.table, theta)) + constraint_derivatives(t, theta, aux)[0]
        gradient[:, :n] = slope[:, t.parameter].T
        self.rate[:, :n], self.residual[:, :n] = rate.T, r.T

    # -- columns in and out --------------------------------------------------------------------------------

    def load(self, x: Array, data: Array, aux: Array, fixed: BoolArray, at: int = 0) -> None:
        """Put columns ``x`` (Z, n), ``data`` (B, n), ``aux`` (A, n) at position ``at``; ``fixed`` (Z,) or (Z, n)."""
        self.n = at + x.shape[1]
        columns = slice(at, self.n)
        self.x[:, columns], self.data[:, columns], self.aux[:, columns] = x, data, aux
        self.fixed[:, columns] = fixed if fixed.ndim == 2 else fixed[:, None]

    def start(self, at: int = 0) -> None:
        """Evaluate the loaded columns at their start and forget all memory."""
        self.evaluate(self.x, self.nll, self.gradient)
        self.step[: self.n], self.pairs = 1.0, []
        self.damping[at : self.n], self.todo[at : self.n] = 0.0, True

    def keep(self, columns: IntArray) -> None:
        """Drop all columns but these (ascending)."""
        n = len(columns)
        for name in _COLUMN_ARRAYS:
            array = getattr(self, name)
            array[:, :n] = array[:, columns]
        for name in _COLUMN_VECTORS:
            array = getattr(self, name)
            array[:n] = array[columns]
        self.pairs = [pair.keep(columns) for pair in self.pairs]
        self.n = n

    def set_matrix(self, matrix: Array) -> None:
        """Take ``matrix`` (Z, Z) as the common inverse information."""
        self.matrix[:] = matrix

    # -- what has come out ---------------------------------------------------------------------------------

    def wait(self) -> None:
        """Nothing to wait for."""

    def to_host(self, array: Array) -> Array:
        """Return ``array``: it is on the host."""
        return array

    def results(self, columns: IntArray) -> tuple[Array, Array, Array]:
        """Return x (Z, k), nll (k,) and gammas (G, k) of these columns."""
        return self.x[:, columns], self.nll[columns], self.gammas[:, columns]

    def ended_cheap(self, tolerances: tuple[float, float]) -> tuple[BoolArray, BoolArray]:
        """Return which columns are converged, and which are lost; see `cheap_ended`."""
        n = self.n
        return cheap_ended(self.nll[:n], self.step[:n], self.decrement[:n], self.scaled[:n], tolerances)

    def ended_robust(self, tolerances: tuple[float, float]) -> tuple[BoolArray, BoolArray]:
        """Return which columns are converged, and which cannot get any further; see `robust_ended`."""
        n = self.n
        return robust_ended(self.nll[:n], self.damping[:n], self.decrement[:n], self.scaled[:n], tolerances)

    # -- cheap tier ----------------------------------------------------------------------------------------

    def descend(self) -> None:
        """Set ``trial``, ``decrement`` and ``scaled`` from the quasi-Newton recursion."""
        reference_steps.quasi_newton_trials(self)

    def accept(self) -> None:
        """Evaluate the trials and take those that decrease the NLL enough."""
        self.evaluate(self.trial, self.trial_nll, self.trial_gradient)
        reference_steps.armijo(self)

    # -- robust tier ---------------------------------------------------------------------------------------

    def curvature(self) -> None:
        """Fill ``hessian`` and ``prior`` of the columns ``todo``, at ``x``."""
        todo = np.flatnonzero(self.todo[: self.n])
        if not len(todo):
            return
        m, t = self.model, self.model.tensors
        # The gammas at x, which a rejected trial has overwritten.
        self.evaluate(self.x, np.empty(self.width), np.empty_like(self.gradient))
        theta = m.full(self.x[:, todo], self.gammas[:, todo])
        data, aux = self.data[:, todo].T, self.aux[:, todo].T
        full = full_hessians(t, theta, data, aux, residual=self.residual[:, todo].T)
        jac = jacobian(m.table, theta)
        held = (data <= 0.0) & (self.rate[:, todo].T == 0.0) & (self.residual[:, todo].T < 1.0)
        gammas = theta[:, t.gamma_parameter]
        inside = (gammas > t.lower[t.gamma_parameter]) & (gammas < t.upper[t.gamma_parameter])
        second = constraint_derivatives(t, theta, aux)[1][:, t.parameter]
        for k, i in enumerate(todo):
            moving = t.gamma_parameter[inside[k]]
            self.hessian[i] = schur(full[k], t.parameter, moving, jac[k][held[k]])
            self.prior[i] = second[k]

    def newton_descend(self) -> None:
        """Set ``trial``, ``predicted``, ``decrement`` and ``scaled`` from damped Newton steps."""
        reference_steps.newton_trials(self)

    def newton_accept(self) -> None:
        """Evaluate the trials, take those that gain enough, set the damping."""
        self.evaluate(self.trial, self.trial_nll, self.trial_gradient)
        reference_steps.gain_ratio(self)


def schur(full: Array, kept: IntArray, solved: IntArray, constraints: Array) -> Array:
    """Return the Hessian over ``kept`` when ``solved`` follow them so that their gradient stays 0, (Z, Z).

    ``constraints`` (C, P) are the gradients of rates that stay at 0; each brings a Lagrange multiplier.
    """
    n = len(constraints)
    if not len(solved) and not n:
        return full[np.ix_(kept, kept)]
    inner = np.block([
        [full[np.ix_(solved, solved)], constraints[:, solved].T],
        [constraints[:, solved], np.zeros((n, n))],
    ])  # fmt: skip
    mixed = np.concatenate([full[np.ix_(solved, kept)], constraints[:, kept]])
    # Unit diagonal first: auxiliary counts from 1e-1 to 1e11 meet in this matrix.
    scale = 1.0 / np.sqrt(np.maximum(np.abs(np.diag(inner)), np.finfo(float).tiny))
    scale = np.where(np.diag(inner) != 0.0, scale, 1.0)
    scaled = inner * scale * scale[:, None]
    correction = np.linalg.lstsq(scaled, mixed * scale[:, None], rcond=1e-14)[0]
    reduced: Array = full[np.ix_(kept, kept)] - (mixed * scale[:, None]).T @ correction
    return reduced
