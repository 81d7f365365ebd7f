"""`StudyResult`: what a study gives, and what it could not give, point by point."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nsmath.study.points import Point, Study
from nsmath.study.tasks import Outcome
from nsmath.summary import Result, Summary

DONE, UNTRUSTED, FAILED, NOT_RUN = "done", "untrusted", "failed", "not run"
"""Done; done with too many toys that failed; no result, for an error; interrupted before it was finished."""

Label = tuple[str, float]
"""Name of a point, and the mu."""


@dataclass(frozen=True, slots=True, repr=False)
class StudyRow(Result):
    """One job of one point.

    Attributes
    ----------
    outcome : the task's result, for ``hypotest-toys`` a `ToyTestResult` without its toys; None where there is none.
    error : what went wrong, or why the result is not to be trusted.
    """

    point: Point
    mu: float
    status: str
    outcome: Outcome | None = None
    error: str | None = None
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        return {
            "mu": self.mu, "status": self.status, "error": self.error, "seconds": round(self.seconds, 6),
            "result": None if self.outcome is None else self.outcome.to_dict(),
        }  # fmt: skip

    def summary(self) -> Summary:
        """Return what became of the point, and the facts of its result."""
        facts = [("status", self.status), *([] if self.error is None else [("error", self.error)])]
        facts += [] if self.outcome is None else self.outcome.summary().facts
        return Summary(f"point '{self.point.name}', mu = {self.mu:g}", tuple(facts))


@dataclass(frozen=True, slots=True, repr=False)
class StudyResult(Result):
    """All rows of a study, in its order.

    Attributes
    ----------
    seconds : of the whole study.
    """

    study: Study
    rows: tuple[StudyRow, ...]
    seconds: float

    @classmethod
    def of(cls, study: Study, rows: Iterable[StudyRow], seconds: float) -> StudyResult:
        """Return the result of the rows that were computed; those that are missing count as not run."""
        found: Mapping[Label, StudyRow] = {(row.point.name, row.mu): row for row in rows}
        jobs = [(point, mu) for point in study.points for mu in study.task.jobs(point.settings)]
        return cls(
            study, tuple(found.get((point.name, mu)) or StudyRow(point, mu, NOT_RUN) for point, mu in jobs), seconds
        )

    def count(self, *statuses: str) -> int:
        """Return the number of rows with one of these statuses."""
        return sum(row.status in statuses for row in self.rows)

    @property
    def complete(self) -> bool:
        """Every row has a result that can be trusted."""
        return self.count(DONE) == len(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        study = self.study
        points = [
            {
                "name": point.name,
                "workspace": point.source,
                "patches": point.applied,
                "values": point.values,
                "tests": [row.to_dict() for row in self.rows if row.point is point],
            }
            for point in study.points
        ]
        return {
            "study": None if study.source is None else str(study.source),
            "task": study.task_name,
            "complete": self.complete,
            "counts": {status: self.count(status) for status in (DONE, UNTRUSTED, FAILED, NOT_RUN)},
            "seconds": round(self.seconds, 6),
            "points": points,
        }

    def columns(self) -> list[str]:
        """Return the columns of the table: point, labels of the patch sets, mu, then what the task gives."""
        fixed = ["point", "mu", "status", *self.study.task.columns, "seconds", "error"]
        labels = dict.fromkeys(label for point in self.study.points for label in point.values)
        # A label that is a column's name, such as mu, keeps apart.
        return ["point", *(_label(label, fixed) for label in labels), *fixed[1:]]

    def table(self) -> list[dict[str, Any]]:
        """Return one dictionary for each row, by column; None where there is nothing."""
        fixed = ["point", "mu", "status", *self.study.task.columns, "seconds", "error"]
        empty = dict.fromkeys(self.columns())
        return [
            {
                **empty,
                "point": row.point.name,
                **{_label(label, fixed): value for label, value in row.point.values.items()},
                "mu": row.mu,
                "status": row.status,
                **({} if row.outcome is None else self.study.task.cells(row.outcome)),
                "seconds": round(row.seconds, 3),
                "error": row.error,
            }
            for row in self.rows
        ]

    def summary(self) -> Summary:
        """Return how many points are done, and the table of all."""
        counts = ((status, str(self.count(status))) for status in (DONE, UNTRUSTED, FAILED, NOT_RUN))
        # Columns that are empty everywhere tell nothing.
        table = self.table()
        columns = tuple(name for name in self.columns() if any(row[name] is not None for row in table))
        rows = tuple(tuple(_cell(row[name]) for name in columns) for row in table)
        title = f"study of {len(self.study.points)} points, {self.study.task_name}"
        return Summary(title, tuple(fact for fact in counts if fact[1] != "0"), columns, rows)


def _label(label: str, columns: list[str]) -> str:
    return f"patch_{label}" if label in columns else label


def _cell(value: object) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
