"""The door between NumPy and MLX: how MLX is loaded, and every copy from or to it, on record.

Memory of an Apple GPU is the host's, so nothing crosses a bus; but ``mx.array`` and ``np.array`` do copy, and the
ledger counts what they copy.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from nsmath._typing import AnyArray, Array, IntArray
from nsmath.backends.array_door import register
from nsmath.backends.transfers import TO_DEVICE, TO_HOST, Ledger
from nsmath.errors import BackendError

TF32_VARIABLE = "MLX_ENABLE_TF32"
# MLX multiplies float32 matrices with ten bits of mantissa on GPUs from the M5 on, unless told not to before it loads.
os.environ.setdefault(TF32_VARIABLE, "0")

try:
    import mlx.core as core
except ImportError as error:
    raise BackendError(
        "backend 'mlx' needs MLX, which is not installed here. pip install 'nsmath[mlx]' on a Mac with Apple silicon; "
        "on Linux, where it only serves tests, pip install 'mlx[cpu]'."
    ) from error

mx: Any = core
MxArray: TypeAlias = Any
"""An ``mlx.core.array``; MLX's own stubs are not there where MLX is not."""
MxDevice: TypeAlias = Any

TF32_ERROR = 1e-5
"""Relative error of a float32 matmul above this shows that its operands were cut to ten bits (5e-4)."""


class MlxNamespace:
    """MLX's functions, with an exponential that is accurate in float64: MLX's own is a float32 kernel (error 5e-7)."""

    def __getattr__(self, name: str) -> Any:
        return getattr(mx, name)

    def exp(self, x: MxArray) -> MxArray:
        """Return e^x; ``power`` is accurate in float64."""
        return mx.power(mx.array(math.e, dtype=mx.float64), x) if x.dtype == mx.float64 else mx.exp(x)


NAMESPACE = MlxNamespace()
register(core.array, NAMESPACE)


def has_metal() -> bool:
    """Return whether MLX finds a Metal device."""
    return bool(mx.metal.is_available())


def device_of(dtype: str) -> MxDevice:
    """Return where MLX computes in ``dtype``: float32 on Metal if there is one; float64 on the CPU, Metal has none."""
    return mx.gpu if dtype == "float32" and has_metal() else mx.cpu


def check_matmul(device: MxDevice) -> None:
    """Check that float32 matmuls of ``device`` use all 24 bits of their operands.

    Raises
    ------
    BackendError
        They do not: MLX was loaded, with its default, before nsmath.
    """
    values = 1.0 + np.arange(64 * 64, dtype=np.float32).reshape(64, 64) * np.float32(2.0**-23)
    with mx.stream(device):
        product = np.array(mx.array(values) @ mx.array(values))
    exact = values.astype(np.float64) @ values.astype(np.float64)
    if np.abs(product / exact - 1.0).max() > TF32_ERROR:
        raise BackendError(
            f"MLX multiplies float32 matrices in reduced precision (TF32) here. Set {TF32_VARIABLE}=0 before MLX is "
            "loaded, or import nsmath.backends.mlx first."
        )


@dataclass(frozen=True, slots=True)
class Door:
    """Copies arrays of one model between NumPy and MLX.

    Attributes
    ----------
    ledger : takes every copy. dtype : of floating-point arrays in MLX, by name.
    """

    ledger: Ledger
    dtype: str

    @property
    def xp(self) -> MlxNamespace:
        """MLX's functions."""
        return NAMESPACE

    @property
    def float_type(self) -> Any:
        """The MLX type of floating-point arrays."""
        return getattr(mx, self.dtype)

    def add_matmul(self, c: MxArray, a: MxArray, b: MxArray) -> MxArray:
        """Return ``c + a @ b``."""
        return mx.addmm(c, a, b)

    def is_any(self, flags: MxArray) -> bool:
        """Return on the host whether any flag is set."""
        return bool(self._from_mlx(mx.any(flags), "look", "whether an iteration goes on").item())

    def constant(self, array: Array) -> MxArray:
        """Return a table of the model in the working precision."""
        return self._to_mlx(array, self.float_type, "tables", "constants of the model")

    def index(self, array: IntArray) -> MxArray:
        """Return an index table, as 32-bit integers."""
        return self._to_mlx(np.ascontiguousarray(array, dtype=np.int32), mx.int32, "tables", "constants of the model")

    def flag_table(self, array: AnyArray) -> MxArray:
        """Return a boolean table of the model."""
        return self._to_mlx(np.ascontiguousarray(array, dtype=bool), mx.bool_, "tables", "constants of the model")

    def columns(self, array: AnyArray, reason: str, *, event_data: bool = False) -> MxArray:
        """Return columns of a tile in the working precision."""
        return self._to_mlx(array, self.float_type, "load", reason, event_data)

    def mask(self, array: AnyArray) -> MxArray:
        """Return a boolean mask of a tile."""
        return self._to_mlx(np.ascontiguousarray(array, dtype=bool), mx.bool_, "load", "fixed parameters")

    def places(self, array: IntArray) -> MxArray:
        """Return the positions of columns that stay."""
        return self._to_mlx(np.ascontiguousarray(array, dtype=np.int32), mx.int32, "keep", "columns that stay")

    def _to_mlx(self, array: AnyArray, dtype: Any, operation: str, reason: str, event_data: bool = False) -> MxArray:
        self.ledger.record(
            TO_DEVICE, array.size * dtype.size, operation=operation, reason=reason, event_data=event_data
        )  # fmt: skip
        # A dtype must be named: without one, float64 arrays become float32.
        return mx.array(np.ascontiguousarray(array), dtype=dtype)

    def host(self, array: MxArray, operation: str, reason: str) -> Array:
        """Return values as a float64 NumPy array."""
        return np.array(self._from_mlx(array, operation, reason), dtype=np.float64)

    def flags(self, array: MxArray, operation: str) -> AnyArray:
        """Return a boolean array as NumPy."""
        return np.array(self._from_mlx(array, operation, "which columns have ended"))

    def _from_mlx(self, array: MxArray, operation: str, reason: str) -> MxArray:
        self.ledger.record(TO_HOST, array.nbytes, operation=operation, reason=reason)
        return array


@dataclass(frozen=True, slots=True)
class CpuSolver:
    """Batched linear algebra on MLX's CPU device, the only one that has it; the memory is the same."""

    door: Door

    def cholesky(self, matrix: MxArray) -> MxArray:
        """Return lower triangular factors (m, Z, Z)."""
        return mx.linalg.cholesky(matrix, stream=mx.cpu)

    def solved(self, matrix: MxArray, factor: MxArray, right: MxArray) -> MxArray:
        """Return the solutions (m, Z) for right sides (m, Z), from the factors."""
        half = mx.linalg.solve_triangular(factor, right[:, :, None], upper=False, stream=mx.cpu)
        return mx.linalg.solve_triangular(mx.swapaxes(factor, 1, 2), half, upper=True, stream=mx.cpu)[:, :, 0]

    def is_any(self, flags: MxArray) -> bool:
        """Return on the host whether any flag is set."""
        return self.door.is_any(flags)
