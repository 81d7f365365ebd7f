"""Exact Hessians of the profile likelihood for all columns at once, by batched matmuls (docs/maths.md, section 6).

With u_r the logarithmic slopes of a row's factors, v_r its slope by the histosys parameters and rho_r the row,

    d rho_r = v_r + rho_r u_r,    d2 rho_r = u_r v_r' + v_r u_r' + rho_r u_r u_r'  off the diagonal,

where on the diagonal f''/f stands for (f'/f)^2. So all second derivatives are one product M + M' of (rows, Z) matrices.
"""

from __future__ import annotations

import numpy as np

from nsmath.backends.array_bins import Constraint, Profile, Solved, constraints
from nsmath.backends.array_door import ArrayDoor, Compiler, XpArray, namespace_of
from nsmath.backends.array_likelihood import Likelihood, Rows
from nsmath.backends.array_reductions import Grouped
from nsmath.model.tensors import ModelTensors

TINY_AUX = {"float64": 1e-7, "float32": 1e-3}
"""Stands in for an auxiliary Poisson count of 0, whose gamma the Hessian could not see otherwise; terms of the order of
its inverse cancel in eq. (13), which must leave digits."""


class Curvature:
    """Tables of the Hessian of one `Likelihood`."""

    def __init__(self, door: ArrayDoor, likelihood: Likelihood, compiler: Compiler) -> None:
        t = self.tensors = likelihood.tensors
        self.likelihood, self.door = likelihood, door
        self.factor_table = door.index(_factor_table(t))
        half, curved = np.zeros((2, t.n_rows, t.n_minimised))
        half[:, t.histosys_z], curved[:, t.histosys_z] = np.split(t.template, 2, axis=1)
        self.half, self.curved = door.constant(half), door.constant(curved)
        feature = np.full(t.n_minimised, t.n_histosys)
        feature[t.histosys_z] = np.arange(t.n_histosys)
        self.feature = door.index(feature)
        self.prior_sum = Grouped(door, np.concatenate([t.z_normal, t.z_poisson]), t.n_minimised)
        slot_bin = np.repeat(np.arange(t.n_bins), np.diff(t.bin_slot))
        self.bin_sum = Grouped(door, slot_bin, t.n_bins)
        # A gamma's count may not be 0 here; all other auxiliary data stay.
        least = np.full((t.n_aux, 1), -np.inf)
        least[t.gamma_aux[t.gamma_is_poisson == 1]] = TINY_AUX[door.dtype]
        self.least_aux = door.constant(least)
        self._compute = compiler(self._hessian)

    def __call__(self, z: XpArray, data: XpArray, aux: XpArray) -> tuple[XpArray, XpArray]:
        """Return Hessians (m, Z, Z) and the constraints' own curvature (m, Z) at ``z`` (Z, m)."""
        xp = namespace_of(z)
        model = self.likelihood
        gamma_aux = xp.maximum(aux, self.least_aux)
        several = ()
        if self.tensors.n_gammas and model.bins.roots is not None:
            several = tuple(model.several(model.front(z), data, gamma_aux))
        hessian, prior = self._compute(z, data, aux, gamma_aux, *several)
        return hessian, prior

    def _hessian(
        self, z: XpArray, data: XpArray, aux: XpArray, gamma_aux: XpArray, *several: XpArray
    ) -> tuple[XpArray, XpArray]:
        xp = namespace_of(z)
        model = self.likelihood
        rows = model.rows(z)
        bins = model.bin_profile(rows.slots, data, gamma_aux, Solved(*several) if several else None)
        u, bend, v = self._row_slopes(rows)
        rho = (rows.shape * rows.factor).T[:, :, None]
        omega = xp.take(model.slot_weight(bins.residual, bins.gammas), model.index["row_slot"], axis=0).T[:, :, None]
        hessian = self._dense(model.slot_sum(v + rho * u), rows, bins, data, gamma_aux)
        mixed = xp.swapaxes(u, 1, 2) @ (omega * (v + 0.5 * rho * u))
        prior = self._prior(z, aux).T
        # On the diagonal the two halves of rho u u' would have to cancel against f''/f: it is summed by itself.
        diagonal = (omega * (2.0 * u * v + rho * bend)).sum(axis=1) + prior
        if rows.additive is not None:
            weight = omega * rows.factor.T[:, :, None]
            diagonal = diagonal + (weight * self.curved).sum(axis=1) * self._by_parameter(rows.additive[2])
        eye = xp.eye(self.tensors.n_minimised, dtype=hessian.dtype)
        mixed = xp.where(eye > 0.0, 0.0, mixed + xp.swapaxes(mixed, 1, 2))
        return hessian + mixed + diagonal[:, :, None] * eye, prior

    def _row_slopes(self, rows: Rows) -> tuple[XpArray, XpArray, XpArray]:
        """Return u, the same with f''/f, and v, each (m, R, Z)."""
        xp = namespace_of(rows.x)
        inverse = 1.0 / rows.x
        none = xp.zeros_like(inverse[:1])
        slopes, bends = [none], [none]
        if rows.entries is not None:
            value, first, second = rows.entries
            slopes.append(first / value)
            bends.append(second / value)
        slope = xp.concatenate([*slopes, inverse], axis=0).T
        bend = xp.concatenate([*bends, xp.zeros_like(inverse)], axis=0).T
        v = xp.broadcast_to(self.half, (slope.shape[0], *self.half.shape))
        if rows.additive is not None:
            v = v + self._by_parameter(rows.additive[1])[:, None] * self.curved
        return (
            xp.take(slope, self.factor_table, axis=1),
            xp.take(bend, self.factor_table, axis=1),
            v * rows.factor.T[:, :, None],
        )

    def _by_parameter(self, features: XpArray) -> XpArray:
        """Return values of histosys features (H, m) by minimised parameter, (m, Z), 0 for all others."""
        xp = namespace_of(features)
        padded = xp.concatenate([features, xp.zeros_like(features[:1])], axis=0)
        return xp.take(padded, self.feature, axis=0).T

    def _dense(self, jacobian: XpArray, rows: Rows, bins: Profile, data: XpArray, aux: XpArray) -> XpArray:
        """Return eq. (13) between the slots' Jacobians (m, L, Z)."""
        xp = namespace_of(jacobian)
        model, rate = self.likelihood, bins.rate
        weight = xp.where((data > 0.0) & (rate > 0.0), data / (rate * rate), 0.0)
        if not self.tensors.n_gammas:
            by_bin = self.bin_sum(jacobian)
            return xp.swapaxes(by_bin, 1, 2) @ (weight.T[:, :, None] * by_bin)
        c = constraints(model.bins, rows.slots, aux)
        r = xp.take(bins.residual, model.bins.gamma_bin, axis=0)
        per_s = xp.where(bins.is_free, _gamma_slope(c, bins.gammas, r), 0.0)
        # d gamma / d r = (S / r) d gamma / d S; written out, for r may be 0.
        per_r = xp.where(bins.is_free, _gamma_slope(c, bins.gammas, xp.ones_like(r), r) * c.s, 0.0)
        kappa = model.bins.by_bin(c.s * per_r)
        weight = weight / (1.0 - kappa * weight)
        weight = xp.where(bins.held & (kappa < 0.0), -1.0 / kappa, weight)
        one = xp.ones_like(r[:1])
        share = xp.take(xp.concatenate([bins.gammas + c.s * per_s, one], axis=0), model.bins.slot_gamma, axis=0)
        by_bin = self.bin_sum(share.T[:, :, None] * jacobian)
        own = xp.take(jacobian, model.bins.gamma_slot, axis=1)
        left = xp.concatenate([by_bin, own], axis=1)
        scale = xp.concatenate([weight, r * per_s], axis=0).T[:, :, None]
        return xp.swapaxes(left, 1, 2) @ (scale * left)

    def _prior(self, z: XpArray, aux: XpArray) -> XpArray:
        """Return the second derivatives of the minimised parameters' constraints, (Z, m)."""
        xp = namespace_of(z)
        model, parts = self.likelihood, []
        if model.n_normal:
            parts.append(xp.broadcast_to(1.0 / (model.sigma * model.sigma), (model.n_normal, z.shape[1])))
        if model.n_poisson:
            value = xp.take(z, model.z_poisson, axis=0)
            parts.append(xp.take(aux, model.aux_poisson, axis=0) / (value * value))
        return self.prior_sum(xp.concatenate(parts, axis=0)) if parts else xp.zeros_like(z)


