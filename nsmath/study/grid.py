"""`signal_grid`: one asymptotic result for each patch of a patch set, such as a limit for every mass of a grid.

The points are other models, with other numbers of samples and modifiers, so no matmul is common to them: they are
computed side by side, each on one thread.
"""

from __future__ import annotations

import hashlib
import math
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from nsmath.errors import FitError, NsmathError, OptionError
from nsmath.infer.asymptotic_api import SINGLE_FIT_WIDTH, hypotest, significance, upper_limit
from nsmath.infer.engine import Engine, Workers
from nsmath.model.model import Model
from nsmath.plan.plan import Plan
from nsmath.plan.tuned import available_cores
from nsmath.plan.windowed import results_as_completed
from nsmath.spec.patch import Patch
from nsmath.spec.patchset import PatchSet, PatchValue
from nsmath.spec.workspace import Workspace
from nsmath.summary import Result, Summary

Progress = Callable[[int, int, str], None]


GRID_TASKS: dict[str, Callable[..., Any]] = {
    "hypotest": hypotest, "upper-limit": upper_limit, "significance": significance,
}  # fmt: skip
"""What can be computed at every point -> the function of a model that does it, with its options."""

BAND = ("expected_m2", "expected_m1", "expected_median", "expected_p1", "expected_p2")


def _limit_cells(outcome: Any) -> dict[str, Any]:
    limits = (crossing.mu for crossing in outcome.expected)
    return {
        "limit": outcome.observed.mu, "limit_beyond": outcome.observed.beyond,
        "mu_hat": outcome.points[0].mu_hat, **dict(zip(BAND, limits, strict=True)),
    }  # fmt: skip


def _test_cells(outcome: Any) -> dict[str, Any]:
    if outcome.cls is None:
        values = {"p0": outcome.clsb, "z": outcome.z}
        return {**values, "mu_hat": outcome.mu_hat, **dict(zip(BAND, outcome.expected_clsb, strict=True))}
    return {"cls": outcome.cls, "mu_hat": outcome.mu_hat, **dict(zip(BAND, outcome.expected_cls, strict=True))}


GRID_CELLS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "hypotest": _test_cells, "upper-limit": _limit_cells, "significance": _test_cells,
}  # fmt: skip
"""Task -> the numbers of a point that stand in the table, named as in the tables of studies."""


@dataclass(frozen=True, slots=True, repr=False)
class GridPoint(Result):
    """One patch: its name, its values by label, and the result, or the error in its place."""

    name: str
    values: dict[str, PatchValue]
    outcome: Result | None
    error: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        result = None if self.outcome is None else self.outcome.to_dict()
        return {"name": self.name, "values": self.values, "error": self.error, "result": result}

    def summary(self) -> Summary:
        """Return the values of the patch, and its result or error."""
        facts = [(label, str(value)) for label, value in self.values.items()]
        facts += [("error", self.error)] if self.error is not None else []
        facts += list(self.outcome.summary().facts) if self.outcome is not None else []
        return Summary(f"patch {self.name}", tuple(facts))


@dataclass(frozen=True, slots=True, repr=False)
class GridResult(Result):
    """The results of all patches, in the order of the set.

    Attributes
    ----------
    task : a row of `GRID_TASKS`. labels : what the values of a patch mean, such as masses.
    """

    task: str
    labels: tuple[str, ...]
    points: tuple[GridPoint, ...]

    @property
    def n_failed(self) -> int:
        """Points without a result."""
        return sum(point.error is not None for point in self.points)

    def table(self) -> list[dict[str, Any]]:
        """Return one dictionary for each point: its name, labels, the numbers of its result (none where it failed)."""
        rows = []
        for point in self.points:
            cells = {} if point.outcome is None else GRID_CELLS[self.task](point.outcome)
            # A label that is a column's name keeps apart, as in the tables of studies.
            values = {f"patch_{k}" if k in ("point", "error", *cells) else k: v for k, v in point.values.items()}
            rows.append({"point": point.name, **values, **cells, "error": point.error})
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        return {
            "task": self.task,
            "labels": list(self.labels),
            "n_failed": self.n_failed,
            "table": self.table(),
            "points": [point.to_dict() for point in self.points],
        }

    def summary(self) -> Summary:
        """Return a row for each point: its values, and the first facts of its result."""
        facts = (("points", f"{len(self.points)}"), ("failed", f"{self.n_failed}"))
        found = [point.outcome.summary().facts for point in self.points if point.outcome is not None]
        heads = [label for label, _ in found[0]] if found else []
        rows = []
        for point in self.points:
            values = [str(value) for value in point.values.values()]
            cells = [] if point.outcome is None else [value for _, value in point.outcome.summary().facts]
            cells = cells if len(cells) == len(heads) else ["failed", *[""] * (len(heads) - 1)]
            rows.append((point.name, *values, *cells))
        return Summary(
            f"{self.task} over {', '.join(self.labels)}", facts, ("patch", *self.labels, *heads), tuple(rows)
        )


@dataclass(frozen=True)
class _Common:
    """What all points of a grid have in common; `point` computes one of them, in any process."""

    task: str
    workspace: Mapping[str, Any]
    patches: tuple[Patch, ...]
    model: Mapping[str, Any]
    plan: Mapping[str, Any]
    options: Mapping[str, Any]

    def point(self, patch: PatchSet) -> tuple[Result | NsmathError, list[str]]:
        """Return the result of a patch, or what went wrong with it, and the warnings of its workspace."""
        warnings: list[str] = []
        try:
            read = Workspace.from_dict(self.workspace, patches=[*self.patches, patch])
            warnings += read.warning_summary()
            model = Model.from_workspace(read, **self.model)
            with Plan(model, **self.plan, threads=1, tune=False, width=SINGLE_FIT_WIDTH) as plan:
                result: Result = GRID_TASKS[self.task](model, plan=plan, **self.options)
                return result, warnings
        except NsmathError as error:
            return error, warnings


