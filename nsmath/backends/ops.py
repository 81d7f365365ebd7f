"""The table of domain operations that a backend implements, and the table of backends."""

from __future__ import annotations

from typing import Any, Protocol

from nsmath._typing import Array, BoolArray, IntArray
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


class Tile(Protocol):
    """Buffers for up to ``width`` columns, of which the first ``n`` are active, and the operations on them.

    Arrays are (parameters, columns). An array may live on a device; ``nll``, ``step``, ``decrement``, ``scaled``
    and ``damping`` are what the minimiser looks at after every iteration.
    """

    width: int
    n: int
    poi: int
    matrix: Array
    x: Array
    trial_nll: Array
    trial_gradient: Array
    nll: Array
    gradient: Array
    gammas: Array
    rate: Array
    step: Array
    damping: Array
    decrement: Array
    scaled: Array
    hessian: Array

    def load(self, x: Array, data: Array, aux: Array, fixed: BoolArray, at: int = 0) -> None:
        """Put columns into the tile (transfer)."""

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

    def free(self) -> None:
        """Release plans and buffers."""


class BackendModel(Protocol):
    """One model on one backend: makes tiles. ``description`` names the libraries that compute."""

    name: str
    description: str

    def sample_poisson(
        self, out: Array, tables: SamplingTables, toys: IntArray, *, seed: int, hypothesis: int, first_draw: int
    ) -> None:
        """Fill ``out`` (rows, N) with the counts of these toys, one row for each rate of ``tables``."""

    def sample_normal(
        self, out: Array, mean: Array, sigma: Array, toys: IntArray, *, seed: int, hypothesis: int, first_draw: int
    ) -> None:
        """Fill ``out`` (rows, N) with normal variates of these toys."""

    def tile(self, width: int, *, memory: int = 0, curvature: bool = False) -> Any:
        """Return a `Tile`."""


BACKENDS: dict[str, tuple[str, str]] = {
    "cpu": ("nsmath.backends.cpu", "CpuModel"),
    "reference": ("nsmath.backends.reference", "ReferenceModel"),
}
"""Backend name -> module and class, imported on use: an absent library costs nothing until it is asked for."""
