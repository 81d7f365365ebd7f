"""Probes of devices: what is missing is named, with its cure, and nothing else is used in its place."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from nsmath.backends import devices
from nsmath.backends.ops import BACKENDS
from nsmath.errors import BackendError, OptionError


@pytest.mark.parametrize("name", devices.DEVICES)
def test_a_device_is_usable_or_says_what_is_missing(name):
    device = devices.DEVICES[name]
    reason = device.missing()
    if reason is None:
        assert devices.required_device(name) is device
        return
    with pytest.raises(BackendError, match=f"gpu '{name}' cannot be used: "):
        devices.required_device(name)


def test_mlx_is_tested_wherever_it_has_wheels():
    system, machine = platform.system(), platform.machine()
    if system == "Linux" or (system, machine) == ("Darwin", "arm64"):
        assert devices.missing("mlx") is None
    assert devices.missing("cpu") is None
    assert devices.missing("reference") is None


@pytest.mark.parametrize(
    ("version", "absent", "fragments"),
    [
        (0, set(), ["no CUDA device", "driver"]),
        (11080, set(), ["CUDA 11", "expected 12"]),
        (12040, {"cupy"}, ["cupy", "nsmath[cuda12]"]),
        (13000, {"cupy", "numba_cuda", "nvmath"}, ["nvmath-python, cupy, numba-cuda", "nsmath[cuda13]"]),
    ],
)
def test_missing_parts_of_cuda_are_named_with_their_extra(monkeypatch, version, absent, fragments):
    monkeypatch.setattr(devices.platform, "system", lambda: "Linux")
    monkeypatch.setattr(devices, "cuda_driver_version", lambda: version)
    monkeypatch.setattr(devices, "is_installed", lambda module: module not in absent)
    reason = devices.cuda_missing()
    assert reason is not None
    for fragment in fragments:
        assert fragment in reason


def test_metal_is_looked_for_on_macos_alone(monkeypatch):
    monkeypatch.setattr(devices.platform, "system", lambda: "Linux")
    assert "this is Linux" in devices.metal_missing()
    monkeypatch.setattr(devices.platform, "system", lambda: "Darwin")
    monkeypatch.setattr(devices, "is_installed", lambda module: False)
    assert "nsmath[mlx]" in devices.metal_missing()


@pytest.mark.skipif(devices.missing("mlx") is not None, reason="no MLX for this system")
def test_metal_is_ready_where_mlx_finds_it(monkeypatch):
    from nsmath.backends import mlx_arrays

    monkeypatch.setattr(devices.platform, "system", lambda: "Darwin")
    monkeypatch.setattr(mlx_arrays, "has_metal", lambda: True)
    assert devices.metal_missing() is None
    monkeypatch.setattr(mlx_arrays, "has_metal", lambda: False)
    assert "no Metal device" in devices.metal_missing()


def test_unknown_devices_are_refused():
    with pytest.raises(OptionError, match=r"'tpu'.*none, cuda, metal, auto"):
        devices.required_device("tpu")


def test_a_backend_without_its_library_names_the_extra():
    code = (
        "import sys; sys.modules['mlx'] = None; sys.modules['mlx.core'] = None\n"
        "from nsmath.errors import BackendError\n"
        "try:\n    import nsmath.backends.mlx\nexcept BackendError as error:\n    print(error)\n"
    )
    out = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert "nsmath[mlx]" in out.stdout


def test_every_device_computes_with_a_known_backend_or_one_to_come():
    assert {device.backend for device in devices.DEVICES.values()} <= {*BACKENDS, "cuda"}
