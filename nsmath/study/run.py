"""`run_study`: the points of a study, one after the other; one that fails does not lose the others."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from nsmath.errors import NsmathError, StoreWriteError, StudyError
from nsmath.infer.calculator import ToyCalculator, study_identity
from nsmath.infer.engine import Engine, Threads
from nsmath.infer.ensembles import Progress
from nsmath.infer.teststats import test_statistic
from nsmath.model.model import Model
from nsmath.plan.choice import FITS_PER_TOY, Choice, asked_for, chosen
from nsmath.plan.plan import Plan
from nsmath.plan.tuned import Tuned
from nsmath.spec.patch import Patch
from nsmath.spec.read import parse_json, read_bytes
from nsmath.spec.workspace import Workspace
from nsmath.store.memory import MemoryRecord
from nsmath.store.toystore import ToyStore
from nsmath.study.points import Point, Study, study_of
from nsmath.study.result import DONE, FAILED, UNTRUSTED, StudyResult, StudyRow

Note = Callable[[str], None]
"""Called with one line for people."""

MODELS_KEPT = 64
"""Models that are kept between the check of a study and its run; those of more points are made again."""
FOLDER_LENGTH = 120


@dataclass(slots=True)
class Prepared:
    """A point that was loaded and checked.

    Attributes
    ----------
    error : why nothing of it can be computed. job_errors : why single jobs cannot.
    model : kept for the run, for the first points of a study. warnings : of its workspace, one line a kind.
    """

    point: Point
    error: str | None = None
    job_errors: dict[float, str] = field(default_factory=dict)
    model: Model | None = None
    warnings: list[str] = field(default_factory=list)

    def error_of(self, job: float) -> str | None:
        """Return why a job cannot be done; None if it can."""
        return self.error or self.job_errors.get(job)


class Loader:
    """Makes the models of points; every workspace file is read once."""

    def __init__(self) -> None:
        self._documents: dict[Path, object] = {}

    def workspace(self, point: Point) -> Workspace:
        """Return the workspace of a point, patches applied; raises `NsmathError` that names the file."""
        try:
            if point.workspace not in self._documents:
                self._documents[point.workspace] = parse_json(read_bytes(point.workspace), f"'{point.workspace}'")
            patches: list[Patch] = [*point.patches, *([] if point.patch is None else [point.patch])]
            return Workspace.from_dict(self._documents[point.workspace], patches=patches)
        except NsmathError as error:
            text = str(error)
            raise type(error)(text if str(point.workspace) in text else f"{point.workspace}: {text}") from None

    def model(self, point: Point, workspace: Workspace) -> Model:
        """Return the model of a point."""
        settings = point.settings
        return Model.from_workspace(
            workspace, measurement=settings["measurement"], poi=settings["poi"], interp=settings["interpolation"],
            poi_max=settings["poi_max"],
        )  # fmt: skip


def prepared_points(study: Study, loader: Loader) -> list[Prepared]:
    """Return all points of a study, loaded and checked; nothing is computed, and no error is raised."""
    found = []
    for point in study.points:
        ready = Prepared(point, point.error)
        found.append(ready)
        if point.error is not None:
            continue
        try:
            workspace = loader.workspace(point)
            ready.warnings = workspace.warning_summary()
            model = loader.model(point, workspace)
        except NsmathError as error:
            ready.error = str(error)
            continue
        for job in study.task.jobs(point.settings):
            try:
                study.task.checked(model, point.settings, job)
            except NsmathError as error:
                ready.job_errors[job] = str(error)
        if len(found) <= MODELS_KEPT:
            ready.model = model
    return found


def raise_first_error(study: Study, points: list[Prepared]) -> None:
    """Raise the first error of the check, with the number of the others.

    Raises
    ------
    StudyError
        A point that cannot be computed as a whole.
    """
    errors = [
        (ready.point.name, error)
        for ready in points
        for error in ([ready.error] if ready.error else ready.job_errors.values())
    ]
    if errors:
        more = f" ({len(errors) - 1} more points or values of mu fail too.)" if len(errors) > 1 else ""
        raise StudyError(f"point '{errors[0][0]}': {errors[0][1]}{more}")


class StudyRun:
    """One run of a study: its rows, as they are done, and the progress over all of it."""

    def __init__(
        self, study: Study, points: list[Prepared], loader: Loader, *, engine: Engine | None = None,
        progress: Progress | None = None, note: Note | None = None,
    ) -> None:  # fmt: skip
        if study.gpu != "auto":
            asked_for(study.gpu, study.dtype, study.backend)
        self.study, self.points, self.loader = study, points, loader
        self.engine: Engine = engine or Threads()
        self.progress, self.note = progress, note or (lambda line: None)
        self._tuned: dict[tuple[object, ...], Tuned] = {}
        self._done = 0
        self._left = sum(
            study.task.n_toys(ready.point.settings)
            for ready in points
            for job in study.task.jobs(ready.point.settings)
            if ready.error_of(job) is None
        )

    def rows(self) -> Generator[StudyRow, None, None]:
        """Yield a row for each job, in order; close it when it is left early, so that the store keeps its toys.

        A store that cannot be written to ends the run, since it would refuse the other points too.
        """
        for ready in self.points:
            left = list(self.study.task.jobs(ready.point.settings))
            try:
                for row in self._rows_of(ready):
                    left.remove(row.mu)
                    yield row
            except StoreWriteError as error:
                for job in left[:1]:
                    yield StudyRow(ready.point, job, FAILED, error=str(error))
                self.note(f"warning: the study ends here, since the store takes no more toys: {error}")
                return
            except NsmathError as error:
                for job in left:
                    yield StudyRow(ready.point, job, FAILED, error=str(error))

    def _rows_of(self, ready: Prepared) -> Iterator[StudyRow]:
        """Yield the rows of one point: one model, plan and calculator for all of them."""
        point, task = ready.point, self.study.task
        jobs = task.jobs(point.settings)
        errors = [ready.error_of(job) for job in jobs]
        if all(errors):
            for job, error in zip(jobs, errors, strict=True):
                yield StudyRow(point, job, FAILED, error=error)
            return
        model = ready.model or self.loader.model(point, self.loader.workspace(point))
        ready.model = None  # freed with the point
        with ExitStack() as opened:
            calculator = self._calculator(point, model, opened)
            for job in jobs:
                yield self._row(calculator, ready, job)

    def _row(self, calculator: ToyCalculator, ready: Prepared, job: float) -> StudyRow:
        known = ready.error_of(job)
        if known is not None:
            return StudyRow(ready.point, job, FAILED, error=known)
        started = time.perf_counter()
        settings = ready.point.settings
        planned = self.study.task.n_toys(settings)
        self._left -= planned
        calculator.progress = self._progress_of(ready.point.name, job, planned)
        try:
            outcome, doubt = self.study.task.outcome(calculator, settings, job)
        except StoreWriteError:
            raise
        except NsmathError as error:
            return StudyRow(ready.point, job, FAILED, error=str(error), seconds=time.perf_counter() - started)
        self._done += planned
        status = DONE if doubt is None else UNTRUSTED
        return StudyRow(ready.point, job, status, outcome, doubt, time.perf_counter() - started)

    def _progress_of(self, name: str, job: float, planned: int) -> Progress | None:
        if self.progress is None:
            return None
        report, before, left = self.progress, self._done, self._left

        def update(done: int, total: int, phase: str) -> None:
            # A stopping rule may want more toys than were planned.
            at = "" if math.isnan(job) else f", mu = {job:g}"
            report(before + done, before + max(total, planned) + left, f"{name}{at}: {phase}")

        return update

    def _choice(self, point: Point, model: Model) -> Choice:
        """Return what computes a point; with ``gpu: auto`` that depends on its model and toys."""
        study = self.study
        n_toys = study.task.n_toys(point.settings) * len(study.task.jobs(point.settings))
        choice = chosen(
            model, FITS_PER_TOY // 2 * n_toys, gpu=study.gpu, dtype=study.dtype, backend=study.backend,
            threads=study.threads, what=f"{n_toys} toys",
        )  # fmt: skip
        if choice.reason:
            self.note(f"gpu auto, point '{point.name}': {choice.reason}")
        return choice

    def _calculator(self, point: Point, model: Model, opened: ExitStack) -> ToyCalculator:
        settings = point.settings
        statistic = test_statistic(settings["test_stat"])
        store = None
        if self.study.store is not None:
            identity = study_identity(model, statistic, seed=settings["seed"], aux=settings["aux"])
            folder = self.study.store / folder_name(point.name)
            store = opened.enter_context(ToyStore.create(folder, identity))
            for path in store.damaged:
                self.note(f"warning: a damaged part was set aside as {path}; its toys are computed again.")
            n_held = sum(last - first for key in store.held() for first, last in store.there(key))
            if n_held:
                self.note(f"point '{point.name}' goes on: {n_held} toys are in {folder} already.")
        choice = self._choice(point, model)
        # Tuning depends on the size of a model, so the points of a grid share it.
        size = (choice.backend, choice.dtype, len(model.names), len(model.data), len(model.auxdata), str(model.interp))
        tuned = store.tuned if store is not None and store.tuned is not None else self._tuned.get(size)
        plan = opened.enter_context(
            Plan(model, backend=choice.backend, dtype=choice.dtype, threads=self.study.threads, tuned=tuned)
        )
        self._tuned.setdefault(size, plan.tuned)
        if store is not None:
            store.begin(plan.tuned, {**plan.versions, **plan.origin})
        return ToyCalculator(
            plan, statistic, settings["seed"], settings["aux"], settings["expected"], record=store or MemoryRecord(),
            engine=self.engine,
        )  # fmt: skip


def folder_name(name: str) -> str:
    """Return the folder of a point in the study's store: its name, with what folders may not have escaped."""
    text = quote(name, safe=" +=,()")
    if text[0] in "._":
        text = f"%{ord(text[0]):02X}{text[1:]}"
    if len(text) <= FOLDER_LENGTH:
        return text
    return f"{text[:FOLDER_LENGTH]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def run_study(
    study: str | Path | Mapping[str, Any],
    *,
    folder: str | Path | None = None,
    store: str | Path | None = None,
    n_toys: int | None = None,
    threads: int | None = None,
    gpu: str | None = None,
    dtype: str | None = None,
    engine: Engine | None = None,
    strict: bool = False,
    progress: Progress | None = None,
    note: Note | None = None,
) -> StudyResult:
    """Return the results of a study: a YAML file, or a dictionary with the same keys (docs/studies.md).

    Points and values of mu that fail are rows of the result with their errors. ``output`` and ``table`` of the study
    are written by ``nsmath run`` and not here.

    Parameters
    ----------
    folder : what paths in a dictionary are relative to.
    store, n_toys, threads, gpu, dtype : instead of those of the study.
    engine : `Workers` over an executor, instead of this process's threads.
    strict : raise when a point cannot be loaded, before anything is computed.
    progress : called with (toys done, toys in all, what is done).
    note : called with one line for people, such as a warning, or that a store goes on.

    Raises
    ------
    StudyError
        The study is malformed, or with ``strict`` a point of it.
    """
    started = time.perf_counter()
    laid_out = study_of(
        study, folder=folder, store=store, n_toys=n_toys, threads=threads, gpu=gpu, dtype=dtype
    )  # fmt: skip
    loader = Loader()
    points = prepared_points(laid_out, loader)
    if strict:
        raise_first_error(laid_out, points)
    run = StudyRun(laid_out, points, loader, engine=engine, progress=progress, note=note)
    rows = list(run.rows())
    return StudyResult.of(laid_out, rows, time.perf_counter() - started)
