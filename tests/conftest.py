"""Settings of all tests. This folder also puts `workspaces` (shared models and points) on the path."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def present(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that puts these devices of ``--gpu`` there and takes all others away."""
    from nsmath.backends import devices
    from nsmath.backends.ops import BACKENDS
    from nsmath.plan import choice

    def put(*names: str) -> None:
        table = {
            name: devices.Device(d.name, d.backend, d.dtypes, (lambda: None) if name in names else (lambda: "not here"))
            for name, d in devices.DEVICES.items()
        }
        monkeypatch.setattr(devices, "DEVICES", table)
        monkeypatch.setattr(choice, "DEVICES", table)
        monkeypatch.setattr(choice, "BACKENDS", {**BACKENDS, **{d.backend: ("", "") for d in table.values()}})

    return put
