"""The table of domain operations that a backend implements, and the table of backends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from nsmath._typing import Array, BoolArray, IntArray
from nsmath.backends.transfers import Ledger
from nsmath.formulas.poisson_tables import SamplingTables

# The rules that every backend's two tiers follow; kernels that cannot import them hold copies, compared by a test.
ARMIJO = 1e-4
SHRINK = 0.35
"""Step length after a rejected quasi-Newton trial, relative to the one before."""
MIN_CURVATURE = 1e-14
"""A pair (s, y) with s'y below this carries no curvature, only rounding, and is not used."""
NLL_NOISE = 4e-14
"""Relative rounding of an NLL: trials that differ by less are equal."""
FLAT = 1e-8
"""Metric of a parameter that the likelihood does not depend on: keeps the damped matrix regular."""
FIRST_DAMPING = 1e-3
MAX_DAMPING = 1e12
NO_DAMPING = 1e-4
"""A damping below this is dropped altogether, so that the last steps converge quadratically."""
MIN_GAIN = 1e-4
"""A Newton trial is taken when it gains this share of what the model predicts."""
SHORT_STEP = 1e-3
"""A quasi-Newton step that had to be cut this often is the robust tier's business."""
HOPELESS_DAMPING = 1e10
"""Newton steps damped this much no longer move anything."""
FLAT_SCALED = 1e-7
"""Scaled gradient below which a column whose Hessian needs a little damping counts as converged all the same."""


@dataclass(frozen=True, slots=True)
class Precision:
    """What a floating-point type can tell from rounding.

    Attributes
    ----------
    nll_noise, min_curvature, flat_scaled : as `NLL_NOISE`, `MIN_CURVATURE` and `FLAT_SCALED`.
    decrement, scaled : least tolerances of convergence that can be asked for.
    """

    nll_noise: float
    min_curvature: float
    flat_scaled: float
    decrement: float
    scaled: float


PRECISIONS = {
    "float64": Precision(NLL_NOISE, MIN_CURVATURE, FLAT_SCALED, 0.0, 0.0),
    # An NLL of some hundreds is known to some 1e-5, a gradient to some 1e-5 of its parameter's uncertainty.
    "float32": Precision(2e-6, 1e-9, 5e-4, 1e-7, 1e-3),
}


def cheap_ended(
    nll: Array, step: Array, decrement: Array, scaled: Array, tolerances: tuple[float, float]
) -> tuple[BoolArray, BoolArray]:
    """Return which columns of the cheap tier are converged, and which are lost to it; all arrays (n,).

    tolerances : of the Newton decrement, and of the scaled gradient.
    """
    outside = ~np.isfinite(nll)
    done = (decrement < tolerances[0]) & (scaled < tolerances[1]) & ~outside
    return done, ~done & ((step < SHORT_STEP) | outside)


def robust_ended(
    nll: Array, damping: Array, decrement: Array, scaled: Array, tolerances: tuple[float, float]
) -> tuple[BoolArray, BoolArray]:
    """Return which columns of the robust tier are converged, and which cannot get any further; see `cheap_ended`."""
    outside = ~np.isfinite(nll)
    done = (decrement < tolerances[0]) & (scaled < tolerances[1])
    # A flat direction (parameters that only their product matters of) keeps the Hessian singular for ever.
    done |= (scaled < FLAT_SCALED) & (damping <= FIRST_DAMPING)
    done &= ~outside
    return done, ~done & (outside | (damping > HOPELESS_DAMPING))


