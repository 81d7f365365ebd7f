"""NLL and gradient of all columns as pure functions of arrays, (parameters, columns), which a library may compile.

interpolate -> shapes (a matmul, with the nominal) -> slots -> bins -> pull back (matmul) -> gather, as in
`nsmath.backends.ops`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nsmath._typing import IntArray
from nsmath.backends.array_bins import (
    BinTables,
    Profile,
    Solved,
    bin_terms,
    constraints,
    deviation_of,
    gamma_terms,
    profile,
)
from nsmath.backends.array_door import ArrayDoor, Compiler, XpArray, namespace_of
from nsmath.backends.array_formulas import additive_code, multiplicative_code, poisson_term
from nsmath.backends.array_reductions import Grouped, total
from nsmath.backends.array_roots import MAX_LOOKS, State
from nsmath.model.tensors import ModelTensors

TINY_FACTOR = {"float64": 1e-100, "float32": 1e-18}
"""Stands in for a factor that is 0: only quotients of it are used, and those stay exact, for two such factors too."""


class Rows(NamedTuple):
    """Rows of m columns and what their derivatives need.

    Attributes
    ----------
    x : (Z, m) parameters, exact zeros replaced. shape : (R, m) additive parts. factor : (R, m) all other factors.
    slots : (L, m). additive : q, q', q'' (H, m). entries : f, f', f'' (E, m).
    """

    x: XpArray
    shape: XpArray
    factor: XpArray
    slots: XpArray
    additive: tuple[XpArray, XpArray, XpArray] | None
    entries: tuple[XpArray, XpArray, XpArray] | None


class Evaluated(NamedTuple):
    """nll (m,), gradient (Z, m), gammas (G, m), rate (B, m)."""

    nll: XpArray
    gradient: XpArray
    gammas: XpArray
    rate: XpArray


class Likelihood:
    """The likelihood of one model.

    Parameters
    ----------
    compiler : what the functions go through, such as `xp.compile`.
    """

    def __init__(self, door: ArrayDoor, tensors: ModelTensors, compiler: Compiler) -> None:
        t = self.tensors = tensors
        self.door = door
        eps = float(np.finfo(door.dtype).eps)
        self.tiny, self.dtype = TINY_FACTOR[door.dtype], door.float_type
        self.bins = BinTables(door, t, eps)
        self._take_rows(door)
        self._take_constraints(door)
        roots = self.bins.roots if t.n_gammas else None
        self._front, self._back = compiler(self.front), compiler(self.back)
        self._start = None if roots is None else compiler(roots.start)
        self._steps = None if roots is None else compiler(roots.steps)
        self._whole, self._held = compiler(self.whole), compiler(self.with_gammas)

    def _take_rows(self, door: ArrayDoor) -> None:
        t = self.tensors
        cell = np.arange(t.n_cells)
        row_cell = np.repeat(cell, np.diff(t.cell_row))
        entry_cell, factor_cell = np.repeat(cell, np.diff(t.cell_entry)), np.repeat(cell, np.diff(t.cell_factor))
        factor_row = np.repeat(np.arange(t.n_rows), np.diff(t.row_factor_start))
        self.nominal = door.constant(t.nominal[:, None])
        self.template, self.pull = door.constant(t.template), door.constant(t.template.T)
        self.additive = tuple(float(x) for x in t.additive)
        self.threshold = float(t.multiplicative_threshold[0])
        self.poly = door.constant(t.entry_poly.T[:, :, None])
        self.log_hi, self.log_lo = door.constant(t.entry_log[:, :1]), door.constant(t.entry_log[:, 1:])
        names: dict[str, IntArray] = {
            "histosys_z": t.histosys_z, "entry_z": t.entry_z, "factor_z": t.factor_z, "row_factor_z": t.row_factor_z,
            "entry_cell": entry_cell, "factor_cell": factor_cell, "factor_row": factor_row, "row_cell": row_cell,
            "row_slot": t.row_slot,
        }  # fmt: skip
        self.index = {name: door.index(array) for name, array in names.items()}
        self.has_cell_factors = bool(len(t.entry_z) + len(t.factor_z))
        self.cell_product = Grouped(door, np.concatenate([entry_cell, factor_cell]), t.n_cells, product=True)
        self.row_product = Grouped(door, factor_row, t.n_rows, product=True)
        self.cell_sum, self.slot_sum = Grouped(door, row_cell, t.n_cells), Grouped(door, t.row_slot, t.n_slots)
        moved = [t.histosys_z, t.entry_z, t.factor_z, t.row_factor_z, t.z_normal, t.z_poisson]
        self.gather = Grouped(door, np.concatenate(moved), t.n_minimised)
        slot_bin = np.repeat(np.arange(t.n_bins), np.diff(t.bin_slot))
        self.slot_bin = door.index(slot_bin)

    def _take_constraints(self, door: ArrayDoor) -> None:
        t = self.tensors
        self.n_normal, self.n_poisson = len(t.z_normal), len(t.z_poisson)
        self.z_normal, self.aux_normal = door.index(t.z_normal), door.index(t.z_normal_aux)
        self.z_poisson, self.aux_poisson = door.index(t.z_poisson), door.index(t.z_poisson_aux)
        self.sigma = door.constant(t.aux_scale[t.z_normal_aux][:, None])
        self.tau = door.constant(t.aux_scale[t.z_poisson_aux][:, None])

    # -- forward -------------------------------------------------------------------------------------------

    def rows(self, z: XpArray) -> Rows:
        """Return the rows at ``z`` (Z, m)."""
        xp = namespace_of(z)
        t, index = self.tensors, self.index
        x = self.nonzero(z)
        additive, shape = None, xp.broadcast_to(self.nominal, (t.n_rows, z.shape[1]))
        if t.n_histosys:
            alpha = xp.take(z, index["histosys_z"], axis=0)
            additive = additive_code(self.additive, alpha)
            shape = self.door.add_matmul(self.nominal, self.template, xp.concatenate([alpha, additive[0]], axis=0))
        entries, factors = None, []
        if len(t.entry_z):
            alpha = xp.take(z, index["entry_z"], axis=0)
            value, first, second = multiplicative_code(self.threshold, self.poly, self.log_hi, self.log_lo, alpha)
            entries = (self.nonzero(value), first, second)
            factors.append(entries[0])
        if len(t.factor_z):
            factors.append(xp.take(x, index["factor_z"], axis=0))
        factor = xp.ones_like(shape)
        if factors:
            cells = self.cell_product(xp.concatenate(factors, axis=0))
            factor = xp.take(cells, index["row_cell"], axis=0)
        if len(t.row_factor_z):
            factor = factor * self.row_product(xp.take(x, index["row_factor_z"], axis=0))
        return Rows(x, shape, factor, self.slot_sum(shape * factor), additive, entries)

    def nonzero(self, values: XpArray) -> XpArray:
        """Return ``values`` with something tiny for zeros."""
        xp = namespace_of(values)
        return xp.where(xp.abs(values) > self.tiny, values, self.tiny)

    def rest(self, slots: XpArray) -> XpArray:
        """Return what bins hold without gammas, (B, m)."""
        xp = namespace_of(slots)
        return self.bins.rest(xp.take(slots, self.bins.plain_slot, axis=0))

    def bin_profile(self, slots: XpArray, data: XpArray, aux: XpArray, several: Solved | None) -> Profile:
        """Return the bins at slot sums (L, m), gammas profiled."""
        xp = namespace_of(slots)
        rest = self.rest(slots)
        if self.tensors.n_gammas:
            return profile(self.bins, constraints(self.bins, slots, aux), rest, data, several)
        none, residual = xp.zeros((0, data.shape[1]), dtype=self.dtype), xp.where(data > 0.0, 1.0 - data / rest, 1.0)
        return Profile(residual, rest, none, none, none, xp.zeros(rest.shape, dtype=xp.bool_))

    # -- the whole -----------------------------------------------------------------------------------------

    def __call__(self, z: XpArray, data: XpArray, aux: XpArray) -> Evaluated:
        """Return the profile likelihood at ``z`` (Z, m) of ``data`` (B, m) and ``aux`` (A, m)."""
        if self._start is None:
            return Evaluated(*self._whole(z, data, aux))
        slots = self._front(z)
        return Evaluated(*self._back(z, data, aux, *self.several(slots, data, aux)))

    def held(self, z: XpArray, data: XpArray, aux: XpArray, gammas: XpArray) -> Evaluated:
        """Return the likelihood with ``gammas`` (G, m) as they are."""
        return Evaluated(*self._held(z, data, aux, gammas))

    def several(self, slots: XpArray, data: XpArray, aux: XpArray) -> Solved:
        """Return bins with several gammas; looks on the host every few steps whether all are solved."""
        xp = namespace_of(slots)
        roots = self.bins.roots
        assert roots is not None and self._start is not None and self._steps is not None
        c = roots.constraint(constraints(self.bins, slots, aux))
        rest, n = (xp.take(array, roots.bins, axis=0) for array in (self.rest(slots), data))
        state, balanced = self._start(c, rest, n)
        for _ in range(MAX_LOOKS):
            state = State(*self._steps(state, c, rest, n))
            if not self.door.is_any(~state.solved):
                break
        return Solved(state.r, roots.gammas(state, balanced, c))

    def front(self, z: XpArray) -> XpArray:
        """Return the slot sums (L, m)."""
        return self.rows(z).slots

    def whole(self, z: XpArray, data: XpArray, aux: XpArray) -> Evaluated:
        """Return everything in one function, where no bin has several gammas."""
        rows = self.rows(z)
        return self._finish(z, data, aux, rows, self.bin_profile(rows.slots, data, aux, None))

    def back(self, z: XpArray, data: XpArray, aux: XpArray, residual: XpArray, gammas: XpArray) -> Evaluated:
        """Return everything, given the bins with several gammas."""
        rows = self.rows(z)
        return self._finish(z, data, aux, rows, self.bin_profile(rows.slots, data, aux, Solved(residual, gammas)))

    def with_gammas(self, z: XpArray, data: XpArray, aux: XpArray, gammas: XpArray) -> Evaluated:
        """Return everything at given gammas (G, m)."""
        xp = namespace_of(z)
        rows = self.rows(z)
        if not self.tensors.n_gammas:
            return self._finish(z, data, aux, rows, self.bin_profile(rows.slots, data, aux, None))
        c = constraints(self.bins, rows.slots, aux)
        rate = self.rest(rows.slots) + self.bins.by_bin(gammas * c.s)
        residual = xp.where(data > 0.0, (rate - data) / rate, 1.0)
        no = xp.zeros(rate.shape, dtype=xp.bool_)
        bins = Profile(residual, rate, gammas, deviation_of(c, gammas), xp.zeros(gammas.shape, dtype=xp.bool_), no)
        return self._finish(z, data, aux, rows, bins)

    def _finish(self, z: XpArray, data: XpArray, aux: XpArray, rows: Rows, bins: Profile) -> Evaluated:
        xp = namespace_of(z)
        terms, slopes = self._constraint_terms(z, aux)
        terms.insert(0, bin_terms(self.bins, bins, data))
        if self.tensors.n_gammas:
            terms.append(gamma_terms(constraints(self.bins, rows.slots, aux), bins))
        nll = total(xp.concatenate(terms, axis=0))
        gradient = self._gradient(rows, self.slot_weight(bins.residual, bins.gammas), slopes)
        return Evaluated(xp.where(xp.isnan(nll), xp.inf, nll), gradient, bins.gammas, bins.rate)

    def slot_weight(self, residual: XpArray, gammas: XpArray) -> XpArray:
        """Return d NLL / d S_l = r gamma_l, (L, m)."""
        xp = namespace_of(residual)
        r = xp.take(residual, self.slot_bin, axis=0)
        if not self.tensors.n_gammas:
            return r
        one = xp.ones((1, gammas.shape[1]), dtype=self.dtype)
        return r * xp.take(xp.concatenate([gammas, one], axis=0), self.bins.slot_gamma, axis=0)

    def _constraint_terms(self, z: XpArray, aux: XpArray) -> tuple[list[XpArray], list[XpArray]]:
        """Return the terms of minimised parameters' constraints, and their slopes."""
        xp = namespace_of(z)
        terms, slopes = [], []
        if self.n_normal:
            pull = (xp.take(z, self.z_normal, axis=0) - xp.take(aux, self.aux_normal, axis=0)) / self.sigma
            terms.append(0.5 * pull * pull)
            slopes.append(pull / self.sigma)
        if self.n_poisson:
            value, count = xp.take(z, self.z_poisson, axis=0), xp.take(aux, self.aux_poisson, axis=0)
            terms.append(poisson_term(value * self.tau, count))
            slopes.append(self.tau - xp.where(count > 0.0, count / value, 0.0))
        return terms, slopes

    def _gradient(self, rows: Rows, weight: XpArray, slopes: list[XpArray]) -> XpArray:
        """Return the gradient (Z, m) from d NLL / d S_l ``weight`` (L, m): pull back and gather."""
        xp = namespace_of(rows.x)
        t, index = self.tensors, self.index
        if not t.n_minimised:
            return xp.zeros((0, weight.shape[1]), dtype=self.dtype)
        row_weight = xp.take(weight, index["row_slot"], axis=0) * rows.factor
        moved = []
        if rows.additive is not None:
            pulled = self.pull @ row_weight
            moved.append(pulled[: t.n_histosys] + rows.additive[1] * pulled[t.n_histosys :])
        row_weight = row_weight * rows.shape
        if self.has_cell_factors:
            cells = self.cell_sum(row_weight)
            if rows.entries is not None:
                moved.append(xp.take(cells, index["entry_cell"], axis=0) * rows.entries[1] / rows.entries[0])
            if len(t.factor_z):
                x = xp.take(rows.x, index["factor_z"], axis=0)
                moved.append(xp.take(cells, index["factor_cell"], axis=0) / x)
        if len(t.row_factor_z):
            x = xp.take(rows.x, index["row_factor_z"], axis=0)
            moved.append(xp.take(row_weight, index["factor_row"], axis=0) / x)
        return self.gather(xp.concatenate([*moved, *slopes], axis=0))
