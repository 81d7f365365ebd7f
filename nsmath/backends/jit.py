"""numba's `njit` with this package's settings, and a kernel cache that a changed source cannot poison.

numba keys a cached kernel by the file it stands in and misses changes in the files it calls into. So the cache
folder carries a hash of all kernel sources and of the versions involved: another source is another folder.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np

from nsmath.paths import cache_folder

_KERNEL_FOLDERS = ("backends", "formulas")

Function = TypeVar("Function", bound=Callable[..., Any])


def source_hash() -> str:
    """Return 16 hex digits over every source that kernels are made of, and the versions that compile them."""
    root = Path(__file__).resolve().parent.parent
    sha = hashlib.sha256(f"{numba.__version__} {np.__version__} {platform.python_version()}".encode())
    for folder in _KERNEL_FOLDERS:
        for path in sorted((root / folder).glob("*.py")):
            sha.update(path.name.encode() + path.read_bytes())
    return sha.hexdigest()[:16]


@cache
def kernel_cache_folder() -> Path:
    """Return the folder that holds the compiled kernels of exactly these sources; fixed for the life of a process."""
    return cache_folder() / "kernels" / source_hash()


def is_compiled() -> bool:
    """Return whether the cache holds kernels of exactly these sources.

    The folder itself says nothing: numba makes it when kernels are declared.
    """
    return any(kernel_cache_folder().rglob("*.nbi"))


_CACHE = kernel_cache_folder()


def _compiled(function: Function, **options: Any) -> Function:
    config: Any = numba.config
    before = config.CACHE_DIR
    config.CACHE_DIR = str(_CACHE)
    try:
        compiled: Function = numba.njit(nogil=True, error_model="numpy", **options)(function)
    finally:
        # The user's own numba functions keep their cache where it was.
        config.CACHE_DIR = before
    return compiled


def kernel(function: Function) -> Function:
    """Compile ``function`` on first use: no GIL, cached on disk, C rules for division.

    Contraction to fused multiply-adds is the only liberty the compiler gets: NaN and infinity carry the domain
    checks, and sums keep their order, so a column's result does not depend on its neighbours.
    """
    return _compiled(function, cache=True, no_cfunc_wrapper=True, fastmath={"contract"})


def inner(function: Function) -> Function:
    """Compile ``function`` for the kernels that call it: no way in from Python and no cache entry of its own."""
    return _compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, fastmath={"contract"})


def inlined(function: Function) -> Function:
    """Compile ``function`` into the kernels that call it.

    A kernel's tables are one tuple of some thirty arrays; a real call would copy all of their descriptors.
    """
    return _compiled(function, forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, fastmath={"contract"})


def exact_kernel(function: Function) -> Function:
    """Compile like `kernel`, but without contraction: for toys, whose bits must not depend on the machine."""
    return _compiled(function, cache=True, no_cfunc_wrapper=True)


def exact_inlined(function: Function) -> Function:
    """Compile like `inlined`, but without contraction."""
    return _compiled(function, forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
