"""One batched, bounded minimiser: every fit is a column, and columns advance in lockstep.

Two tiers (docs/maths.md, "The fit"). The cheap tier is L-BFGS preconditioned by one inverse Fisher matrix for all
columns. Columns that it does not finish go to the robust tier: damped Newton with the exact Hessian of each
column, then from other starts, then with the domain's edge approached from inside. Gradients are analytic.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

import numpy as np

from nsmath._typing import Array, BoolArray, IntArray
from nsmath.backends.event_data import has_empty, with_pseudo_counts
from nsmath.backends.ops import Tile
from nsmath.fitting.kinks import fit_on_kinks

logger = logging.getLogger("nsmath.fitting")

KINK_STEPS = 30
"""Robust iterations before minima on kinks are tried."""


class FitStatus(IntEnum):
    """How the fit of a column ended; `message` says it in words."""

    CONVERGED = 0
    MAX_ITERATIONS = 1
    NO_DECREASE = 2
    OUT_OF_DOMAIN = 3

    @property
    def message(self) -> str:
        """One sentence for people."""
        return _MESSAGES[self]


_MESSAGES = {
    FitStatus.CONVERGED: "converged: Newton decrement and scaled projected gradient are below their tolerances",
    FitStatus.MAX_ITERATIONS: "the iteration limit was reached before convergence, from every start",
    FitStatus.NO_DECREASE: "no step decreases the NLL although the gradient is not small, from every start",
    FitStatus.OUT_OF_DOMAIN: "no start gives every bin a rate above 0 (where counts are) and never below 0",
}


@dataclass(frozen=True, slots=True)
class Tolerances:
    """When a column is converged, and how long each tier may try.

    Attributes
    ----------
    decrement : the NLL that a Newton step would still gain. q is twice a difference of two NLLs, so 1e-9 leaves
        its error far below 1e-6 even where the estimate is ten times too small.
    scaled : largest projected gradient times its parameter's uncertainty.
    cheap, robust : iterations of each tier; robust counts for each start.
    edge : pseudo-counts with which empty bins are kept off the edge of the domain, one after the other.
    """

    decrement: float = 1e-9
    scaled: float = 1e-3
    cheap: int = 24
    robust: int = 150
    edge: tuple[float, ...] = (1e-1, 1e-3, 1e-5, 1e-7, 1e-9)

    @property
    def ends(self) -> tuple[float, float]:
        """What tiles compare with: decrement and scaled."""
        return self.decrement, self.scaled


@dataclass(slots=True)
class Columns:
    """Results of N fits: ``z`` (Z, N), ``nll``, ``status``, ``n_iterations`` (N,), ``gammas`` (G, N).

    ``is_robust`` (N,) marks the columns that needed the robust tier; ``n_retried`` counts other starts.
    """

    z: Array
    nll: Array
    status: IntArray
    n_iterations: IntArray
    gammas: Array
    is_robust: BoolArray
    n_retried: int = 0
    n_evaluations: int = 0

    @property
    def n_robust(self) -> int:
        """Columns that the robust tier finished."""
        return int(np.sum(self.is_robust))

    @classmethod
    def empty(cls, n_z: int, n_gammas: int, n: int) -> Columns:
        """Return unset results for ``n`` columns."""
        return cls(
            np.empty((n_z, n)), np.full(n, np.inf), np.full(n, int(FitStatus.MAX_ITERATIONS)),
            np.zeros(n, dtype=np.int64), np.empty((n_gammas, n)), np.zeros(n, dtype=bool),
        )  # fmt: skip

    @classmethod
    def joined(cls, parts: Sequence[Columns]) -> Columns:
        """Return the columns of all parts, one after the other."""

        def join(name: str) -> Any:
            return np.concatenate([getattr(part, name) for part in parts], axis=-1)

        return cls(
            join("z"), join("nll"), join("status"), join("n_iterations"), join("gammas"), join("is_robust"),
            sum(part.n_retried for part in parts), sum(part.n_evaluations for part in parts),
        )  # fmt: skip

    def column(self, i: int) -> Columns:
        """Return column ``i`` alone; the counts of work stay those of all."""
        one = slice(i, i + 1)
        return Columns(
            self.z[:, one], self.nll[one], self.status[one], self.n_iterations[one], self.gammas[:, one],
            self.is_robust[one], self.n_retried, self.n_evaluations,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Problem:
    """What a batch of fits shares and what each brings.

    Attributes
    ----------
    data, aux : (B, N) and (A, N), a column for each fit; host arrays or the backend's own columns.
    starts : start vectors (Z,), the first one tried first; each column may bring its own first start (Z, N).
    fixed : (Z,) or (Z, N) parameters that keep their value in the first start, from whichever start a fit begins.
    matrix : (Z, Z) inverse information at the first start, for the cheap tier.
    poi : minimised index of the parameter that most often ends on a bound, -1 for none.
    kinks : minimised parameters whose interpolation has a kink at 0.
    """

    data: Any
    aux: Any
    starts: Sequence[Array]
    fixed: BoolArray
    matrix: Array
    poi: int = -1
    tolerances: Tolerances = field(default_factory=Tolerances)
    kinks: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def start(self, k: int, columns: IntArray) -> Array:
        """Return start ``k`` of these columns, (Z, n)."""
        start = self.starts[k]
        mine = start[:, columns] if start.ndim == 2 else np.repeat(start[:, None], len(columns), 1)
        if k == 0:
            return mine
        fixed = self.fixed_of(columns)
        return np.where(fixed if fixed.ndim == 2 else fixed[:, None], self.start(0, columns), mine)

    def fixed_of(self, columns: IntArray) -> BoolArray:
        """Return the fixed mask of these columns."""
        return self.fixed[:, columns] if self.fixed.ndim == 2 else self.fixed


def minimise(cheap: Tile, robust: Tile, problem: Problem) -> Columns:
    """Return the fits of all columns of ``problem``: cheap tier, then the robust one for what is left.

    Parameters
    ----------
    cheap : tile with quasi-Newton memory, at least as wide as the problem.
    robust : tile with Hessians; any width.
    """
    n_z, n = len(cheap.x), problem.data.shape[1]
    out = Columns.empty(n_z, len(cheap.gammas), n)
    left = _cheap_tier(cheap, problem, out)
    if len(left):
        out.is_robust[left] = True
        _robust_tier(robust, problem, out, left)
    return out


def _store(tile: Tile, which: BoolArray, ids: IntArray, out: Columns, status: FitStatus) -> None:
    """Write the tile's columns ``which`` to the results ``ids``."""
    if not len(ids):
        return
    out.z[:, ids], out.nll[ids], out.gammas[:, ids] = tile.results(np.flatnonzero(which))
    out.status[ids] = int(status)


