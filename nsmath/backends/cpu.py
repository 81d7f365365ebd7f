"""The ``cpu`` backend: planned matmuls over MKL or NVPL, numba kernels for what goes before and after them."""

from __future__ import annotations

import numpy as np

from nsmath._typing import AnyArray, Array, BoolArray, IntArray
from nsmath.backends import (
    cpu_curvature,
    cpu_kernels,
    cpu_lbfgs,
    cpu_newton,
    cpu_sampling,
    cpu_steps,
    cpu_warm,
    event_data,
)
from nsmath.backends.cpu_strips import STRIP
from nsmath.backends.cpu_tensors import KernelTables, kernel_tables
from nsmath.backends.jit import is_compiled
from nsmath.backends.matmul import MatmulLibrary, PlannedMatmul, matmul_library
from nsmath.backends.ops import cheap_ended, robust_ended
from nsmath.backends.transfers import Ledger
from nsmath.model.tensors import ModelTensors

BATCH_STEP = 4
"""Batched matmuls of Hessians are planned for multiples of this many columns."""
FEW = 8
"""Up to so many columns, as in a single fit, matmuls take just these; all other widths are whole strips."""
LADDER_STEPS = 8
"""A tile's matmuls are planned for this many widths; finished columns shrink it to the next one that holds."""


class CpuModel:
    """What all tiles of one model share: kernel tensors, template matrices, the matmul library."""

    name = "cpu"
    device_name = "cpu"
    threads: int | None = None
    dtypes = ("float64",)
    empty_columns = staticmethod(event_data.empty_columns)
    put_rows = staticmethod(event_data.put_rows)
    sample_poisson = staticmethod(cpu_sampling.sample_poisson)
    sample_normal = staticmethod(cpu_sampling.sample_normal)

    def __init__(
        self, tensors: ModelTensors, *, dtype: str = "float64", ledger: Ledger | None = None, warm: bool = True
    ) -> None:
        if warm and not is_compiled():
            cpu_warm.compile_all()
        self.dtype, self.ledger = dtype, ledger or Ledger()
        self.tensors = tensors
        self.tables: KernelTables = kernel_tables(tensors)
        self.curvature_tables = cpu_curvature.curvature_tables(tensors)
        self.matmuls: MatmulLibrary = matmul_library()
        self.description = self.matmuls.name
        # The nominal yields are a last column that meets a row of ones: one matmul, no separate addition.
        self.shapes_matrix = np.ascontiguousarray(np.hstack([tensors.template, tensors.nominal[:, None]]))
        self.pull_matrix = np.ascontiguousarray(tensors.template.T)
        self.lower = np.ascontiguousarray(tensors.lower[tensors.parameter])
        self.upper = np.ascontiguousarray(tensors.upper[tensors.parameter])

    def tile(self, width: int, *, memory: int = 0, curvature: bool = False) -> CpuTile:
        """Return buffers and planned matmuls for ``width`` columns; see `CpuTile`."""
        return CpuTile(self, width, memory=memory, curvature=curvature)


