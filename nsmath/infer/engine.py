"""Engines: who computes the tiles of a study. Threads of one plan, or any `concurrent.futures.Executor`."""

from __future__ import annotations

import hashlib
import pickle
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, Executor
from functools import partial
from typing import Protocol

import numpy as np

from nsmath.errors import FitError
from nsmath.infer.toys import ToyStudy, run_toys
from nsmath.plan.plan import Plan, Worker
from nsmath.plan.windowed import results_as_completed
from nsmath.store.ensemble import Ensemble, Work
from nsmath.store.ranges import Range

Tile = tuple[str, Range, Ensemble | None]
"""(name of the study, toys first <= index < last, the same toys at another mu if there are any)."""
Done = tuple[str, Ensemble, Work]

PLANS_KEPT = 4
"""Plans that a worker process keeps for the next tile of the same study."""


class Engine(Protocol):
    """Computes tiles of studies, in whatever order."""

    def results(self, plan: Plan, studies: Mapping[str, ToyStudy], tiles: Iterable[Tile]) -> Iterator[Done]:
        """Yield the results of all ``tiles``, as they complete."""


class Threads:
    """The threads of the plan itself."""

    def results(self, plan: Plan, studies: Mapping[str, ToyStudy], tiles: Iterable[Tile]) -> Iterator[Done]:
        """Yield the results of all ``tiles``, as they complete."""

        def run(_: Worker, tile: Tile) -> Done:
            name, (first, last), known = tile
            return name, *run_toys(plan, studies[name], np.arange(first, last), known)

        return plan.each(run, tiles)


class Workers:
    """Any executor: a process pool, a Dask client's, MPI's. Results are those of one process, bit for bit.

    Every worker builds the plan once, from the model and tuned values that come with its first tile, and keeps it.

    Parameters
    ----------
    executor : from ``concurrent.futures``, or anything with its interface; it is not shut down here.
    n_workers : how many tiles it works on at a time.
    """

    def __init__(self, executor: Executor, n_workers: int) -> None:
        self.executor, self.n_workers = executor, n_workers

    def results(self, plan: Plan, studies: Mapping[str, ToyStudy], tiles: Iterable[Tile]) -> Iterator[Done]:
        """Yield the results of all ``tiles``, as they complete.

        Raises
        ------
        FitError
            A worker died and the executor cannot replace it.
        """
        payload = pickle.dumps((plan.model, plan.backend, plan.dtype, plan.tuned, dict(studies)))
        run = partial(_run_tile, payload, hashlib.sha256(payload).hexdigest())
        try:
            yield from results_as_completed(self.executor, run, tiles, 2 * self.n_workers)
        except BrokenExecutor as error:
            raise FitError(
                f"a worker process died ({error or type(error).__name__}): killed, or out of memory. What was "
                "finished before is kept if the run has a store; run the same command again to go on."
            ) from error


_kept: OrderedDict[str, tuple[Plan, dict[str, ToyStudy]]] = OrderedDict()
_keeping = threading.Lock()


def _run_tile(payload: bytes, key: str, tile: Tile) -> Done:
    """Compute one tile in a worker process."""
    with _keeping:
        if key not in _kept:
            model, backend, dtype, tuned, studies = pickle.loads(payload)
            # Other threads of this process may still use an older plan: it is left to the collector, not freed.
            _kept[key] = (Plan(model, backend=backend, dtype=dtype, threads=1, tuned=tuned), studies)
            while len(_kept) > PLANS_KEPT:
                _kept.popitem(last=False)
        plan, studies = _kept[key]
    name, (first, last), known = tile
    return name, *run_toys(plan, studies[name], np.arange(first, last), known)
