"""Inverses of symmetric matrices with one BLAS thread.

NumPy's BLAS starts a thread for every core, and its threads spin: beside our own threads (or any other load) an inverse
then takes thirty times as long as it should.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from nsmath._typing import Array

_only_one = threading.Lock()


@cache
def _libraries() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold NumPy's BLAS to one thread; one caller at a time, since the setting belongs to the process."""
    with _only_one, _libraries().limit(limits=1, user_api="blas"):
        yield


def inverse(matrix: Array) -> Array:
    """Return the inverse; raises `numpy.linalg.LinAlgError` for a singular matrix."""
    with one_blas_thread():
        result: Array = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
    return result


def positive_definite_inverse(matrix: Array) -> Array:
    """Return the inverse; raises `numpy.linalg.LinAlgError` where the matrix is not positive definite."""
    with one_blas_thread():
        np.linalg.cholesky(matrix)
        result: Array = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
    return result
