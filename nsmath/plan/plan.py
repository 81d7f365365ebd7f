"""`Plan`: the live buffers and planned matmuls of one model on one backend, reused over a whole study.

specify -> plan -> autotune -> execute -> free, as a context manager. A plan has one worker for each thread; a
worker owns a tile for each tier of the minimiser, made on its own thread and never shared.
"""

from __future__ import annotations

import importlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from nsmath.backends.ops import BACKENDS, BackendModel, Tile
from nsmath.backends.transfers import Ledger
from nsmath.errors import BackendError, OptionError, PlanError
from nsmath.model.model import Model
from nsmath.plan.cache import cached_plan, measured_values, plan_path, read_plan, write_plan
from nsmath.plan.tuned import ROBUST_WIDTHS, WIDTHS, PlanKey, Tuned, available_cores, machine_name
from nsmath.plan.windowed import results_as_completed

logger = logging.getLogger("nsmath.plan")

MEMORY = 6
"""Pairs of the quasi-Newton recursion."""
TUNING_BUDGET = 0.05
"""Seconds that tuning spends on one tile width."""
UNTUNED = Tuned(width=128, robust_width=32, newton_cost=8.0)

Result = TypeVar("Result")


class Worker:
    """One thread's tiles: ``cheap`` with quasi-Newton memory, ``robust`` with Hessians, ``whole`` for one point."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._cheap: Tile | None = None
        self._robust: Tile | None = None
        self._whole: Tile | None = None

    @property
    def cheap(self) -> Tile:
        """The cheap tier's tile, made on first use."""
        if self._cheap is None:
            self._cheap = self._plan.backend_model.tile(self._plan.tuned.width, memory=MEMORY)
        return self._cheap

    @property
    def robust(self) -> Tile:
        """The robust tier's tile, made on first use."""
        if self._robust is None:
            self._robust = self._plan.backend_model.tile(self._plan.tuned.robust_width, curvature=True)
        return self._robust

    @property
    def whole(self) -> Tile:
        """One column with a Hessian over all P parameters, no gamma profiled; made on first use."""
        if self._whole is None:
            self._whole = self._plan.whole_model.tile(1, curvature=True)
        return self._whole

    def free(self) -> None:
        """Free the tiles."""
        for tile in (self._cheap, self._robust, self._whole):
            if tile is not None:
                tile.free()
        self._cheap = self._robust = self._whole = None


