"""Which devices are here, and what a backend that cannot run is missing.

One table, `DEVICES`: what ``--gpu`` offers, the backend behind it, and a probe that returns why it cannot be used.
Probes look and touch nothing: no context is made, no memory taken.
"""

from __future__ import annotations

import ctypes
import importlib.util
import platform
from collections.abc import Callable
from dataclasses import dataclass

from nsmath.backends.ops import BACKENDS
from nsmath.errors import BackendError, OptionError

CUDA_LIBRARIES = {"Linux": "libcuda.so.1", "Windows": "nvcuda.dll"}
"""The driver's own library, by system; it comes with the driver and with nothing else."""
OLDEST_CUDA = 12000
CUDA_PACKAGES = {"nvmath": "nvmath-python", "cupy": "cupy", "numba_cuda": "numba-cuda"}
"""Modules that the CUDA backend imports, and the packages that bring them."""


@dataclass(frozen=True, slots=True)
class Device:
    """A row of `DEVICES`.

    Attributes
    ----------
    name : what ``--gpu`` calls it. backend : a row of `BACKENDS`. dtypes : what it computes in, its default first.
    missing : returns why it cannot be used here, and what to do; None if it can.
    """

    name: str
    backend: str
    dtypes: tuple[str, ...]
    missing: Callable[[], str | None]


def is_installed(module: str) -> bool:
    """Return whether a top-level module can be imported, without importing it."""
    return importlib.util.find_spec(module) is not None


def cuda_driver_version() -> int:
    """Return the CUDA version that the driver supports, such as 13000; 0 without driver or device."""
    name = CUDA_LIBRARIES.get(platform.system())
    if name is None:
        return 0
    try:
        driver = ctypes.CDLL(name)
    except OSError:
        return 0
    version, count = ctypes.c_int(0), ctypes.c_int(0)
    if driver.cuInit(0) or driver.cuDriverGetVersion(ctypes.byref(version)) or driver.cuDeviceGetCount(
        ctypes.byref(count)
    ):  # fmt: skip
        return 0
    return version.value if count.value else 0


def cuda_missing() -> str | None:
    """Return why CUDA cannot be used here."""
    version = cuda_driver_version()
    if not version:
        library = CUDA_LIBRARIES.get(platform.system())
        if library is None:
            return f"there is no CUDA for {platform.system()}"
        return f"no CUDA device: the driver's library {library} is missing, or it finds no GPU. Install NVIDIA's driver"
    if version < OLDEST_CUDA:
        return f"the driver supports CUDA {version // 1000}, expected {OLDEST_CUDA // 1000} or later. Update it"
    extra = "cuda12" if version < 13000 else "cuda13"
    absent = [package for module, package in CUDA_PACKAGES.items() if not is_installed(module)]
    if absent:
        return f"{', '.join(absent)} not installed: pip install 'nsmath[{extra}]', which suits the driver here"
    if "cuda" not in BACKENDS:
        return "this version of nsmath has no CUDA backend"
    return None


def mlx_missing() -> str | None:
    """Return why MLX cannot be used here, be it on the CPU."""
    if is_installed("mlx"):
        return None
    return "MLX is not installed: pip install 'nsmath[mlx]' (on Linux, for tests on the CPU: pip install 'mlx[cpu]')"


def metal_missing() -> str | None:
    """Return why Metal cannot be used here."""
    if platform.system() != "Darwin":
        return f"no Metal device: Metal is part of macOS, and this is {platform.system()}"
    if (missing := mlx_missing()) is not None:
        return missing
    from nsmath.backends.mlx_arrays import has_metal

    return None if has_metal() else "no Metal device: MLX finds none on this Mac"


DEVICES = {
    device.name: device
    for device in (
        Device("cuda", "cuda", ("float64", "float32"), cuda_missing),
        # Metal has no float64.
        Device("metal", "mlx", ("float32",), metal_missing),
    )
}
BACKENDS_MISSING: dict[str, Callable[[], str | None]] = {"cuda": cuda_missing, "mlx": mlx_missing}
"""What backends need beyond nsmath's own dependencies."""


def missing(backend: str) -> str | None:
    """Return why a backend cannot be used here; None if it can."""
    probe = BACKENDS_MISSING.get(backend)
    return None if probe is None else probe()


def required_device(name: str) -> Device:
    """Return the device that ``--gpu`` names.

    Raises
    ------
    OptionError
        No such name.
    BackendError
        It is not here; the message says what is missing. Nothing else is used in its place.
    """
    if name not in DEVICES:
        raise OptionError(f"gpu is {name!r}; expected one of none, {', '.join(DEVICES)}, auto.")
    device = DEVICES[name]
    reason = device.missing()
    if reason is not None:
        raise BackendError(f"gpu '{name}' cannot be used: {reason}.")
    return device
