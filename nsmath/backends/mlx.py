"""The ``mlx`` backend: Apple GPUs in float32 through Metal, and MLX's CPU device in float64, for tests anywhere.

Arrays are pure values: a tile replaces its arrays instead of filling them, and MLX computes them when someone looks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, NamedTuple, TypeVar

import numpy as np

from nsmath._typing import AnyArray, Array, BoolArray, IntArray
from nsmath.backends import cpu_sampling, event_data
from nsmath.backends.array_curvature import Curvature
from nsmath.backends.array_door import Compiler, as_it_is
from nsmath.backends.array_likelihood import Evaluated, Likelihood
from nsmath.backends.array_steps import (
    Bounds,
    Pairs,
    Point,
    armijo,
    cheap_lost,
    ended,
    gain_ratio,
    is_flat,
    newton,
    quasi_newton,
    robust_lost,
)
from nsmath.backends.mlx_arrays import CpuSolver, Door, MxArray, check_matmul, device_of, mx
from nsmath.backends.ops import PRECISIONS
from nsmath.backends.transfers import Ledger
from nsmath.model.tensors import ModelTensors

LADDER_STEPS = 8
"""Arrays of a tile have one of so many widths, since MLX compiles anew for each; finished columns shrink it."""

Method = TypeVar("Method", bound=Callable[..., Any])


def on_device(method: Method) -> Method:
    """Let a method of a model or tile compute on its own device, whatever MLX's default is."""

    @functools.wraps(method)
    def there(self: Any, *args: Any, **kwargs: Any) -> Any:
        with mx.stream(self.device):
            return method(self, *args, **kwargs)

    return there  # type: ignore[return-value]


class MlxModel:
    """One model on MLX.

    Parameters
    ----------
    dtype : ``float64`` on MLX's CPU device; ``float32`` on Metal if there is one, else on the CPU device too.
    compiler : what pure functions go through; when None, `mx.compile` on Metal and nothing on the CPU, where that would
        call a C++ compiler.
    """

    name = "mlx"
    dtypes = ("float64", "float32")
    threads: int | None = 1
    empty_columns = staticmethod(event_data.empty_columns)
    put_rows = staticmethod(event_data.put_rows)
    sample_poisson = staticmethod(cpu_sampling.sample_poisson)
    sample_normal = staticmethod(cpu_sampling.sample_normal)

    def __init__(
        self, tensors: ModelTensors, *, dtype: str = "float64", ledger: Ledger | None = None,
        compiler: Compiler | None = None,
    ) -> None:  # fmt: skip
        self.dtype, self.ledger, self.tensors = dtype, ledger or Ledger(), tensors
        self.device = device_of(dtype)
        is_metal = self.device == mx.gpu
        self.device_name = "metal" if is_metal else "cpu"
        self.description = f"MLX {version('mlx')} on {'Metal' if is_metal else 'its CPU device'}, {dtype}"
        self.compiler: Compiler = compiler or (mx.compile if is_metal else as_it_is)
        if dtype == "float32":
            check_matmul(self.device)
        self._prepare()

    @on_device
    def _prepare(self) -> None:
        t = self.tensors
        self.door = Door(self.ledger, self.dtype)
        self.precision = PRECISIONS[self.dtype]
        self.likelihood = Likelihood(self.door, t, self.compiler)
        lower, upper = t.lower[t.parameter][:, None], t.upper[t.parameter][:, None]
        self.bounds = Bounds(self.door.constant(lower), self.door.constant(upper))
        self.quasi_newton, self.armijo, self.gain_ratio = (
            self.compiler(function) for function in (self._quasi_newton, self._armijo, self._gain_ratio)
        )

    @functools.cached_property
    def exact(self) -> MlxModel:
        """The same model in float64, on MLX's CPU device."""
        return self if self.dtype == "float64" else MlxModel(self.tensors, ledger=self.ledger)

    @functools.cached_property
    def curvature(self) -> Curvature:
        """The Hessians, made on first use."""
        return Curvature(self.door, self.likelihood, self.compiler)

    def _quasi_newton(self, x: MxArray, gradient: MxArray, fixed: MxArray, step: MxArray, steps: MxArray,
                      changes: MxArray, rho: MxArray, matrix: MxArray, *poi: MxArray) -> Any:  # fmt: skip
        pairs = Pairs(steps, changes, rho)
        return tuple(quasi_newton(x, gradient, fixed, step, pairs, matrix, self.bounds, poi[0] if poi else None))

    def _armijo(self, *arrays: MxArray) -> Any:
        at, trial, step, pairs = Point(*arrays[:3]), Point(*arrays[3:6]), arrays[6], Pairs(*arrays[7:])
        moved, step, pairs = armijo(at, trial, step, pairs, self.precision)
        return (*moved, step, *pairs)

    def _gain_ratio(self, *arrays: MxArray) -> Any:
        moved, damping = gain_ratio(Point(*arrays[:3]), Point(*arrays[3:6]), arrays[6], arrays[7], self.precision)
        return (*moved, damping)

    @on_device
    def values(self, x: Array, data: Array, aux: Array) -> tuple[Array, Array]:
        """Return nll (n,) and gammas (G, n) at ``x`` (Z, n) of ``data`` (B, n) and ``aux`` (A, n)."""
        door = self.door
        why = "fits, to be evaluated in float64"
        found = self.likelihood(
            door.columns(x, why), door.columns(data, why, event_data=True), door.columns(aux, why, event_data=True)
        )
        return door.host(found.nll, "results", "fits"), door.host(found.gammas, "results", "fits")

    @on_device
    def tile(self, width: int, *, memory: int = 0, curvature: bool = False) -> MlxTile:
        """Return arrays for ``width`` columns; see `MlxTile`."""
        return MlxTile(self, width, memory=memory, curvature=curvature)


