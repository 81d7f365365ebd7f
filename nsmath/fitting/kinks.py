"""Minima on kinks: piecewise codes (code0, code1) have another slope on either side of alpha = 0.

Where the NLL falls towards alpha = 0 from both sides, its minimum lies on the kink, where no gradient vanishes and no
step of a smooth method ends. There alpha is held at 0, the others are fitted, and the one-sided derivatives say whether
that is the minimum (docs/maths.md, "The fit"; Nocedal & Wright, section 12 on nonsmooth optimality: 0 must lie
between them).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nsmath._typing import Array, BoolArray, IntArray
from nsmath.backends.ops import Tile
from nsmath.model.tensors import ModelTensors

NEAR = 0.05
"""Parameters this close to their kink, in widths of their constraint, are tried on it."""
STEP = 1e-9
"""How far from a kink its one-sided derivatives are taken."""
SLACK = 1e-6
"""One-sided derivatives may miss 0 by this: the NLL gains less than its product with `NEAR`."""
ROUNDS = 8

Refit = Callable[[IntArray, Array, BoolArray], IntArray]
"""Fits columns from starts (Z, n) with a mask (Z, n) of what is held; returns the columns that failed."""


def kinks_of(tensors: ModelTensors) -> IntArray:
    """Return the minimised parameters whose interpolation has a kink at 0."""
    t = tensors
    additive = t.histosys_z if t.additive[0] == 0.0 else t.histosys_z[:0]
    multiplicative = t.entry_z if t.multiplicative_threshold[0] == 0.0 else t.entry_z[:0]
    return np.unique(np.concatenate([additive, multiplicative])).astype(np.int64)


def fit_on_kinks(
    tile: Tile, kinks: IntArray, data: Any, aux: Any, fixed: BoolArray, columns: IntArray, x: Array,
    refit: Refit, results: Callable[[IntArray], Array],
) -> IntArray:  # fmt: skip
    """Fit ``columns`` with parameters held on their kinks where that is the minimum; return those that still fail.

    Parameters
    ----------
    data, aux : (B, N), (A, N). fixed : (Z, N) what is fixed anyhow. x : (Z, n) where the columns have stopped.
    refit : see `Refit`. results : returns the fitted parameters (Z, m) of columns.
    """
    at, todo = x.copy(), np.arange(len(columns))
    held = np.zeros(x.shape, dtype=bool)
    held[kinks] = (np.abs(x[kinks]) < NEAR) & ~fixed[kinks][:, columns]
    failed: list[int] = []
    for turn in range(ROUNDS):
        if not len(todo):
            break
        at[:, todo] = np.where(held[:, todo], 0.0, at[:, todo])
        bad = refit(columns[todo], at[:, todo], fixed[:, columns[todo]] | held[:, todo])
        at[:, todo] = results(columns[todo])
        is_bad = np.isin(columns[todo], bad)
        # What has moved onto its kink meanwhile joins the held ones; then it is tried again.
        near = np.zeros_like(held[:, todo])
        near[kinks] = (np.abs(at[kinks][:, todo]) < NEAR * 2.0 ** min(turn, 3)) & ~fixed[kinks][:, columns[todo]]
        joins = near & ~held[:, todo] & is_bad
        above, below = (
            _gradient(tile, data[:, columns[todo]], aux[:, columns[todo]], at[:, todo] + side * STEP * held[:, todo])
            for side in (1.0, -1.0)
        )
        free_above, free_below = held[:, todo] & (above < -SLACK), held[:, todo] & (below > SLACK)
        leaves = (free_above | free_below) & ~is_bad
        done = ~is_bad & ~leaves.any(axis=0)
        hopeless = is_bad & ~joins.any(axis=0) & (turn >= 3)
        failed += [int(c) for c in columns[todo[hopeless]]]
        step = np.where(free_above, NEAR, -NEAR)
        at[:, todo] = np.where(leaves, step, at[:, todo])
        held[:, todo] = (held[:, todo] | joins) & ~leaves
        todo = todo[~done & ~hopeless]
    failed += [int(c) for c in columns[todo]]
    return np.array(sorted(failed), dtype=np.int64)


def _gradient(tile: Tile, data: Any, aux: Any, x: Array) -> Array:
    """Return the gradients (Z, n) at ``x``, a tile at a time."""
    parts = []
    for first in range(0, x.shape[1], tile.width):
        part = slice(first, first + tile.width)
        tile.load(x[:, part], data[:, part], aux[:, part], np.zeros(len(x), dtype=bool))
        tile.start()
        parts.append(tile.to_host(tile.gradient[:, : tile.n]).copy())
    return np.concatenate(parts, axis=1)