def _gamma_slope(c: Constraint, gamma: XpArray, factor: XpArray, r: XpArray | None = None) -> XpArray:
    """Return ``-gamma factor / (tau + S r)`` (Poisson) or ``-sigma^2 factor`` (normal): d gamma / d S for factor r."""
    xp = namespace_of(c.s)
    at = factor if r is None else r
    return xp.where(
        c.is_poisson, -gamma * factor / (c.tau * (1.0 + c.ratio * at)), -c.sigma * c.sigma * factor
    )  # fmt: skip


def _factor_table(tensors: ModelTensors) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Return (R, Z) which factor of a row a parameter moves: 0 none, then the normsys entries, then parameters."""
    t = tensors
    n_entries = len(t.entry_z)
    table = np.zeros((t.n_rows, t.n_minimised), dtype=np.int64)
    for q in range(t.n_cells):
        rows = slice(t.cell_row[q], t.cell_row[q + 1])
        entries = np.arange(t.cell_entry[q], t.cell_entry[q + 1])
        table[rows, t.entry_z[entries]] = 1 + entries
        z = t.factor_z[t.cell_factor[q] : t.cell_factor[q + 1]]
        table[rows, z] = 1 + n_entries + z
    for r in range(t.n_rows):
        z = t.row_factor_z[t.row_factor_start[r] : t.row_factor_start[r + 1]]
        table[r, z] = 1 + n_entries + z
    return table
