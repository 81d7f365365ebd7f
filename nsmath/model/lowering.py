"""Lower the channels of a workspace to `ModelTensors`: seven modifier types to three kinds of operation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from nsmath._typing import Array, IntArray
from nsmath.formulas.interpolation import (
    ADDITIVE_CODES,
    MULTIPLICATIVE_CODES,
    Interpolation,
    code4_coefficients,
)
from nsmath.model.parameters import Parameter, ParameterBlock
from nsmath.model.tensors import ModelTensors
from nsmath.spec.modifiers import MODIFIERS
from nsmath.spec.workspace import Channel, LoHi, LoHiData


@dataclass(slots=True)
class _Rows:
    """Everything read off the channels, with parameters still numbered by P."""

    channel_bin: list[int] = field(default_factory=lambda: [0])
    channel_cell: list[int] = field(default_factory=lambda: [0])
    cell_row: list[int] = field(default_factory=lambda: [0])
    row_bin: list[int] = field(default_factory=list)
    nominal: list[float] = field(default_factory=list)
    cell_entries: list[list[tuple[int, float, float]]] = field(default_factory=list)
    cell_factors: list[list[int]] = field(default_factory=list)
    row_factors: list[list[int]] = field(default_factory=list)
    histosys: dict[int, list[tuple[int, Array, Array]]] = field(default_factory=dict)


def _read_rows(channels: Sequence[Channel], blocks: dict[str, ParameterBlock]) -> _Rows:
    rows = _Rows()
    for channel in channels:
        first_bin, n_bins = rows.channel_bin[-1], len(channel.samples[0].data)
        for sample in channel.samples:
            first_row = len(rows.nominal)
            rows.nominal += sample.data
            rows.row_bin += range(first_bin, first_bin + n_bins)
            rows.row_factors += [[] for _ in range(n_bins)]
            rows.cell_entries.append([])
            rows.cell_factors.append([])
            for modifier in sample.modifiers:
                kind, block = MODIFIERS[modifier.type], blocks[modifier.name]
                start = block.start + block.offset[channel.name]
                data = modifier.data
                if isinstance(data, LoHiData):
                    lo, hi, nominal = (np.array(x, dtype=float) for x in (data.lo_data, data.hi_data, sample.data))
                    half, curved = (hi - lo) / 2.0, (hi + lo - 2.0 * nominal) / 2.0
                    # A template equal to the nominal moves nothing; its parameter lives on in its constraint.
                    if half.any() or curved.any():
                        rows.histosys.setdefault(start, []).append((first_row, half, curved))
                elif isinstance(data, LoHi):
                    if (data.lo, data.hi) != (1.0, 1.0):
                        rows.cell_entries[-1].append((start, data.lo, data.hi))
                elif kind.per_bin:
                    for k in range(n_bins):
                        rows.row_factors[first_row + k].append(start + k)
                else:
                    rows.cell_factors[-1].append(start)
            rows.cell_row.append(len(rows.nominal))
        rows.channel_bin.append(first_bin + n_bins)
        rows.channel_cell.append(len(rows.cell_row) - 1)
    return rows


def _profiled_gammas(rows: _Rows, parameters: Sequence[Parameter], poi: int | None) -> set[int]:
    """Return the parameters (of P) that `profile` solves in closed form, given all others.

    A constrained product parameter that scales rows of one bin only, and shares no row with another such:
    then the rate of the bin is linear in all of them at once (docs/maths.md, "Profiled gammas").
    """
    bins: dict[int, set[int]] = {}
    elsewhere = {p for factors in rows.cell_factors for p in factors} | set(rows.histosys)
    elsewhere |= {p for entries in rows.cell_entries for p, _, _ in entries}
    for r, factors in enumerate(rows.row_factors):
        for p in factors:
            bins.setdefault(p, set()).add(rows.row_bin[r])
    profiled: set[int] = set()
    for p, where in bins.items():
        parameter = parameters[p]
        is_gamma = len(where) == 1 and parameter.constraint != "none" and p not in elsewhere
        # With bounds below 0 a Poisson rate would turn negative and the closed forms no longer hold.
        if is_gamma and not parameter.is_fixed and p != poi and parameter.lower >= 0.0:
            profiled.add(p)
    for factors in rows.row_factors:
        shared = [p for p in factors if p in profiled]
        profiled -= set(shared[1:])
    return profiled


def _slots(rows: _Rows, profiled: set[int], n_bins: int) -> tuple[list[int], list[int], list[int]]:
    """Return (row_slot, bin_slot, slot parameter): the rows of a bin grouped by their profiled gamma."""
    row_gamma = [next((p for p in factors if p in profiled), -1) for factors in rows.row_factors]
    by_bin: list[list[int]] = [[] for _ in range(n_bins)]
    for gamma, b in zip(row_gamma, rows.row_bin, strict=True):
        if gamma not in by_bin[b]:
            by_bin[b].append(gamma)
    bin_slot: list[int] = [0]
    slot_parameter: list[int] = []
    slot_of: dict[tuple[int, int], int] = {}
    for b, gammas in enumerate(by_bin):
        for gamma in sorted(gammas):
            slot_of[(b, gamma)] = len(slot_parameter)
            slot_parameter.append(gamma)
        bin_slot.append(len(slot_parameter))
    row_slot = [slot_of[(b, gamma)] for gamma, b in zip(row_gamma, rows.row_bin, strict=True)]
    return row_slot, bin_slot, slot_parameter


def _ints(values: Sequence[int]) -> IntArray:
    return np.array(values, dtype=np.int64)


def _csr(lists: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray]:
    start = np.concatenate([[0], np.cumsum([len(x) for x in lists], dtype=np.int64)]).astype(np.int64)
    return start, _ints([x for sub in lists for x in sub])


def _template(rows: _Rows, histosys: list[int]) -> Array:
    n = len(histosys)
    template = np.zeros((len(rows.nominal), 2 * n))
    for h, p in enumerate(histosys):
        for first, half, curved in rows.histosys[p]:
            template[first : first + len(half), h] += half
            template[first : first + len(half), n + h] += curved
    return template


def lower(
    channels: Sequence[Channel],
    parameters: Sequence[Parameter],
    blocks: dict[str, ParameterBlock],
    *,
    poi: int | None,
    interp: Interpolation,
    observed: Sequence[float],
    profile: bool = True,
) -> ModelTensors:
    """Return the tensors of ``channels``; ``parameters`` and ``blocks`` from `model_parameters`.

    Parameters
    ----------
    poi : position of the parameter of interest, which is never profiled.
    observed : (B,) main data, channel after channel.
    profile : leave out what needs no minimiser (profiled gammas, factors that stay 1); else keep all P.
    """
    rows = _read_rows(channels, blocks)
    n_bins = rows.channel_bin[-1]
    profiled = _profiled_gammas(rows, parameters, poi) if profile else set()
    moving = set(rows.histosys) | {p for entries in rows.cell_entries for p, _, _ in entries}
    # A factor that stays 1 for ever needs neither a place in the products nor one in the minimiser.
    inert = {
        p
        for p, par in enumerate(parameters)
        if profile and par.is_fixed and par.init == 1.0 and p != poi and p not in moving
    }
    gammas = sorted(profiled)
    minimised = [p for p in range(len(parameters)) if p not in profiled and p not in inert]
    z_of = {p: z for z, p in enumerate(minimised)}
    gamma_of = {p: g for g, p in enumerate(gammas)} | {-1: -1}

    row_slot, bin_slot, slot_parameter = _slots(rows, profiled, n_bins)
    cell_factor, factor_z = _csr([[z_of[p] for p in f if p in z_of] for f in rows.cell_factors])
    row_factor_start, row_factor_z = _csr([[z_of[p] for p in f if p in z_of] for f in rows.row_factors])
    entries = [entry for cell in rows.cell_entries for entry in cell]
    lo, hi = np.array([e[1] for e in entries]), np.array([e[2] for e in entries])
    threshold = MULTIPLICATIVE_CODES[interp.normsys].threshold
    has_poly = threshold > 0.0 and len(entries) > 0
    histosys = sorted(rows.histosys)
    additive = ADDITIVE_CODES[interp.histosys]

    aux = [p for p, parameter in enumerate(parameters) if parameter.constraint != "none"]
    aux_of = {p: a for a, p in enumerate(aux)}
    is_poisson = {p: parameters[p].constraint == "poisson" for p in aux}
    normal = [p for p in minimised if p in aux_of and not is_poisson[p]]
    poisson = [p for p in minimised if p in aux_of and is_poisson[p]]
    return ModelTensors(
        parameter=_ints(minimised),
        gamma_parameter=_ints(gammas),
        init=np.array([p.init for p in parameters]),
        lower=np.array([p.lower for p in parameters]),
        upper=np.array([p.upper for p in parameters]),
        is_fixed=_ints([p.is_fixed for p in parameters]),
        channel_bin=_ints(rows.channel_bin),
        channel_cell=_ints(rows.channel_cell),
        cell_row=_ints(rows.cell_row),
        cell_entry=_csr([[e[0] for e in cell] for cell in rows.cell_entries])[0],
        cell_factor=cell_factor,
        factor_z=factor_z,
        row_factor_start=row_factor_start,
        row_factor_z=row_factor_z,
        row_slot=_ints(row_slot),
        bin_slot=_ints(bin_slot),
        slot_gamma=_ints([gamma_of[p] for p in slot_parameter]),
        nominal=np.array(rows.nominal, dtype=float),
        template=_template(rows, histosys),
        histosys_z=_ints([z_of[p] for p in histosys]),
        additive=np.array([additive.threshold, *additive.inner, additive.slope, additive.intercept]),
        entry_z=_ints([z_of[e[0]] for e in entries]),
        entry_factor=np.stack([hi, lo], axis=1) if entries else np.zeros((0, 2)),
        entry_poly=np.ascontiguousarray(code4_coefficients(lo, hi).T) if has_poly else np.zeros((len(entries), 6)),
        entry_log=np.ascontiguousarray(np.log(np.stack([hi, lo], axis=1))) if entries else np.zeros((0, 2)),
        multiplicative_threshold=np.array([threshold]),
        aux_parameter=_ints(aux),
        aux_is_poisson=_ints([is_poisson[p] for p in aux]),
        aux_scale=np.array([parameters[p].scale for p in aux]),
        aux_observed=np.array([parameters[p].auxdata for p in aux]),
        z_normal=_ints([z_of[p] for p in normal]),
        z_normal_aux=_ints([aux_of[p] for p in normal]),
        z_poisson=_ints([z_of[p] for p in poisson]),
        z_poisson_aux=_ints([aux_of[p] for p in poisson]),
        gamma_is_poisson=_ints([is_poisson[p] for p in gammas]),
        gamma_scale=np.array([parameters[p].scale for p in gammas]),
        gamma_aux=_ints([aux_of[p] for p in gammas]),
        observed=np.array(observed, dtype=float),
    )
