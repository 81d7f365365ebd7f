"""Planned matmuls on the CPU: stateful nvmath objects over MKL or NVPL, or NumPy where nvmath has no library.

One interface, `PlannedMatmul`: made for fixed operands and shapes, executed thousands of times, freed.
"""

from __future__ import annotations

import logging
import platform
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from nsmath._typing import Array
from nsmath.errors import BackendError

logger = logging.getLogger("nsmath.matmul")
# nvmath logs every execution at INFO and times it, which costs more than a small product; ask for it by name.
nvmath_logger = logging.getLogger("nsmath.nvmath")
if nvmath_logger.level == logging.NOTSET:
    nvmath_logger.setLevel(logging.WARNING)


class PlannedMatmul(Protocol):
    """``out = a @ b``, or ``out += a @ b``, batched over leading axes, with the operands' memory fixed at planning.

    Change values in place, then execute.
    """

    def execute(self) -> None:
        """Compute the product into ``out``."""

    def free(self) -> None:
        """Release what the plan holds; it cannot be executed afterwards."""


class NvmathMatmul:
    """A stateful `nvmath.linalg.Matmul` with CPU execution, one thread, writing into ``out``.

    One thread, because nsmath runs one tile of columns on each of its own threads: then the threads never
    wait for each other, and a result does not depend on how many there are.
    """

    def __init__(self, a: Array, b: Array, out: Array, *, accumulate: bool = False) -> None:
        from nvmath.linalg import ExecutionCPU, Matmul, MatmulOptions

        _check_operands(a, b, out)
        # nvmath holds references, so later executions see what was written into a and b meanwhile.
        self._matmul = Matmul(
            a,
            b,
            out,
            beta=1.0 if accumulate else 0.0,
            options=MatmulOptions(inplace=True, logger=nvmath_logger),
            execution=ExecutionCPU(num_threads=1),
        )
        self._matmul.plan()
        self.execute = self._matmul.execute_unchecked

    def free(self) -> None:
        """Release the nvmath object."""
        self._matmul.free()


class NumpyMatmul:
    """The same on `numpy.matmul`: Accelerate on macOS."""

    def __init__(self, a: Array, b: Array, out: Array, *, accumulate: bool = False) -> None:
        _check_operands(a, b, out)
        self._operands, self._accumulate = (a, b, out), accumulate

    def execute(self) -> None:
        """Compute the product into ``out``."""
        a, b, out = self._operands
        if self._accumulate:
            out += np.matmul(a, b)
        else:
            np.matmul(a, b, out=out)

    def free(self) -> None:
        """Forget the operands."""
        del self._operands


class EmptyMatmul:
    """A product without elements, or over none, which no library takes: a model may leave nothing to minimise."""

    def __init__(self, out: Array, *, accumulate: bool) -> None:
        self._out, self._accumulate = out, accumulate

    def execute(self) -> None:
        """Set ``out`` to the empty sum."""
        if not self._accumulate:
            self._out[...] = 0.0

    def free(self) -> None:
        """Forget the operand."""
        del self._out


def _check_operands(a: Array, b: Array, out: Array) -> None:
    """nvmath's unchecked calls and MKL take wrong strides without a word; so look once, here."""
    shapes_fit = a.shape[:-2] == b.shape[:-2] and a.shape[-1] == b.shape[-2]
    shapes_fit = shapes_fit and out.shape == (*a.shape[:-1], b.shape[-1])
    layouts_fit = all(
        x.dtype == np.float64 and x.strides[-1] == x.itemsize and x.strides[-2] >= x.shape[-1] * x.itemsize
        for x in (b, out)
    )
    # A batch must lie matrix after matrix: MKL writes nothing for other strides, and nvmath does not notice.
    layouts_fit = layouts_fit and (out.ndim == 2 or out.flags.c_contiguous)
    if not (shapes_fit and layouts_fit and a.dtype == np.float64):
        raise BackendError(
            f"matmul operands do not fit: a {a.shape} {a.strides}, b {b.shape} {b.strides}, "
            f"out {out.shape} {out.strides}; expected float64, C order, (M, K) (K, N) (M, N)."
        )


@dataclass(frozen=True, slots=True)
class MatmulLibrary:
    """Which matmul a machine has: ``name`` for people, ``version``, and the class that plans."""

    name: str
    version: str
    planner: type[NvmathMatmul] | type[NumpyMatmul]

    def planned(self, a: Array, b: Array, out: Array, *, accumulate: bool = False) -> PlannedMatmul:
        """Return the planned product of these operands."""
        if a.size == 0 or b.size == 0:
            return EmptyMatmul(out, accumulate=accumulate)
        return self.planner(a, b, out, accumulate=accumulate)


def matmul_library() -> MatmulLibrary:
    """Return the matmul library of this machine; says at INFO when it is not nvmath.

    Raises
    ------
    BackendError
        nvmath is installed but finds no BLAS for the CPU.
    """
    if platform.system() == "Darwin":
        logger.info("nvmath has no CPU library for macOS: matmuls run on NumPy (Accelerate).")
        return MatmulLibrary("NumPy", np.__version__, NumpyMatmul)
    import nvmath

    a = np.ones((2, 2))
    try:
        probe = NvmathMatmul(a, a, np.empty((2, 2)))
        probe.execute()
        probe.free()
    except Exception as error:
        raise BackendError(
            f"nvmath-python {nvmath.__version__} finds no BLAS for the CPU ({type(error).__name__}: {error}). "
            "Install it with its library: pip install 'nvmath-python[cpu]'; or name one in NVMATH_BLAS_CPU_LIBRARY."
        ) from error
    return MatmulLibrary(_blas_name(), nvmath.__version__, NvmathMatmul)


def _blas_name() -> str:
    """Return the BLAS that nvmath found, by what the process has loaded."""
    import sys

    if sys.platform == "linux":
        with open("/proc/self/maps") as maps:
            loaded = maps.read()
        for marker, name in (("libmkl_rt", "MKL"), ("libnvpl_blas", "NVPL"), ("libopenblas_", "OpenBLAS")):
            if marker in loaded:
                return f"nvmath over {name}"
    return "nvmath over MKL" if platform.machine().lower() in ("amd64", "x86_64") else "nvmath over NVPL"