def _cheap_tier(tile: Tile, problem: Problem, out: Columns) -> IntArray:
    """Run the quasi-Newton tier; return the columns that it leaves, their last point stored in ``out``."""
    n = problem.data.shape[1]
    tolerances = problem.tolerances
    ids = np.arange(n)
    if tolerances.cheap == 0:
        out.z[:] = problem.start(0, ids)
        return ids
    tile.set_matrix(problem.matrix)
    tile.poi = problem.poi
    tile.load(problem.start(0, ids), problem.data, problem.aux, problem.fixed_of(ids))
    tile.start()
    out.n_evaluations += tile.n
    stubborn: list[IntArray] = []
    for i in range(tolerances.cheap):
        tile.descend()
        if i % tile.looks_every == 0:
            done, lost = tile.ended_cheap(tolerances.ends)
            if done.any() or lost.any():
                _store(tile, done, ids[done], out, FitStatus.CONVERGED)
                _store(tile, lost, ids[lost], out, FitStatus.MAX_ITERATIONS)
                stubborn.append(ids[lost])
                keep = np.flatnonzero(~(done | lost))
                ids = ids[keep]
                tile.keep(keep)
                if not len(keep):
                    break
        tile.accept()
        out.n_iterations[ids] += 1
        out.n_evaluations += tile.n
    if len(ids):
        _store(tile, np.ones(tile.n, dtype=bool), ids, out, FitStatus.MAX_ITERATIONS)
    return np.sort(np.concatenate([*stubborn, ids]))


def _robust_tier(tile: Tile, problem: Problem, out: Columns, left: IntArray) -> None:
    """Finish ``left`` from where the cheap tier stopped, along the domain's edge, and from every other start."""
    if len(problem.kinks):
        # Smooth steps seldom end on a kink: a few of them, then look.
        short = replace(problem, tolerances=replace(problem.tolerances, robust=KINK_STEPS))
        left = _on_kinks(tile, short, out, _newton(tile, short, out, left, out.z[:, left], 0.0))
    failed = _newton(tile, problem, out, left, out.z[:, left], 0.0)
    for k in range(len(problem.starts)):
        if not len(failed):
            return
        out.n_retried += len(failed) if k == 0 else 0
        failed = _edge(tile, problem, out, failed, problem.start(k, failed))
        failed = _newton(tile, problem, out, failed, problem.start(k, failed), 0.0)


