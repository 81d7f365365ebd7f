"""Event data as columns: NumPy arrays on the host, or a backend's own arrays where the data stay on its device.

The minimiser and the toys select columns and look for empty bins, and need to know no more. A backend's own columns
offer what `DeviceColumns` says; host arrays are handled here.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from nsmath._typing import Array, BoolArray, IntArray


class DeviceColumns(Protocol):
    """(rows, N) event data on a device."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    def __getitem__(self, key: tuple[slice, slice | IntArray]) -> DeviceColumns:
        """Return ``[:, slice]`` or ``[:, indices]``, on the device."""

    def with_pseudo_counts(self, pseudo: float) -> DeviceColumns:
        """Return the columns with ``pseudo`` in every empty bin, on the device."""

    def has_empty(self) -> BoolArray:
        """Return (N,), on the host, which columns have an empty bin."""


def with_pseudo_counts(data: Any, pseudo: float) -> Any:
    """Return ``data`` (B, N) with ``pseudo`` in every empty bin."""
    if isinstance(data, np.ndarray):
        return np.where(data > 0.0, data, pseudo)
    return data.with_pseudo_counts(pseudo)


def has_empty(data: Any) -> BoolArray:
    """Return (N,) which columns of ``data`` (B, N) have an empty bin."""
    if isinstance(data, np.ndarray):
        empty: BoolArray = np.any(data <= 0.0, axis=0)
        return empty
    found: BoolArray = data.has_empty()
    return found


def empty_columns(n_rows: int, n: int) -> Array:
    """Return unset event data on the host, (n_rows, n)."""
    return np.empty((n_rows, n))


def put_rows(out: Array, rows: IntArray, values: Array) -> None:
    """Set these rows of host event data: ``values`` (len(rows), n), or (len(rows), 1) for all columns."""
    out[rows] = values