class Plan:
    """Buffers, planned matmuls and tuned choices for (model, backend, dtype, tile width).

    Parameters
    ----------
    model : the model to plan for.
    backend : a row of `BACKENDS`, such as ``cpu``, ``mlx`` or ``reference``.
    threads : worker threads; all available cores when None, one where a device computes. Results do not depend on it.
    width : tile width, instead of the tuned one.
    file : plan file to take the tuned choices from, instead of the cache.
    tune : measure and store what no file or cache provides; False takes middling values.
    tuned : the tuned choices themselves, such as a store's; nothing is looked up then.
    dtype : ``float64``, or another that the backend offers.
    ledger : takes every copy between host and device; a new one when None.

    Raises
    ------
    OptionError, PlanError, BackendError
        Unknown backend, bad sizes, a plan file that is damaged or made for another model, no library.
    """

    def __init__(
        self,
        model: Model,
        *,
        backend: str = "cpu",
        threads: int | None = None,
        width: int | None = None,
        file: str | Path | None = None,
        tune: bool = True,
        tuned: Tuned | None = None,
        dtype: str = "float64",
        ledger: Ledger | None = None,
    ) -> None:
        if backend not in BACKENDS:
            raise OptionError(f"backend {backend!r} is unknown; expected one of {', '.join(BACKENDS)}.")
        if threads is not None and threads < 1:
            raise OptionError(f"threads is {threads}; expected 1 or more (leave it away for all cores).")
        if width is not None and (width < 8 or width % 8):
            raise OptionError(f"tile width is {width}; expected a multiple of 8.")
        self.model = model
        self.dtype, self.ledger = dtype, ledger or Ledger()
        self.backend_model = backend_model(backend, model, dtype=dtype, ledger=self.ledger)
        self.threads = self._allowed_threads(threads)
        self.key = self._key(backend)
        self._local = threading.local()
        self._workers: list[Worker] = []
        self._pool: ThreadPoolExecutor | None = None
        self._siblings: dict[float | None, Plan] = {}
        self.measured: dict[str, Any] = {}
        self.tuned = tuned or self._choose(file, tune)
        if width is not None:
            self.tuned = replace(self.tuned, width=width)
        logger.info(
            "plan: %s, %s, %d threads, tiles of %d and %d columns, model %s",
            self.backend_model.description, dtype, self.threads, self.tuned.width, self.tuned.robust_width,
            model.digest[:12],
        )  # fmt: skip

    def _allowed_threads(self, threads: int | None) -> int:
        most = self.backend_model.threads
        if most is not None and threads is not None and threads > most:
            raise OptionError(
                f"threads is {threads}, but backend {self.backend!r} is driven from {most}. Leave threads away."
            )
        return threads or most or available_cores()

    @cached_property
    def whole_model(self) -> BackendModel:
        """The model with every parameter minimised, none profiled, on the same backend."""
        return backend_model(self.backend, self.model.unprofiled, dtype=self.dtype, ledger=self.ledger)

    @cached_property
    def exact(self) -> Plan:
        """This plan, or one of the same backend in float64: fits that toys are thrown from must not be rounded."""
        if self.dtype == "float64":
            return self
        return Plan(self.model, backend=self.backend, threads=1, tuned=UNTUNED, ledger=self.ledger)

    @property
    def backend(self) -> str:
        """Name of the backend."""
        return self.backend_model.name

    @property
    def device(self) -> str:
        """Name of what computes: ``cpu``, ``cuda`` or ``metal``."""
        return self.backend_model.device_name

    @property
    def origin(self) -> dict[str, str]:
        """What results are computed by, for their records."""
        return {"backend": self.backend, "dtype": self.dtype, "device": self.device}

    @property
    def versions(self) -> dict[str, str]:
        """Versions of what computes."""
        return {name: getattr(self.key, name) for name in ("nsmath", "numpy", "numba", "nvmath", "blas")}

    def _key(self, backend: str) -> PlanKey:
        from importlib.metadata import PackageNotFoundError, version

        def installed(package: str) -> str:
            try:
                return version(package)
            except PackageNotFoundError:
                return "none"

        from nsmath import __version__

        return PlanKey(
            model=self.model.digest, backend=backend, dtype=self.dtype, machine=machine_name(),
            cores=available_cores(), nsmath=__version__, numpy=np.__version__, numba=installed("numba"),
            nvmath=installed("nvmath-python"), blas=self.backend_model.description,
        )  # fmt: skip

    # -- tuning --------------------------------------------------------------------------------------------

    def _choose(self, file: str | Path | None, tune: bool) -> Tuned:
        if file is not None:
            found, tuned = read_plan(Path(file))
            if found.model != self.model.digest:
                raise PlanError(
                    f"plan file {file} was made for model {found.model[:12]}, this one is {self.model.digest[:12]} "
                    "(another workspace, measurement, POI, patch or interpolation). Leave --plan away to tune anew."
                )
            difference = self.key.mismatch(found)
            if difference is not None:
                logger.warning("plan file %s was made elsewhere (%s): used all the same", file, difference)
            return tuned
        cached = cached_plan(self.key)
        if cached is not None or not tune or self.backend == "reference":
            self.measured = {} if cached is None else measured_values(plan_path(self.key))
            return cached or UNTUNED
        return self.autotune()

    def autotune(self) -> Tuned:
        """Measure tile widths and the cost of a robust iteration on this machine; store and return the choice."""
        started = time.perf_counter()
        per_width = {width: self._evaluation_time(width) for width in WIDTHS[:2]}
        for width in WIDTHS[2:]:
            # Wider tiles only get slower once they have left the cache; stop at the first clear sign of it.
            if per_width[max(per_width)] > 1.25 * min(per_width.values()):
                break
            per_width[width] = self._evaluation_time(width)
        best = min(per_width.values())
        width = min(w for w, t in per_width.items() if t <= 1.03 * best)
        robust_width, newton_time = min(((w, self._newton_time(w)) for w in ROBUST_WIDTHS), key=lambda item: item[1])
        # A cheap iteration is an evaluation and the recursion, which is about half as much again.
        tuned = Tuned(width, robust_width, round(max(newton_time / (1.5 * per_width[width]), 0.1), 2))
        measured: dict[str, Any] = {
            "microseconds_per_column": {w: round(1e6 * t, 3) for w, t in per_width.items()},
            "robust_microseconds_per_column": round(1e6 * newton_time, 3),
            "seconds": round(time.perf_counter() - started, 2),
        }
        logger.info("tuned in %.2f s: %s", time.perf_counter() - started, tuned)
        self.measured = measured
        write_plan(plan_path(self.key), self.key, tuned, measured)
        return tuned

    def _loaded(self, tile: Tile, n: int) -> None:
        t = self.model.tensors
        columns = np.ones(n)
        tile.load(
            np.outer(t.init[t.parameter], columns), np.outer(t.observed, columns),
            np.outer(t.aux_observed, columns), t.is_fixed[t.parameter].astype(bool),
        )  # fmt: skip
        tile.start()

    def _evaluation_time(self, width: int) -> float:
        """Return seconds per column of one evaluation in a tile of ``width`` columns: the best of several."""
        tile = self.backend_model.tile(width, memory=1)
        try:
            self._loaded(tile, width)

            def evaluation() -> None:
                tile.evaluate(tile.x, tile.trial_nll, tile.trial_gradient)
                tile.wait()

            return _best_time(evaluation) / width
        finally:
            tile.free()

    def _newton_time(self, width: int) -> float:
        """Return seconds per column of one robust iteration."""
        tile = self.backend_model.tile(width, curvature=True)
        try:
            self._loaded(tile, width)

            def iteration() -> None:
                tile.curvature()
                tile.newton_descend()
                tile.newton_accept()
                tile.wait()

            return _best_time(iteration) / width
        finally:
            tile.free()

    # -- execution -----------------------------------------------------------------------------------------

    @property
    def worker(self) -> Worker:
        """This thread's worker."""
        worker: Worker | None = getattr(self._local, "worker", None)
        if worker is None:
            worker = self._local.worker = Worker(self)
            self._workers.append(worker)
        return worker

    def each(self, function: Callable[[Worker, Any], Result], tasks: Iterable[Any]) -> Iterator[Result]:
        """Yield ``function(worker, task)`` of all tasks, as they complete, from this plan's threads.

        See `results_as_completed` for what leaving the iterator early does.
        """
        if self.threads == 1:
            for task in tasks:
                yield function(self.worker, task)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="nsmath")
        yield from results_as_completed(self._pool, lambda task: function(self.worker, task), tasks, 2 * self.threads)

    def with_poi_above(self, lower: float) -> Plan:
        """Return a plan for the same model whose parameter of interest may not go below ``lower``."""
        poi = self.model.require_poi()
        if self.model.tensors.lower[poi] >= lower:
            return self
        return self._sibling(lower, lambda: self.model.with_poi_above(lower))

    @property
    def unprofiled(self) -> Plan:
        """A plan for the same model with every parameter minimised, none profiled, so that any can be held."""
        return self._sibling(None, lambda: self.model.unprofiled)

    def _sibling(self, key: float | None, model: Callable[[], Model]) -> Plan:
        """Return the plan of another form of the model, made on first use with the same choices."""
        if key not in self._siblings:
            self._siblings[key] = Plan(
                model(), backend=self.backend, threads=self.threads, tuned=self.tuned, dtype=self.dtype,
                ledger=self.ledger,
            )  # fmt: skip
        return self._siblings[key]

    def free(self) -> None:
        """Free all buffers and planned matmuls; the plan cannot be used afterwards."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        for worker in self._workers:
            worker.free()
        self._workers.clear()
        for sibling in self._siblings.values():
            sibling.free()
        exact = self.__dict__.pop("exact", self)
        if exact is not self:
            exact.free()

    def __enter__(self) -> Plan:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.free()

    def __repr__(self) -> str:
        return f"Plan({self.model.measurement!r}, backend={self.backend!r}, threads={self.threads}, {self.tuned})"


def backend_model(
    name: str, model: Model, *, dtype: str = "float64", ledger: Ledger | None = None
) -> BackendModel:  # fmt: skip
    """Return ``model`` on backend ``name`` (a row of `BACKENDS`); its module is imported here and only here.

    Raises
    ------
    BackendError
        What the backend needs is not installed, or it does not offer ``dtype``.
    """
    module, attribute = BACKENDS[name]
    kind = getattr(importlib.import_module(module), attribute)
    if dtype not in kind.dtypes:
        raise BackendError(
            f"backend {name!r} does not compute in {dtype}; expected {' or '.join(kind.dtypes)}. Leave the dtype away, "
            "or choose another backend."
        )
    made: BackendModel = kind(model.tensors, dtype=dtype, ledger=ledger)
    return made


def _best_time(function: Callable[[], object]) -> float:
    """Return the shortest time of ``function`` in seconds, over `TUNING_BUDGET` or at least three runs."""
    function()
    best, spent, runs = float("inf"), 0.0, 0
    while runs < 3 or spent < TUNING_BUDGET:
        start = time.perf_counter()
        function()
        elapsed = time.perf_counter() - start
        best, spent, runs = min(best, elapsed), spent + elapsed, runs + 1
    return best
