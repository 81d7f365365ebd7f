"""What a machine needs of a model: frozen float64 arrays and index maps, with a content digest.

docs/maths.md derives the layout. In short: the rate of bin b is

    lambda_b = sum over slots l of b:  gamma_l S_l,    S_l = sum over rows r of l:  a_r m_q(r) x_r

with a = T F(theta) + nominal (additive), m the factor of the row's cell (multiplicative and scalar products),
x the per-bin products. A *slot* is a bin's rows that share one profiled gamma (gamma 1 where there is none).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields

import numpy as np

from nsmath._typing import Array, IntArray

DERIVED = ("entry_poly", "entry_log")
"""Arrays that logarithms and LAPACK make of others: their last bits depend on the processor, and a model's digest must
not, or the parts of a study from two machines could not be merged."""


@dataclass(frozen=True, slots=True)
class ModelTensors:
    """Frozen host arrays of one model; every array is read-only, C order, float64 or int64.

    Index letters as in `nsmath._typing`. ``*_start`` arrays are CSR-like offsets, one longer than what they
    split. A product factor that points at Z is the constant 1.

    Attributes
    ----------
    parameter : (Z,) position of each minimised parameter among all P.
    gamma_parameter : (G,) position of each profiled gamma among all P.
    init, lower, upper : (P,) start values and bounds; is_fixed : (P,) 1 where never fitted.
    channel_bin, channel_cell : (C+1,) bins and cells of each channel.
    cell_row, cell_entry, cell_factor : (Q+1,) rows, normsys entries and scalar factors of each cell.
    factor_z : scalar product parameters, by cell. row_factor_start (R+1,), row_factor_z : per-bin ones, by row.
    row_slot : (R,) slot of each row; bin_slot : (B+1,) slots of each bin; slot_gamma : (L,) G index or -1.
    nominal : (R,) nominal yields; template : (R, 2H) [S | A] of the histosys; histosys_z : (H,).
    additive : (6,) threshold, three inner coefficients, slope, intercept of the additive code.
    entry_z : (E,), entry_factor : (E, 2) hi and lo; from these entry_poly : (E, 6) and entry_log : (E, 2) log hi and
        log lo; multiplicative_threshold.
    aux_parameter : (A,) constrained parameter (of P) of each auxiliary measurement; aux_is_poisson, aux_scale,
        aux_observed : (A,).
    z_normal, z_normal_aux : minimised parameters with a normal constraint and their A index; z_poisson the same.
    gamma_is_poisson, gamma_scale, gamma_aux : (G,).
    """

    parameter: IntArray
    gamma_parameter: IntArray
    init: Array
    lower: Array
    upper: Array
    is_fixed: IntArray
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
    nominal: Array
    template: Array
    histosys_z: IntArray
    additive: Array
    entry_z: IntArray
    entry_factor: Array
    entry_poly: Array
    entry_log: Array
    multiplicative_threshold: Array
    aux_parameter: IntArray
    aux_is_poisson: IntArray
    aux_scale: Array
    aux_observed: Array
    z_normal: IntArray
    z_normal_aux: IntArray
    z_poisson: IntArray
    z_poisson_aux: IntArray
    gamma_is_poisson: IntArray
    gamma_scale: Array
    gamma_aux: IntArray
    observed: Array

    def __post_init__(self) -> None:
        for field in fields(self):
            getattr(self, field.name).setflags(write=False)

    @property
    def n_parameters(self) -> int:
        """Number of parameters P."""
        return len(self.init)

    @property
    def n_minimised(self) -> int:
        """Number of minimised parameters Z."""
        return len(self.parameter)

    @property
    def n_gammas(self) -> int:
        """Number of profiled gammas G."""
        return len(self.gamma_parameter)

    @property
    def n_bins(self) -> int:
        """Number of bins B."""
        return int(self.channel_bin[-1])

    @property
    def n_rows(self) -> int:
        """Number of rows R."""
        return len(self.nominal)

    @property
    def n_cells(self) -> int:
        """Number of cells Q."""
        return len(self.cell_row) - 1

    @property
    def n_histosys(self) -> int:
        """Number of histosys parameters H."""
        return len(self.histosys_z)

    @property
    def n_aux(self) -> int:
        """Number of auxiliary measurements A."""
        return len(self.aux_parameter)

    @property
    def n_slots(self) -> int:
        """Number of slots L."""
        return len(self.slot_gamma)

    def digest(self) -> str:
        """Return the sha256 of names, shapes, dtypes and bytes of all arrays but `DERIVED`, as 64 hex digits."""
        sha = hashlib.sha256()
        for field in fields(self):
            if field.name in DERIVED:
                continue
            array = getattr(self, field.name)
            sha.update(f"{field.name}{array.shape}{array.dtype.str}".encode())
            sha.update(np.ascontiguousarray(array).tobytes())
        return sha.hexdigest()