class Given(NamedTuple):
    """Columns of a tile as they came, on the host: x (Z, n), data (B, n), aux (A, n), fixed (Z, n)."""

    x: Array
    data: Array
    aux: Array
    fixed: AnyArray

    def columns(self, columns: IntArray) -> Given:
        """Return these columns."""
        return Given(*(array[:, columns] for array in self))

    def followed_by(self, new: Given, at: int) -> Given:
        """Return the first ``at`` columns and ``new`` behind them."""
        return Given(*(np.concatenate([old[:, :at], more], axis=1) for old, more in zip(self, new, strict=True)))


class MlxTile:
    """Up to ``width`` columns, of which the first ``n`` are active; see `nsmath.backends.ops.Tile`.

    Arrays are (parameters, m), m the rung of the ladder that holds n; columns beyond n repeat the last one.
    """

    looks_every = 1

    def __init__(self, model: MlxModel, width: int, *, memory: int, curvature: bool) -> None:
        t = model.tensors
        self.model, self.width, self.memory, self.has_curvature = model, width, memory, curvature
        self.device, self.n, self.poi = model.device, 0, -1
        self._rung = -(-width // LADDER_STEPS)
        dtype = self.dtype = model.door.float_type

        def zeros(*shape: int) -> MxArray:
            return mx.zeros(shape, dtype=dtype)

        self.x, self.gradient, self.trial, self.trial_gradient = (zeros(t.n_minimised, width) for _ in range(4))
        self.data, self.aux, self.gammas, self.rate = (
            zeros(rows, width) for rows in (t.n_bins, t.n_aux, t.n_gammas, t.n_bins)
        )
        self.fixed = mx.zeros((t.n_minimised, width), dtype=mx.bool_)
        self.nll, self.trial_nll, self.decrement, self.scaled = (zeros(width) for _ in range(4))
        self.step, self.damping, self.predicted = (zeros(width) for _ in range(3))
        self.matrix = zeros(t.n_minimised, t.n_minimised)
        self.hessian, self.prior = zeros(1, t.n_minimised, t.n_minimised), zeros(1, t.n_minimised)
        self._given = Given(*(np.zeros((rows, 0)) for rows in (t.n_minimised, t.n_bins, t.n_aux, t.n_minimised)))

    def free(self) -> None:
        """Nothing to release: MLX frees arrays that nobody holds."""

    # -- one evaluation ------------------------------------------------------------------------------------

    @on_device
    def evaluate(self, z: MxArray, nll: MxArray, gradient: MxArray, *, profile: bool = True) -> None:
        """Set ``nll``, ``gradient`` and the tile's gammas and rates at ``z``; without ``profile``, gammas stay."""
        likelihood = self.model.likelihood
        found = likelihood(z, self.data, self.aux) if profile else likelihood.held(z, self.data, self.aux, self.gammas)
        nll[:], gradient[:] = found.nll, found.gradient
        self.gammas, self.rate = found.gammas, found.rate

    def _evaluated(self, z: MxArray) -> Evaluated:
        found = self.model.likelihood(z, self.data, self.aux)
        self.gammas, self.rate = found.gammas, found.rate
        return found

    # -- columns in and out --------------------------------------------------------------------------------

    @on_device
    def load(self, x: Array, data: Array, aux: Array, fixed: BoolArray, at: int = 0) -> None:
        """Put columns ``x`` (Z, n), ``data`` (B, n), ``aux`` (A, n) at position ``at``; ``fixed`` (Z,) or (Z, n)."""
        door = self.model.door
        fixed = np.broadcast_to(fixed if fixed.ndim == 2 else fixed[:, None], x.shape)
        self._given = self._given.followed_by(Given(x, data, aux, fixed), at)
        self.n = at + x.shape[1]
        new = {
            "x": door.columns(x, "where fits start"), "fixed": door.mask(fixed),
            "data": door.columns(data, "toys made on the host, or data", event_data=True),
            "aux": door.columns(aux, "toys made on the host, or data", event_data=True),
        }  # fmt: skip
        for name, array in new.items():
            setattr(self, name, self._padded(mx.concatenate([getattr(self, name)[:, :at], array], axis=1)))

    def _padded(self, array: MxArray) -> MxArray:
        """Return (..., n) padded to its rung with copies of the last column."""
        n = array.shape[-1]
        m = min(-(-n // self._rung) * self._rung, self.width)
        if m == n:
            return array
        filling = mx.broadcast_to(array[..., n - 1 :], (*array.shape[:-1], m - n))
        return mx.concatenate([array, filling], axis=-1)

    @on_device
    def start(self, at: int = 0) -> None:
        """Evaluate the loaded columns at their start and forget all memory."""
        m, t = self.x.shape[1], self.model.tensors
        found = self._evaluated(self.x)
        self.nll, self.gradient = found.nll, found.gradient
        self.trial, self.trial_nll, self.trial_gradient = self.x, mx.array(self.nll), mx.array(self.gradient)
        self.decrement, self.scaled, self.predicted = (mx.zeros((m,), dtype=self.dtype) for _ in range(3))
        if self.memory:
            self.step = mx.ones((m,), dtype=self.dtype)
            self.pairs = Pairs.empty(self.memory, t.n_minimised, m, mx, self.dtype)
        else:
            fresh = mx.zeros((self.n - at,), dtype=self.dtype)
            self.damping = self._padded(mx.concatenate([self.damping[:at], fresh]))

    @on_device
    def keep(self, columns: IntArray) -> None:
        """Drop all columns but these (ascending)."""
        self.n = len(columns)
        if not self.n:
            return
        self._given = self._given.columns(columns)
        rung = self._padded(self.model.door.places(columns))
        for name in ("x", "data", "aux", "fixed", "gammas", "rate", "gradient", "trial"):
            setattr(self, name, mx.take(getattr(self, name), rung, axis=1))
        for name in ("nll", "decrement", "scaled", *(("step",) if self.memory else ("damping", "predicted"))):
            setattr(self, name, mx.take(getattr(self, name), rung, axis=0))
        if self.memory:
            self.pairs = Pairs(*(mx.take(array, rung, axis=-1) for array in self.pairs))
        else:
            self.hessian, self.prior = (mx.take(array, rung, axis=0) for array in (self.hessian, self.prior))

    @on_device
    def set_matrix(self, matrix: Array) -> None:
        """Take ``matrix`` (Z, Z) as the common inverse information."""
        self.matrix = self.model.door.columns(matrix, "the common inverse information")

    # -- what has come out ---------------------------------------------------------------------------------

    def wait(self) -> None:
        """Compute everything that was asked for."""
        mx.eval(self.x, self.nll, self.gradient, self.trial_nll, self.trial_gradient, self.hessian, self.damping)

    @on_device
    def to_host(self, array: MxArray) -> Array:
        """Return an array of this tile as float64 NumPy."""
        return self.model.door.host(array, "to_host", "asked for by name")

    def results(self, columns: IntArray) -> tuple[Array, Array, Array]:
        """Return x (Z, k), nll (k,) and gammas (G, k) of these columns.

        What float32 has found is evaluated once more in float64, so that q is no difference of rounded numbers. Fixed
        parameters come back as they went in, and what is on a bound exactly on it.
        """
        if self.model.dtype == "float64":
            x, nll, gammas = (self.to_host(array) for array in (self.x, self.nll, self.gammas))
            return x[:, columns], nll[columns], gammas[:, columns]
        t, given = self.model.tensors, self._given.columns(columns)
        x = _on_bounds(self.to_host(self.x)[:, columns], t.lower[t.parameter], t.upper[t.parameter])
        x = np.where(given.fixed, given.x, x)
        return (x, *self.model.exact.values(x, given.data, given.aux))

    @on_device
    def ended_cheap(self, tolerances: tuple[float, float]) -> tuple[BoolArray, BoolArray]:
        """Return which columns are converged, and which are lost; see `nsmath.backends.ops.cheap_ended`."""
        done, outside = ended(self.nll, self.decrement, self.scaled, tolerances, self.model.precision)
        return self._flags(done, cheap_lost(done, outside, self.step))

    @on_device
    def ended_robust(self, tolerances: tuple[float, float]) -> tuple[BoolArray, BoolArray]:
        """Return which columns are converged, and which cannot get any further; see `robust_ended` there."""
        done, outside = ended(self.nll, self.decrement, self.scaled, tolerances, self.model.precision)
        done = done | (is_flat(self.scaled, self.damping, self.model.precision) & ~outside)
        return self._flags(done, robust_lost(done, outside, self.damping))

    def _flags(self, done: MxArray, lost: MxArray) -> tuple[BoolArray, BoolArray]:
        flags = self.model.door.flags(mx.stack([done, lost]), "ended")[:, : self.n]
        return flags[0], flags[1]

    # -- cheap tier ----------------------------------------------------------------------------------------

    @on_device
    def descend(self) -> None:
        """Set ``trial``, ``decrement`` and ``scaled`` from the quasi-Newton recursion."""
        if not self.model.tensors.n_minimised:
            return
        poi = [(mx.arange(self.x.shape[0]) == self.poi).astype(self.dtype)] if self.poi >= 0 else []
        self.trial, self.decrement, self.scaled, rho = self.model.quasi_newton(
            self.x, self.gradient, self.fixed, self.step, *self.pairs, self.matrix, *poi
        )
        self.pairs = self.pairs._replace(rho=rho)

    @on_device
    def accept(self) -> None:
        """Evaluate the trials and take those that decrease the NLL enough."""
        found = self._evaluated(self.trial)
        self.x, self.nll, self.gradient, self.step, *pairs = self.model.armijo(
            self.x, self.nll, self.gradient, self.trial, found.nll, found.gradient, self.step, *self.pairs
        )
        self.pairs = Pairs(*pairs)
        mx.async_eval(self.x, self.nll, self.gradient, self.step, *pairs)

    # -- robust tier ---------------------------------------------------------------------------------------

    @on_device
    def curvature(self) -> None:
        """Set ``hessian`` and ``prior`` at ``x``."""
        if self.model.tensors.n_minimised:
            self.hessian, self.prior = self.model.curvature(self.x, self.data, self.aux)

    @on_device
    def newton_descend(self) -> None:
        """Set ``trial``, ``predicted``, ``damping``, ``decrement`` and ``scaled`` from damped Newton steps."""
        if not self.model.tensors.n_minimised:
            return
        at = Point(self.x, self.nll, self.gradient)
        with mx.stream(mx.cpu):
            self.trial, self.damping, self.predicted, self.decrement, self.scaled = newton(
                at, self.hessian, self.prior, self.fixed, self.damping, self.model.bounds, CpuSolver(self.model.door)
            )

    @on_device
    def newton_accept(self) -> None:
        """Evaluate the trials, take those that gain enough, set the damping."""
        found = self._evaluated(self.trial)
        self.x, self.nll, self.gradient, self.damping = self.model.gain_ratio(
            self.x, self.nll, self.gradient, self.trial, found.nll, found.gradient, self.predicted, self.damping
        )
        mx.async_eval(self.x, self.nll, self.gradient, self.damping)


def _on_bounds(x: Array, lower: Array, upper: Array) -> Array:
    """Return ``x`` (K, n) with values that equal a bound in float32 put exactly on it."""
    for bound in (lower[:, None], upper[:, None]):
        x = np.where(x == bound.astype(np.float32), bound, x)
    return x
