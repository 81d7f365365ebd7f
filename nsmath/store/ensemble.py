"""`Ensemble`: what a study keeps of its toys, an entry for each, and `Work`: what they took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from nsmath._typing import AnyArray, Array, BoolArray, IntArray
from nsmath.errors import StoreError
from nsmath.fitting.minimiser import FitStatus

COLUMNS: dict[str, type] = {
    "index": np.int64,
    "q": np.float64,
    "mu_hat": np.float64,
    "free_nll": np.float64,
    "conditional_nll": np.float64,
    "free_status": np.int8,
    "conditional_status": np.int8,
    "free_iterations": np.int16,
    "conditional_iterations": np.int16,
}
"""Field of `Ensemble` -> its type, in memory and in Parquet parts."""


@dataclass(frozen=True, slots=True, eq=False)
class Ensemble:
    """Toys of one hypothesis at one tested mu, each array of shape (N,), types as in `COLUMNS`.

    Attributes
    ----------
    index : which toys these are, ascending; with seed and hypothesis, all that is needed to draw one again.
    q : test statistic; NaN where a fit failed after all retries.
    mu_hat : best-fit POI.
    free_nll, conditional_nll : minima of the NLL relative to the saturated model; the conditional one is NaN where it
        was not needed, because q is 0 whatever it gives.
    free_status, conditional_status : `FitStatus` numbers; a conditional fit that was not needed counts as converged.
    free_iterations, conditional_iterations : of the minimiser.
    """

    index: IntArray
    q: Array
    mu_hat: Array
    free_nll: Array
    conditional_nll: Array
    free_status: IntArray
    conditional_status: IntArray
    free_iterations: IntArray
    conditional_iterations: IntArray

    def __post_init__(self) -> None:
        for name, kind in COLUMNS.items():
            # Iterations beyond the type's range would be a defect; numpy would wrap them around without a word.
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=kind))

    def __len__(self) -> int:
        return len(self.index)

    @property
    def failed(self) -> BoolArray:
        """Toys without a trustworthy q."""
        failed: BoolArray = np.isnan(self.q)
        return failed

    @property
    def n_failed(self) -> int:
        """Their number."""
        return int(np.count_nonzero(self.failed))

    def count(self, *statuses: FitStatus) -> int:
        """Return the number of toys of which a fit ended in one of these statuses."""
        numbers = [int(status) for status in statuses]
        return int(np.sum(np.isin(self.free_status, numbers) | np.isin(self.conditional_status, numbers)))

    def columns(self) -> dict[str, AnyArray]:
        """Return the arrays by name."""
        return {name: getattr(self, name) for name in COLUMNS}

    def between(self, first: int, last: int) -> Ensemble:
        """Return the toys with first <= index < last."""
        part = slice(*np.searchsorted(self.index, (first, last)))
        return Ensemble(**{name: array[part] for name, array in self.columns().items()})

    @classmethod
    def joined(cls, parts: Sequence[Ensemble]) -> Ensemble:
        """Return all toys of ``parts``, by index; no parts are no toys.

        Raises
        ------
        StoreError
            A toy stands in two of them.
        """
        if not parts:
            return cls(**{name: np.empty(0, dtype=kind) for name, kind in COLUMNS.items()})
        # By their first toy the parts of a run are in order, and need no sorting toy by toy.
        parts = sorted(parts, key=lambda part: int(part.index[0]) if len(part) else 0)
        columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS}
        joined = cls(**columns)
        if (np.diff(joined.index) < 0).any():
            order = np.argsort(joined.index, kind="stable")
            joined = cls(**{name: array[order] for name, array in columns.items()})
        double = np.flatnonzero(joined.index[1:] == joined.index[:-1])
        if len(double):
            raise StoreError(f"toy {joined.index[double[0]]} is there twice; each toy may be counted once.")
        return joined


@dataclass(frozen=True, slots=True)
class Work:
    """What fits took: their number, how many the robust tier finished, how many were retried, evaluations."""

    fits: int = 0
    exact_newton: int = 0
    retried: int = 0
    evaluations: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))