def _on_kinks(tile: Tile, problem: Problem, out: Columns, failed: IntArray) -> IntArray:
    """Try minima on kinks for ``failed``; return the columns that this does not help."""
    fixed = (
        problem.fixed if problem.fixed.ndim == 2 else np.repeat(problem.fixed[:, None], problem.data.shape[1], axis=1)
    )

    def refit(columns: IntArray, x: Array, held: BoolArray) -> IntArray:
        mask = fixed.copy()
        mask[:, columns] = held
        return _newton(tile, replace(problem, fixed=mask), out, columns, x, 0.0)

    return fit_on_kinks(
        tile, problem.kinks, problem.data, problem.aux, fixed, failed, out.z[:, failed], refit, lambda c: out.z[:, c]
    )


def _edge(tile: Tile, problem: Problem, out: Columns, failed: IntArray, x: Array) -> IntArray:
    """Approach the edge of the domain from inside ``x`` (Z, n); return the columns that this does not help.

    Where a rate would go below 0 in an empty bin, the minimum lies on the edge lambda = 0, at which the NLL has a
    kink. Pseudo-counts e in empty bins make it smooth and move the minimum's NLL by the order of e; they shrink to
    nothing (docs/maths.md).
    """
    is_edge = has_empty(problem.data[:, failed])
    todo, x = failed[is_edge], x[:, is_edge]
    for pseudo in problem.tolerances.edge:
        if not len(todo):
            break
        stuck = _newton(tile, problem, out, todo, x, pseudo)
        todo = np.setdiff1d(todo, stuck)
        x = out.z[:, todo]
    return np.setdiff1d(failed, todo)


def _newton(tile: Tile, problem: Problem, out: Columns, left: IntArray, x: Array, pseudo_count: float) -> IntArray:
    """Run damped Newton on the columns ``left`` from ``x`` (Z, n); return those that failed.

    A tile that has become half empty takes in the next columns: most of an iteration's cost is by whole strips.
    """
    failed: list[IntArray] = []
    ids, age, loaded = left[:0], left[:0], 0
    while True:
        if loaded < len(left) and 2 * len(ids) <= tile.width:
            new = slice(loaded, loaded + tile.width - len(ids))
            _refill(tile, problem, left[new], x[:, new], pseudo_count, len(ids))
            ids, age = np.concatenate([ids, left[new]]), np.concatenate([age, np.zeros_like(left[new])])
            loaded = new.stop
            out.n_evaluations += tile.n
        if not len(ids):
            return np.sort(np.concatenate(failed)) if failed else left[:0]
        tile.curvature()
        tile.newton_descend()
        done, lost = tile.ended_robust(problem.tolerances.ends)
        late = ~(done | lost) & (age >= problem.tolerances.robust)
        if (done | lost | late).any():
            _store(tile, done, ids[done], out, FitStatus.CONVERGED)
            _store(tile, lost, ids[lost], out, FitStatus.NO_DECREASE)
            _store(tile, late, ids[late], out, FitStatus.MAX_ITERATIONS)
            outside = ids[lost][~np.isfinite(out.nll[ids[lost]])]
            out.status[outside] = int(FitStatus.OUT_OF_DOMAIN)
            failed.append(ids[lost | late])
            keep = np.flatnonzero(~(done | lost | late))
            ids, age = ids[keep], age[keep]
            tile.keep(keep)
            if not len(keep):
                continue
        tile.newton_accept()
        age += 1
        out.n_iterations[ids] += 1
        out.n_evaluations += tile.n


def _refill(tile: Tile, problem: Problem, ids: IntArray, x: Array, pseudo_count: float, at: int) -> None:
    """Load the columns ``ids`` behind the tile's first ``at``, and evaluate all."""
    data = problem.data[:, ids]
    if pseudo_count:
        data = with_pseudo_counts(data, pseudo_count)
    tile.load(x, data, problem.aux[:, ids], problem.fixed_of(ids), at)
    tile.start(at)
