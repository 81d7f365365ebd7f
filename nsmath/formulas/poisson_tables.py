"""Tables from which Poisson counts are drawn by inversion: one per rate, built once per ensemble.

All toys of an ensemble share their rates. A count then costs one uniform, one look into a guide table and a
short linear search in the cumulative distribution (Chen & Asau, AIIE Trans. 6 (1974) 163; Devroye,
"Non-Uniform Random Variate Generation", 1986, section III.2.4). Built with + - * / and sqrt in a fixed order
only, so every host builds the same bits. Rates above `TABLE_LIMIT` are drawn by rejection instead
(`nsmath.formulas.random.ptrs_count`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nsmath._typing import Array, BoolArray, IntArray

TABLE_LIMIT = 1.0e4
"""Rates up to here get a table where the budget allows: about 1700 entries at the limit."""

REJECTION_MINIMUM = 1.0e3
"""Rates below here always get a table; `ptrs_count` holds above."""

RATE_MAXIMUM = 1.0e15
"""Largest rate that can be drawn: counts stay exact in float64."""

TABLE_BYTES = 100_000_000
"""Budget of one set of tables; the largest rates below `TABLE_LIMIT` lose theirs first."""

# Short tables are cheap: more cells, fewer steps.
_MIN_CELLS = 32

# Rates worked on at a time: rows of at most 2049 entries, so that temporaries stay near 1 MB.
_ROWS = 64

SMALLEST_UNIFORM = 2.0**-53
"""The smallest uniform; 1 minus it is the largest (`nsmath.formulas.random.unit_uniform`)."""


@dataclass(frozen=True, slots=True, repr=False)
class SamplingTables:
    """What a kernel needs to draw A independent Poisson counts.

    Attributes
    ----------
    rates : array, shape (A,), means.
    uses_table : array of bool, shape (A,); False: rejection.
    cdf : array, shape (sum of table sizes,): P(count <= k) for consecutive k, each table ends with 1.
    cdf_start : array, shape (A + 1,); table i is ``cdf[cdf_start[i] : cdf_start[i + 1]]``, else empty.
    guide : array of uint16: see `guide_table`.
    guide_start : array, shape (A + 1,); the number of cells of a table is a power of two.
    first_count : array, shape (A,): the count that the table's first entry means.
    """

    rates: Array
    uses_table: BoolArray
    cdf: Array
    cdf_start: IntArray
    guide: NDArray[np.uint16]
    guide_start: IntArray
    first_count: IntArray

    def __repr__(self) -> str:
        n_tables = int(np.count_nonzero(self.uses_table))
        return f"SamplingTables({self.rates.size} rates, {n_tables} by table, {self.n_bytes} bytes)"

    @property
    def n_bytes(self) -> int:
        """Memory of the tables in bytes."""
        return self.cdf.nbytes + self.guide.nbytes


def table_reach(rates: Array) -> IntArray:
    """Return how many counts each table looks at on either side of its mode, a power of two.

    9 sigma and the skewness term (z^2 - 1) / 6 = 13 lead beyond 2^-53. Quantised so that few widths occur, by
    the rate alone so that a rate has the same table in every model.
    """
    return np.exp2(np.ceil(np.log2(9.0 * np.sqrt(rates) + 20.0))).astype(np.int64)


def poisson_cdf(rates: Array, reach: int) -> Array:
    """Return P(count <= k) for k = mode - reach to mode + reach, shape (A, 2 reach + 1), mode = floor(rate).

    Neighbouring probabilities have the ratio rate / k, so they follow from the mode by products and are
    normalised by their sum. Each half is summed from its far end, where terms are smallest. Errors stay below
    1e-15 (tests/random/test_poisson_tables.py).
    """
    rate = rates[:, None]
    mode = np.floor(rate)
    steps = np.arange(reach)
    # Below 0 counts have probability 0; at rate 0 the mode is 0 and any divisor will do.
    falling = np.cumprod(np.maximum(mode - steps, 0.0) / np.where(rate > 0.0, rate, 1.0), axis=1)
    rising = np.cumprod(rate / (mode + 1.0 + steps), axis=1)
    one, zero = np.ones_like(rate), np.zeros_like(rate)
    left = np.cumsum(np.concatenate([falling[:, ::-1], one], axis=1), axis=1)
    right = np.cumsum(np.concatenate([zero, rising[:, ::-1]], axis=1), axis=1)[:, ::-1]
    total = left[:, -1:] + right[:, :1]
    return np.concatenate([left / total, 1.0 - right[:, 1:] / total], axis=1)


def guide_table(cdf: Array) -> NDArray[np.uint16]:
    """Return, for equal cells of (0, 1), the first position in ``cdf`` whose entry exceeds the lower edge.

    That is the number of entries up to the edge, hence a running count. As many cells as entries, rounded up
    to a power of two: few uniforms then need more than two steps.
    """
    n_cells = max(_MIN_CELLS, 1 << (cdf.size - 1).bit_length())
    cell = np.ceil(cdf * n_cells).astype(np.int64)
    return np.cumsum(np.bincount(cell, minlength=n_cells)[:n_cells]).astype(np.uint16)


def poisson_tables(rates: Array, max_bytes: int = TABLE_BYTES) -> SamplingTables:
    """Return the tables of all rates; the result is a function of ``rates`` and ``max_bytes`` only.

    Parameters
    ----------
    rates : array, shape (A,), means, 0 <= rate <= 1e15 (checked by the caller).
    max_bytes : budget for tables of rates above `REJECTION_MINIMUM`; beyond it the largest are rejected.
    """
    rates = np.ascontiguousarray(rates, dtype=np.float64)
    assert rates.ndim == 1 and bool(np.all((rates >= 0.0) & (rates <= RATE_MAXIMUM)))
    uses_table = rates <= TABLE_LIMIT
    # 17 sigma of 8 bytes, and the guide, at most two cells of 2 bytes per entry.
    sizes = np.where(uses_table, 12.0 * (17.0 * np.sqrt(rates) + 20.0), 0.0)
    order = np.argsort(rates, kind="stable")
    in_budget = np.empty(rates.size, dtype=np.bool_)
    in_budget[order] = np.cumsum(sizes[order]) <= max_bytes
    uses_table &= in_budget | (rates < REJECTION_MINIMUM)

    first_count = np.zeros(rates.size, dtype=np.int64)
    cdfs = [np.empty(0)] * rates.size
    reaches = np.where(uses_table, table_reach(rates), 0)
    for reach in np.unique(reaches[uses_table]):
        members = np.flatnonzero(reaches == reach)
        for begin in range(0, members.size, _ROWS):
            some = members[begin : begin + _ROWS]
            cdf = poisson_cdf(rates[some], int(reach))
            # Entries that no uniform can select are cut off.
            first = np.count_nonzero(cdf <= SMALLEST_UNIFORM, axis=1)
            last = np.count_nonzero(cdf < 1.0 - SMALLEST_UNIFORM, axis=1)
            cdf[np.arange(some.size), last] = 1.0
            first_count[some] = np.floor(rates[some]).astype(np.int64) - reach + first
            for row, i in enumerate(some):
                cdfs[i] = cdf[row, first[row] : last[row] + 1].copy()
    guides = [guide_table(cdf) if cdf.size else np.empty(0, dtype=np.uint16) for cdf in cdfs]
    return SamplingTables(
        rates=rates,
        uses_table=uses_table,
        cdf=np.concatenate([np.empty(0), *cdfs]),
        cdf_start=_starts([table.size for table in cdfs]),
        guide=np.concatenate([np.empty(0, dtype=np.uint16), *guides]),
        guide_start=_starts([table.size for table in guides]),
        first_count=first_count,
    )


def _starts(sizes: list[int]) -> IntArray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
