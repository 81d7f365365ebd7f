"""Compile all kernels of a new installation at once, in two processes, instead of one by one when first called.

Compilation holds a lock inside a process, so a second process does half of it; both write to the same cache, where
the first then finds everything. Only the first run on a machine (or with changed kernels) pays.

    python -m nsmath.backends.cpu_warm robust
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np

from nsmath.backends.jit import kernel_cache_folder
from nsmath.formulas.poisson_tables import poisson_tables
from nsmath.model.model import Model

if TYPE_CHECKING:
    from nsmath.backends.cpu import CpuModel, CpuTile

logger = logging.getLogger("nsmath.kernels")

COLUMNS = 3


def is_compiled() -> bool:
    """Return whether the cache holds kernels of exactly these sources."""
    folder = kernel_cache_folder()
    return folder.is_dir() and any(folder.iterdir())


def compile_all() -> None:
    """Compile every kernel into the cache, half of them in a second process; say so at INFO."""
    logger.info("compiling kernels for this machine, once: %s", kernel_cache_folder())
    command = [sys.executable, "-m", "nsmath.backends.cpu_warm", "robust"]
    second = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ))
    compile_group("cheap")
    if second.wait():
        # Nothing is lost: what it has not compiled is compiled when it is first called.
        logger.info("the second process could not compile its kernels (exit code %d)", second.returncode)
    compile_group("robust")


def compile_group(name: str) -> None:
    """Call every kernel of one group (``cheap``, ``robust``) once, on a few columns of the bundled example."""
    from nsmath.backends.cpu import CpuModel

    document = json.loads(files("nsmath").joinpath("data/example.json").read_text(encoding="utf-8"))
    model = CpuModel(Model.from_workspace(document).tensors, warm=False)
    {"cheap": _cheap, "robust": _robust}[name](model)


def _loaded(model: CpuModel, tile: CpuTile) -> None:
    t = model.tensors
    columns = np.ones(COLUMNS)
    tile.load(
        np.outer(t.init[t.parameter], columns), np.outer(t.observed, columns), np.outer(t.aux_observed, columns),
        t.is_fixed[t.parameter].astype(bool),
    )  # fmt: skip


def _cheap(model: CpuModel) -> None:
    tile = model.tile(COLUMNS, memory=2)
    _loaded(model, tile)
    tile.start()
    tile.descend()
    tile.accept()
    tile.keep(np.arange(COLUMNS - 1))
    tile.free()


def _robust(model: CpuModel) -> None:
    tile = model.tile(COLUMNS, curvature=True)
    _loaded(model, tile)
    tile.todo[:] = 1
    tile.curvature()
    tile.newton_descend()
    tile.newton_take()
    tile.free()
    toys, stream = np.arange(COLUMNS), {"seed": 0, "hypothesis": 0, "first_draw": 0}
    out = np.empty((1, COLUMNS))
    model.sample_poisson(out, poisson_tables(np.array([3.0])), toys, **stream)
    model.sample_normal(out, np.zeros(1), np.ones(1), toys, **stream)


if __name__ == "__main__":
    compile_group(sys.argv[1])
