"""The arrays of `ModelTensors` in the form that numba kernels take."""

from __future__ import annotations

from typing import NamedTuple

from nsmath._typing import Array, IntArray
from nsmath.model.tensors import ModelTensors


STRIP = 32
"""Columns that a kernel takes at a time; buffers are as wide as a multiple of it."""


class KernelTensors(NamedTuple):
    """Arrays that the kernels read; names as in `ModelTensors`, parameters numbered by Z."""

    channel_bin: IntArray
    channel_cell: IntArray
    cell_row: IntArray
    cell_entry: IntArray
    cell_factor: IntArray
    factor_z: IntArray
    row_factor_start: IntArray
    row_factor_z: IntArray
    row_slot: IntArray
    bin_slot: IntArray
    slot_gamma: IntArray
    histosys_z: IntArray
    additive: Array
    entry_z: IntArray
    entry_poly: Array
    entry_log: Array
    threshold: float
    z_normal: IntArray
    z_normal_aux: IntArray
    z_normal_sigma: Array
    z_poisson: IntArray
    z_poisson_aux: IntArray
    z_poisson_tau: Array
    gamma_is_poisson: IntArray
    gamma_scale: Array
    gamma_aux: IntArray
    gamma_lower: Array
    gamma_upper: Array
    max_cells: int
    max_entries: int
    max_rows: int
    max_slots: int


def kernel_tensors(tensors: ModelTensors) -> KernelTensors:
    """Return the kernels' view of ``tensors``, with the largest channel's sizes for their scratch."""
    t = tensors
    cells = t.channel_cell
    gammas = t.gamma_parameter
    by_channel = {
        "max_cells": cells,
        "max_entries": t.cell_entry[cells],
        "max_rows": t.cell_row[cells],
        "max_slots": t.bin_slot[t.channel_bin],
    }
    sizes = {name: max(int((start[1:] - start[:-1]).max(initial=0)), 1) for name, start in by_channel.items()}
    shared = {name: getattr(t, name) for name in KernelTensors._fields if hasattr(t, name)}
    return KernelTensors(
        **shared,
        threshold=float(t.multiplicative_threshold[0]),
        z_normal_sigma=t.aux_scale[t.z_normal_aux],
        z_poisson_tau=t.aux_scale[t.z_poisson_aux],
        gamma_lower=t.lower[gammas],
        gamma_upper=t.upper[gammas],
        **sizes,
    )
