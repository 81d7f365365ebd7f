"""The table of domain operations that a backend implements, and the table of backends."""

from __future__ import annotations

from typing import Any, Protocol

from nsmath._typing import Array, BoolArray, IntArray


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
    nll: Array
    gradient: Array
    gammas: Array
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
    """One model on one backend: makes tiles."""

    name: str

    def tile(self, width: int, *, memory: int = 0, curvature: bool = False) -> Any:
        """Return a `Tile`."""
