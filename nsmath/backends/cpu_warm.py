"""Compile all kernels of a new installation at once, in several processes, instead of one by one when first called.

Compilation holds a lock inside a process, so other processes do a part of it; all write to the same cache, where the
first then finds everything. Only the first run on a machine (or with changed kernels) pays.

    python -m nsmath.backends.cpu_warm curvature descent
"""

from __future__ import annotations

import gc
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from nsmath.backends.jit import kernel_cache_folder
from nsmath.formulas.poisson_tables import poisson_tables
from nsmath.model.model import Model

if TYPE_CHECKING:
    from nsmath.backends.cpu import CpuModel, CpuTile

logger = logging.getLogger("nsmath.kernels")

COLUMNS = 3


def compile_all() -> None:
    """Compile every kernel into the cache, shared among as many processes as there are cores; say so at INFO."""
    names = list(_GROUPS)
    n = min(len(names), os.cpu_count() or 1)
    # The heaviest group stands first: it shares a process with the lightest.
    mine, *others = [names[k :: 2 * n] + names[2 * n - 1 - k :: 2 * n] for k in range(n)]
    logger.info("compiling kernels for this machine, once, in %d processes: %s", n, kernel_cache_folder())
    command = [sys.executable, "-m", "nsmath.backends.cpu_warm"]
    quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    children = [subprocess.Popen([*command, *share], env=dict(os.environ), **quiet) for share in others]
    for name in mine:
        compile_group(name)
    for child in children:
        if child.wait():
            # Nothing is lost: what it has not compiled is compiled when it is first called.
            logger.info("a process could not compile its kernels (exit code %d)", child.returncode)


def compile_group(name: str) -> None:
    """Call every kernel of one group (see `_GROUPS`) once, on a few columns of the bundled example."""
    from nsmath.backends.cpu import CpuModel

    document = json.loads(files("nsmath").joinpath("data/example.json").read_text(encoding="utf-8"))
    collects = gc.isenabled()
    # A compiler makes millions of objects and hardly any garbage: collecting would take a seventh of the time.
    gc.disable()
    try:
        _GROUPS[name](CpuModel(Model.from_workspace(document).tensors, warm=False))
    finally:
        if collects:
            gc.enable()


def _loaded(model: CpuModel, tile: CpuTile) -> None:
    t = model.tensors
    columns = np.ones(COLUMNS)
    tile.load(
        np.outer(t.init[t.parameter], columns), np.outer(t.observed, columns), np.outer(t.aux_observed, columns),
        t.is_fixed[t.parameter].astype(bool),
    )  # fmt: skip


def _likelihood(model: CpuModel) -> None:
    tile = model.tile(COLUMNS, memory=2)
    _loaded(model, tile)
    tile.start()
    tile.free()


def _curvature(model: CpuModel) -> None:
    tile = model.tile(COLUMNS, curvature=True)
    _loaded(model, tile)
    tile.todo[:] = 1
    tile.curvature()
    tile.free()


def _newton(model: CpuModel) -> None:
    tile = model.tile(COLUMNS, curvature=True)
    _loaded(model, tile)
    tile.hessian[:] = np.eye(tile.hessian.shape[1])
    tile.newton_descend()
    tile.newton_take()
    tile.free()


def _descent_and_toys(model: CpuModel) -> None:
    tile = model.tile(COLUMNS, memory=2)
    _loaded(model, tile)
    tile.descend()
    tile.take()
    tile.keep(np.arange(COLUMNS - 1))
    tile.free()
    toys, stream = np.arange(COLUMNS), {"seed": 0, "hypothesis": 0, "first_draw": 0}
    out = np.empty((1, COLUMNS))
    model.sample_poisson(out, poisson_tables(np.array([3.0])), toys, **stream)
    model.sample_normal(out, np.zeros(1), np.ones(1), toys, **stream)


_GROUPS: dict[str, Callable[[CpuModel], None]] = {
    # From the heaviest to the lightest.
    "likelihood": _likelihood,
    "curvature": _curvature,
    "descent": _descent_and_toys,
    "newton": _newton,
}

if __name__ == "__main__":
    for group in sys.argv[1:]:
        compile_group(group)