class CpuTile:
    """Buffers and planned matmuls for up to ``width`` columns; the operations that the minimiser runs on them.

    Parameters
    ----------
    memory : pairs of the quasi-Newton recursion, 0 for none.
    curvature : also hold Hessians, for the robust tier.

    Arrays are (parameters, columns); the first ``n`` columns are active.
    """

    looks_every = 1

    def __init__(self, model: CpuModel, width: int, *, memory: int, curvature: bool) -> None:
        t = model.tensors
        self.model, self.width, self.memory, self.n = model, width, memory, 0
        n_z, n_h, n_r = t.n_minimised, t.n_histosys, t.n_rows

        # Whole strips, and an odd number of them: a power of two between rows would crowd a few cache sets.
        size = STRIP * (-(-width // STRIP) | 1)

        def buffer(rows: int) -> Array:
            return np.zeros((rows, size))

        self.x, self.gradient = buffer(n_z), buffer(n_z)
        self.trial, self.trial_gradient = buffer(n_z), buffer(n_z)
        self.data, self.aux, self.gammas = buffer(t.n_bins), buffer(t.n_aux), buffer(t.n_gammas)
        self.fixed = np.zeros((n_z, size), dtype=np.uint8)
        self.nll, self.trial_nll = np.zeros(size), np.zeros(size)
        self.decrement, self.scaled = np.zeros(size), np.zeros(size)
        self.rate = buffer(t.n_bins)
        self._features, self._slope = buffer(2 * n_h + 1), buffer(n_h)
        self._shapes, self._row_weight, self._pulled = buffer(n_r), buffer(n_r), buffer(2 * n_h)
        self._matmuls: dict[tuple[str, int], PlannedMatmul] = {}
        self.matrix = np.zeros((n_z, n_z))
        self.poi = -1
        if memory:
            self.direction, self._alpha = buffer(n_z), buffer(memory)
            self.frozen = np.zeros((n_z, size), dtype=np.uint8)
            self.step, self.rho = np.ones(size), buffer(memory)
            self._steps, self._changes = np.zeros((memory, n_z, size)), np.zeros((memory, n_z, size))
            self._head, self._n_pairs = 0, 0
        if curvature:
            n_k = int(model.tables.header["n_k"])
            self.left, self.right = np.zeros((width, n_k, n_z)), np.zeros((width, n_k, n_z))
            self.hessian, self.prior = np.zeros((width, n_z, n_z)), np.zeros((width, n_z))
            self.damping, self.predicted = np.zeros(width), np.zeros(width)
            self.todo = np.zeros(width, dtype=np.uint8)

    def free(self) -> None:
        """Free the planned matmuls."""
        for matmul in self._matmuls.values():
            matmul.free()
        self._matmuls.clear()

    # -- one evaluation ------------------------------------------------------------------------------------

    def _planned(self, name: str, a: Array, b: Array, out: Array) -> PlannedMatmul:
        """Return the matmul of this operation for the narrowest planned width that holds the active columns."""
        step = STRIP * -(-self.width // (STRIP * LADDER_STEPS))
        width = min(-(-self.n // step) * step, -(-self.width // STRIP) * STRIP)
        if self.n <= FEW:
            width = FEW
        key = (name, width)
        if key not in self._matmuls:
            self._matmuls[key] = self.model.matmuls.planned(a, b[:, :width], out[:, :width])
        return self._matmuls[key]

    @property
    def _whole_strips(self) -> int:
        """Columns that kernels run over: the active ones, and what fills their last strip."""
        return -(-self.n // STRIP) * STRIP

    def interpolate(self, z: Array) -> None:
        """Prolog: the histosys features and their slopes at ``z``."""
        t = self.model.tensors
        cpu_kernels.features(z, t.histosys_z, t.additive, self._whole_strips, self._features, self._slope)

    def shapes(self) -> None:
        """Matmul: the additive part of every row, T F + nominal."""
        self._planned("shapes", self.model.shapes_matrix, self._features, self._shapes).execute()

    def poisson(self, z: Array, profile: bool, nll: Array, gradient: Array) -> None:
        """Epilog: rates, gammas, NLL, row weights and the gradient's other parts."""
        tables = self.model.tables
        cpu_kernels.likelihood(
            tables.header, tables.ints, tables.floats, z, self._shapes, self.data, self.aux, self.n, profile,
            self.gammas, nll, gradient, self._row_weight, self.rate,
        )  # fmt: skip

    def pull_back(self) -> None:
        """Matmul: row weights to histosys features, T' W."""
        if len(self._pulled):
            self._planned("pull_back", self.model.pull_matrix, self._row_weight, self._pulled).execute()

    def gather(self, gradient: Array) -> None:
        """Epilog of the pull-back: features to parameters."""
        t = self.model.tensors
        cpu_kernels.gather_histosys(t.histosys_z, self._pulled, self._slope, self.n, gradient)

    def evaluate(self, z: Array, nll: Array, gradient: Array, *, profile: bool = True) -> None:
        """Fill ``nll`` and ``gradient`` at ``z``: (interpolate, shapes, poisson, pull_back, gather)."""
        self.interpolate(z)
        self.shapes()
        self.poisson(z, profile, nll, gradient)
        self.pull_back()
        self.gather(gradient)

    # -- columns in and out --------------------------------------------------------------------------------

    def load(self, x: Array, data: Array, aux: Array, fixed: BoolArray, at: int = 0) -> None:
        """Put columns ``x`` (Z, n), ``data`` (B, n), ``aux`` (A, n) at position ``at``; ``fixed`` (Z,) or (Z, n)."""
        n = x.shape[1]
        self.n = at + n
        columns = slice(at, self.n)
        self.x[:, columns], self.data[:, columns], self.aux[:, columns] = x, data, aux
        self.fixed[:, columns] = fixed if fixed.ndim == 2 else fixed[:, None]

    def start(self, at: int = 0) -> None:
        """Evaluate the loaded columns at their start."""
        self.evaluate(self.x, self.nll, self.gradient)
        if self.memory:
            self.step[: self.n] = 1.0
            self._head, self._n_pairs = 0, 0
        else:
            self.damping[at : self.n] = 0.0
            self.todo[at : self.n] = 1

    def keep(self, columns: IntArray) -> None:
        """Drop all columns but these (ascending)."""
        n = len(columns)
        for array in (self.x, self.gradient, self.trial, self.data, self.aux, self.fixed, self.gammas):
            cpu_lbfgs.gather_columns(array, columns, n, array)
        vectors: list[AnyArray] = [self.nll, self.decrement, self.scaled]
        vectors += [self.step] if self.memory else [self.damping, self.predicted, self.todo]
        for vector in vectors:
            vector[:n] = vector[columns]
        if self.memory:
            cpu_lbfgs.gather_columns(self.rho, columns, n, self.rho)
            cpu_lbfgs.gather_pairs(self._steps, columns, n)
            cpu_lbfgs.gather_pairs(self._changes, columns, n)
        else:
            for matrices in (self.hessian, self.prior):
                for i, j in enumerate(columns):
                    matrices[i] = matrices[j]
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

    def precondition(self) -> None:
        """Matmul: projected gradients times the common inverse information."""
        self._planned("precondition", self.matrix, self.trial_gradient, self.direction).execute()

    def descend(self) -> None:
        """Set ``trial``, ``decrement`` and ``scaled`` from the quasi-Newton recursion."""
        n, m = self.n, self.model
        cpu_lbfgs.first_loop(
            n, self.x, self.gradient, m.lower, m.upper, self.fixed, self._steps, self._changes, self.rho,
            self._head, self._n_pairs, self.trial_gradient, self._alpha, self.frozen,
        )  # fmt: skip
        self.precondition()
        cpu_lbfgs.second_loop(
            n, self.x, self.gradient, m.lower, m.upper, self.frozen, self._steps, self._changes, self.rho,
            self._head, self._n_pairs, self.matrix, self.poi, self.direction, self._alpha, self.step, self.trial,
            self.decrement, self.scaled,
        )  # fmt: skip

    def accept(self) -> None:
        """Evaluate the trials and take those that decrease the NLL enough."""
        self.evaluate(self.trial, self.trial_nll, self.trial_gradient)
        self.take()

    def take(self) -> None:
        """Take the evaluated trials that decrease the NLL enough."""
        self._head = (self._head + 1) % self.memory
        self._n_pairs = min(self._n_pairs + 1, self.memory)
        cpu_lbfgs.accept(
            self.n, self.x, self.nll, self.gradient, self.trial, self.trial_nll, self.trial_gradient, self.step,
            self._steps, self._changes, self.rho, self._head,
        )  # fmt: skip

    # -- robust tier ---------------------------------------------------------------------------------------

    def curvature(self) -> None:
        """Fill ``hessian`` (upper triangles) and ``prior`` of the columns ``todo``, at ``x``."""
        tables = self.model.tables
        self.interpolate(self.x)
        self.shapes()
        cpu_newton.curvature_factors(
            tables.header, tables.ints, tables.floats, self.model.curvature_tables, self.n, self.todo, self.x,
            self._shapes, self.data, self.aux, self.left, self.right, self.hessian, self.prior,
        )  # fmt: skip
        # Hessians of dropped columns are not computed: plans for every few columns.
        n = min(-(-self.n // BATCH_STEP) * BATCH_STEP, self.width)
        key = ("curvature", n)
        if key not in self._matmuls:
            self._matmuls[key] = self.model.matmuls.planned(
                self.left[:n].transpose(0, 2, 1), self.right[:n], self.hessian[:n], accumulate=True
            )
        self._matmuls[key].execute()

    def newton_descend(self) -> None:
        """Set ``trial``, ``predicted``, ``decrement`` and ``scaled`` from damped Newton steps."""
        everyone = np.ones(self.n, dtype=np.uint8)
        cpu_steps.newton_steps(
            self.n, everyone, self.x, self.gradient, self.hessian, self.prior, self.model.lower, self.model.upper,
            self.fixed, self.damping, self.trial, self.predicted, self.decrement, self.scaled,
        )  # fmt: skip

    def newton_accept(self) -> None:
        """Evaluate the trials, take those that gain enough, set the damping."""
        self.evaluate(self.trial, self.trial_nll, self.trial_gradient)
        self.newton_take()

    def newton_take(self) -> None:
        """Take the evaluated trials that gain enough, set the damping."""
        cpu_steps.newton_accept(
            self.n, self.todo, self.x, self.nll, self.gradient, self.trial, self.trial_nll, self.trial_gradient,
            self.predicted, self.damping,
        )  # fmt: skip
