"""The arrays of `ModelTensors` as numba kernels take them: two flat tables, and where each array begins in them.

A kernel that takes thirty arrays copies their thirty descriptors at every call and compiles for a minute. So all
integer arrays lie one after the other in one table, all real ones in another: element i of ``cell_row`` is
``ints[t.cell_row + i]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from nsmath._typing import AnyArray, Array, IntArray
from nsmath.model.tensors import ModelTensors


class Offsets(NamedTuple):
    """Where each array of `ModelTensors` begins, sizes, and the largest channel's sizes for scratch.

    Matrices lie row by row: ``entry_poly`` six, ``entry_log`` two to an entry. For the Hessian: ``slot_k`` is the J-row
    of a profiled slot of its own, or -1 (the J-row of bin b is b).
    """

    channel_bin: int
    channel_cell: int
    cell_row: int
    cell_entry: int
    cell_factor: int
    factor_z: int
    row_factor_start: int
    row_factor_z: int
    row_slot: int
    bin_slot: int
    slot_gamma: int
    histosys_z: int
    entry_z: int
    z_normal: int
    z_normal_aux: int
    z_poisson: int
    z_poisson_aux: int
    gamma_is_poisson: int
    gamma_aux: int
    slot_k: int
    additive: int
    entry_poly: int
    entry_log: int
    z_normal_sigma: int
    z_poisson_tau: int
    gamma_scale: int
    gamma_lower: int
    gamma_upper: int
    n_channels: int
    n_cells: int
    n_rows: int
    n_bins: int
    n_slots: int
    n_entries: int
    n_gammas: int
    n_histosys: int
    n_z: int
    n_z_normal: int
    n_z_poisson: int
    n_k: int
    max_cells: int
    max_entries: int
    max_slots: int
    threshold: float


@dataclass(frozen=True, slots=True)
class KernelTables:
    """What kernels read of a model.

    header : an `Offsets` as a NumPy record: one pointer, where a tuple would be 43 arguments of every call.
    ints, floats : the table of integers, the table of reals.
    """

    header: Any
    ints: IntArray
    floats: Array


def _own_j_rows(tensors: ModelTensors) -> tuple[IntArray, int]:
    """Return the J-row of each profiled slot that shares its bin, else -1, and the number of J-rows."""
    t = tensors
    slot_k = np.full(t.n_slots, -1, dtype=np.int64)
    k = t.n_bins
    for first, last in zip(t.bin_slot[:-1], t.bin_slot[1:], strict=True):
        # Bins with a single slot need one J-row only.
        for slot in range(first, last) if last - first > 1 else ():
            if t.slot_gamma[slot] >= 0:
                slot_k[slot] = k
                k += 1
    return slot_k, k


def kernel_tables(tensors: ModelTensors) -> KernelTables:
    """Return the kernels' view of ``tensors``."""
    t = tensors
    slot_k, n_k = _own_j_rows(t)
    gammas = t.gamma_parameter
    extra: dict[str, AnyArray] = {
        "slot_k": slot_k,
        "z_normal_sigma": t.aux_scale[t.z_normal_aux],
        "z_poisson_tau": t.aux_scale[t.z_poisson_aux],
        "gamma_lower": t.lower[gammas],
        "gamma_upper": t.upper[gammas],
    }
    sizes: dict[str, float] = {
        "n_channels": len(t.channel_cell) - 1, "n_cells": t.n_cells, "n_rows": t.n_rows, "n_bins": t.n_bins,
        "n_slots": t.n_slots, "n_entries": len(t.entry_z), "n_gammas": t.n_gammas, "n_histosys": t.n_histosys,
        "n_z": t.n_minimised, "n_z_normal": len(t.z_normal), "n_z_poisson": len(t.z_poisson), "n_k": n_k,
        "max_cells": _largest(t.channel_cell), "max_entries": _largest(t.cell_entry[t.channel_cell]),
        "max_slots": _largest(t.bin_slot[t.channel_bin]), "threshold": float(t.multiplicative_threshold[0]),
    }  # fmt: skip
    tables: dict[str, list[AnyArray]] = {"i": [], "f": []}
    for name in Offsets._fields:
        if name in sizes:
            continue
        array = extra[name] if name in extra else getattr(t, name)
        table = tables[array.dtype.kind]
        sizes[name] = sum(part.size for part in table)
        table.append(array.ravel())
    # One element more: a kernel may look at the place where an empty array would begin.
    ints = np.concatenate([*tables["i"], np.zeros(1, dtype=np.int64)])
    floats = np.concatenate([*tables["f"], np.zeros(1)])
    header = np.zeros(1, dtype=[(name, sizes[name].__class__) for name in Offsets._fields])
    header[0] = tuple(sizes[name] for name in Offsets._fields)
    return KernelTables(header[0], ints, floats)


def _largest(start: IntArray) -> int:
    """Return the largest step of an offset array, at least 1."""
    return max(int((start[1:] - start[:-1]).max(initial=0)), 1)