_Computed: TypeAlias = tuple[int, tuple[Result | NsmathError, list[str]]]
_kept: dict[str, _Common] = {}


def _point_elsewhere(payload: bytes, key: str, task: tuple[int, PatchSet]) -> _Computed:
    """Compute one point in a worker process, which reads what is common to all of them once."""
    if key not in _kept:
        _kept.clear()
        _kept[key] = pickle.loads(payload)
    index, patch = task
    return index, _kept[key].point(patch)


def signal_grid(
    workspace: Mapping[str, Any], patchset: str | Path | PatchSet, task: str = "upper-limit", *,
    names: Sequence[str] = ("*",), patches: Sequence[Patch] = (), measurement: str | None = None,
    poi: str | None = None, poi_max: float | None = None, interp: Any = "root", backend: str = "cpu",
    dtype: str = "float64", threads: int | None = None, engine: Engine | None = None,
    progress: Progress | None = None, note: Callable[[str], None] | None = None, **options: Any,
) -> GridResult:  # fmt: skip
    """Return one asymptotic result for each chosen patch of a patch set; a point that fails does not lose the others.

    Parameters
    ----------
    workspace : the parsed workspace that the set belongs to; its digests must agree.
    patchset : a file, or a parsed one.
    task : ``upper-limit``, ``hypotest`` or ``significance``.
    names : names of patches, or patterns with ``*``, ``?``, ``[...]``; all of them if not given.
    patches : applied before the set's.
    measurement, poi, poi_max, interp : as for `Model.from_workspace`. backend, dtype : as for `Plan`.
    threads : points computed at a time; as many as there are cores when None.
    engine : `Workers` over an executor: points are computed in its processes, a few times as fast as in threads,
        since most of a point is reading it.
    progress : called with (points done, points in all, phase). note : called with a warning for people, once for all
        points that share it.
    options : of the task's function, such as ``cl``, ``mu`` or ``test_stat``.

    Raises
    ------
    OptionError, PatchError
        Unknown task, a set that cannot be read, a name that it does not have.
    NsmathError
        What is wrong with every point alike, such as another workspace than the set's, or an option out of range.
    FitError
        A worker died.
    """
    if task not in GRID_TASKS:
        raise OptionError(f"task is {task!r}; expected one of {', '.join(GRID_TASKS)}.")
    whole = patchset if isinstance(patchset, PatchSet) else PatchSet.from_file(patchset)
    chosen = whole.chosen(names, "the patch set" if isinstance(patchset, PatchSet) else str(patchset))
    common = _Common(
        task, workspace, tuple(patches),
        {"measurement": measurement, "poi": poi, "poi_max": poi_max, "interp": interp},
        {"backend": backend, "dtype": dtype}, options,
    )  # fmt: skip
    found: dict[int, Result | NsmathError] = {}
    warnings: dict[int, list[str]] = {}
    for index, (outcome, lines) in _results(common, list(enumerate(chosen)), threads, engine):
        found[index], warnings[index] = outcome, lines
        if progress is not None:
            progress(len(found), len(chosen), "points")
    errors = [outcome for outcome in found.values() if isinstance(outcome, NsmathError)]
    is_same = len({(type(error), str(error)) for error in errors}) == 1
    if len(errors) == len(chosen) and is_same and not isinstance(errors[0], FitError):
        raise errors[0]
    if note is not None:
        for line in shared_warnings((patch.names[0], warnings[index]) for index, patch in enumerate(chosen)):
            note(line)
    points = []
    for index, patch in enumerate(chosen):
        outcome, values = found[index], dict(zip(patch.labels, patch.values[0], strict=True))
        failed = isinstance(outcome, NsmathError)
        points.append(GridPoint(
            patch.names[0], values, None if isinstance(outcome, NsmathError) else outcome,
            str(outcome) if failed else None,
        ))  # fmt: skip
    return GridResult(task, whole.labels, tuple(points))


def _results(
    common: _Common, tasks: list[tuple[int, PatchSet]], threads: int | None, engine: Engine | None
) -> Iterator[_Computed]:
    """Yield the results of all points, as they complete."""
    if isinstance(engine, Workers):
        payload = pickle.dumps(common)
        elsewhere = partial(_point_elsewhere, payload, hashlib.sha256(payload).hexdigest())
        try:
            yield from results_as_completed(engine.executor, elsewhere, tasks, 2 * engine.n_workers)
        except BrokenExecutor as error:
            raise FitError(
                f"a worker process died ({error or type(error).__name__}): killed, or out of memory."
            ) from error
        return
    n_threads = min(threads or available_cores(), len(tasks))
    with ThreadPoolExecutor(n_threads) as pool:
        yield from results_as_completed(pool, lambda task: (task[0], common.point(task[1])), tasks, 2 * n_threads)


def shared_warnings(points: Iterable[tuple[str, Iterable[str]]]) -> list[str]:
    """Return the warnings of many points; one that several share comes once, with the first point and their number."""
    first: dict[str, list[str]] = {}
    for name, lines in points:
        for line in lines:
            first.setdefault(line, []).append(name)
    return [
        f"{line} (point '{names[0]}'{f' and {len(names) - 1} more' if len(names) > 1 else ''})"
        for line, names in first.items()
    ]


def numeric(value: PatchValue) -> float:
    """Return a patch's value as a number; NaN for a word."""
    return float(value) if isinstance(value, (int, float)) else math.nan