class Tile(Protocol):
    """Buffers for up to ``width`` columns, of which the first ``n`` are active, and the operations on them.

    Arrays are (parameters, columns) and may live on a device: what others want of them they ask `to_host` for.
    The minimiser sees which columns have ended, looking after every ``looks_every`` iterations, and their results.
    """

    width: int
    n: int
    looks_every: int
    poi: int
    x: Array
    trial_nll: Array
    trial_gradient: Array
    nll: Array
    gradient: Array
    gammas: Array
    rate: Array
    hessian: Array

    def set_matrix(self, matrix: Array) -> None:
        """Take ``matrix`` (Z, Z) as the common inverse information of the cheap tier."""

    def load(self, x: Array, data: Any, aux: Any, fixed: BoolArray, at: int = 0) -> None:
        """Put columns into the tile (transfer), at position ``at``: ``x`` (Z, n), ``data`` (B, n), ``aux`` (A, n).

        ``fixed`` (Z,) or (Z, n); data and aux are host arrays or the backend's own columns.
        """

    def to_host(self, array: Any) -> Array:
        """Return an array of this tile, or a view of one, as a NumPy array (transfer); not always a copy."""

    def results(self, columns: IntArray) -> tuple[Array, Array, Array]:
        """Return x (Z, k), nll (k,) and gammas (G, k) of these columns on the host (transfer)."""

    def ended_cheap(self, tolerances: tuple[float, float]) -> tuple[BoolArray, BoolArray]:
        """Return (n,) which columns are converged and which are lost, on the host (transfer); see `cheap_ended`."""

    def ended_robust(self, tolerances: tuple[float, float]) -> tuple[BoolArray, BoolArray]:
        """Return the same for the robust tier; see `robust_ended`."""

    def start(self, at: int = 0) -> None:
        """Evaluate the loaded columns and forget all memory."""

    def keep(self, columns: IntArray) -> None:
        """Compact to these columns."""

    def evaluate(self, z: Array, nll: Array, gradient: Array, *, profile: bool = True) -> None:
        """Interpolate, shapes, poisson, pull_back, gather."""

    def descend(self) -> None:
        """Next quasi-Newton trial of every column (precondition inside)."""

    def accept(self) -> None:
        """Evaluate the trials, take the good ones."""

    def curvature(self) -> None:
        """Exact Hessians of the columns that moved."""

    def newton_descend(self) -> None:
        """Next damped Newton trial of every column."""

    def newton_accept(self) -> None:
        """Evaluate the trials, take the good ones, set the damping."""

    def wait(self) -> None:
        """Return when everything asked for is done: a device works behind the caller's back."""

    def free(self) -> None:
        """Release plans and buffers."""


class BackendModel(Protocol):
    """One model on one backend: makes tiles. ``description`` names the libraries that compute.

    ``dtypes`` are those that the backend offers, ``ledger`` has every copy between host and device. ``device_name`` is
    ``cpu`` or what ``--gpu`` calls the device; ``threads`` is how many may drive it, None for any number.
    """

    name: str
    device_name: str
    threads: int | None
    description: str
    dtypes: tuple[str, ...]
    dtype: str
    ledger: Ledger

    def empty_columns(self, n_rows: int, n: int) -> Any:
        """Return unset event data (n_rows, n), where toys are sampled: on the host, or on the device."""

    def put_rows(self, out: Any, rows: IntArray, values: Any) -> None:
        """Set these rows of event data to other event data (len(rows), n), or to host constants (len(rows), 1)."""

    def sample_poisson(
        self, out: Any, tables: SamplingTables, toys: IntArray, *, seed: int, hypothesis: int, first_draw: int
    ) -> None:
        """Fill ``out`` (rows, N) with the counts of these toys, one row for each rate of ``tables``."""

    def sample_normal(
        self, out: Any, mean: Array, sigma: Array, toys: IntArray, *, seed: int, hypothesis: int, first_draw: int
    ) -> None:
        """Fill ``out`` (rows, N) with normal variates of these toys."""

    def tile(self, width: int, *, memory: int = 0, curvature: bool = False) -> Any:
        """Return a `Tile`."""


BACKENDS: dict[str, tuple[str, str]] = {
    "cpu": ("nsmath.backends.cpu", "CpuModel"),
    "mlx": ("nsmath.backends.mlx", "MlxModel"),
    "reference": ("nsmath.backends.reference", "ReferenceModel"),
}
"""Backend name -> module and class, imported on use: an absent library costs nothing until it is asked for."""
