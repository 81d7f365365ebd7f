"""``nsmath info``."""

from __future__ import annotations

import json
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

from nsmath import __version__
from nsmath.errors import BackendError

PACKAGES = ("numpy", "numba", "llvmlite", "nvmath-python", "mkl", "nvpl-blas", "mlx", "click", "rich", "pyyaml",
            "jsonpatch")  # fmt: skip


@click.command("info")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def info_command(as_json: bool) -> None:
    """Print versions, the BLAS that nvmath found, threads, devices and cache folders."""
    facts = collected()
    if as_json:
        click.echo(json.dumps(facts, indent=2))
        return
    for name, value in facts.items():
        if isinstance(value, dict):
            click.echo(f"{name}:")
            for key, item in value.items():
                click.echo(f"  {key:14} {item if item is not None else 'not installed'}")
        else:
            click.echo(f"{name:14} {value}")


def collected() -> dict[str, Any]:
    """Return what this machine and installation have."""
    from nsmath.backends.devices import DEVICES, Device, missing
    from nsmath.backends.jit import kernel_cache_folder
    from nsmath.backends.matmul import matmul_library
    from nsmath.backends.ops import BACKENDS
    from nsmath.paths import cache_folder
    from nsmath.plan.tuned import available_cores, machine_name

    def installed(package: str) -> str | None:
        try:
            return version(package)
        except PackageNotFoundError:
            return None

    def found(device: Device) -> str:
        return device.missing() or f"ready: {' or '.join(device.dtypes)}"

    try:
        blas = matmul_library().name
    except (BackendError, ImportError) as error:
        blas = f"none: {error}"
    kernels = kernel_cache_folder()
    return {
        "nsmath": __version__,
        "python": f"{platform.python_version()} ({sys.executable})",
        "system": platform.platform(),
        "packages": {name: installed(name) for name in PACKAGES},
        "blas": blas,
        "processor": machine_name(),
        "threads": available_cores(),
        "devices": {"cpu": "float64", **{name: found(device) for name, device in DEVICES.items()}},
        "backends": {name: missing(name) or "ready" for name in BACKENDS},
        "caches": {
            "folder": str(cache_folder()),
            "kernels": f"{kernels}{'' if kernels.is_dir() else ' (compiled at first use)'}",
            "plans": str(cache_folder() / "plans"),
        },
    }
