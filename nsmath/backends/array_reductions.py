"""Sums and products of rows that share a key, in a fixed order: scatter-adds of a GPU would not have one."""

from __future__ import annotations

import numpy as np

from nsmath._typing import IntArray
from nsmath.backends.array_door import ArrayDoor, XpArray, namespace_of


class Grouped:
    """Reduces the rows of an array (..., C, m) that share a key to (..., n, m).

    Groups of similar size are gathered together, padded to a power of two with a row that changes nothing.

    Parameters
    ----------
    keys : (C,) group of each row, 0 to n - 1; groups may be empty.
    product : multiply instead of add.
    """

    def __init__(self, door: ArrayDoor, keys: IntArray, n: int, *, product: bool = False) -> None:
        xp = door.xp
        self.n, self.neutral = n, 1.0 if product else 0.0
        self._reduce = xp.prod if product else xp.sum
        members = [np.flatnonzero(keys == k) for k in range(n)]
        widths = [1 << max(len(rows) - 1, 0).bit_length() for rows in members]
        self._tables, order = [], []
        for width in sorted(set(widths)):
            groups = [k for k in range(n) if widths[k] == width]
            table = np.full((len(groups), width), len(keys), dtype=np.int64)
            for i, k in enumerate(groups):
                table[i, : len(members[k])] = members[k]
            self._tables.append(door.index(table))
            order += groups
        self._order = door.index(np.argsort(order)) if order != list(range(n)) else None

    def __call__(self, values: XpArray) -> XpArray:
        """Return the reduced rows."""
        xp = namespace_of(values)
        shape = (*values.shape[:-2], 1, values.shape[-1])
        padded = xp.concatenate([values, xp.full(shape, self.neutral, dtype=values.dtype)], axis=-2)
        parts = [self._reduce(xp.take(padded, table, axis=-2), axis=-2) for table in self._tables]
        joined = parts[0] if len(parts) == 1 else xp.concatenate(parts, axis=-2)
        return joined if self._order is None else xp.take(joined, self._order, axis=-2)


def total(terms: XpArray) -> XpArray:
    """Return the sums over the rows of ``terms`` (C, m), (m,).

    In two stages: the rounding of float32 then grows with the fourth root of C, not with its square root.
    """
    xp = namespace_of(terms)
    n = terms.shape[0]
    block = max(int(np.sqrt(n)), 1)
    padding = xp.zeros((-n % block, terms.shape[1]), dtype=terms.dtype)
    blocks = xp.concatenate([terms, padding], axis=0).reshape(-1, block, terms.shape[1])
    return blocks.sum(axis=1).sum(axis=0)
