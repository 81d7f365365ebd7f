"""`Result`: what all results share: a dictionary for JSON, and a summary for people, as text and as HTML."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

TEXT_ROWS, HTML_ROWS = 8, 200
"""Rows of a table that are shown; a line says how many more there are."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The numbers that a reader wants first.

    Attributes
    ----------
    title : what this is, in a line.
    facts : (label, value) one below the other.
    columns, rows : a table below them, such as one of parameters; none where ``columns`` is empty.
    """

    title: str
    facts: tuple[tuple[str, str], ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


class Result(ABC):
    """A frozen record of something computed. Subclasses are dataclasses with ``repr=False``."""

    __slots__ = ()

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""

    @abstractmethod
    def summary(self) -> Summary:
        """Return what a reader wants first."""

    def __repr__(self) -> str:
        return text_of(type(self).__name__, self.summary())

    def _repr_html_(self) -> str:
        return html_of(self.summary())


def with_error(value: float | None, error: float | None, upper: float | None = None) -> str:
    """Return a number with its error for people; a bound or a word where there is none."""
    if value is None:
        return f"< {upper:.2g} (95 % C.L., no toy in the tail)" if upper is not None else "undefined"
    if error is None or math.isnan(error):
        return f"{value:.4g}"
    return f"{value:.4g} +- {error:.2g}"


def band(values: Iterable[float | None], errors: Iterable[float | None] | None = None) -> tuple[tuple[str, str], ...]:
    """Return the facts of an expected band, which runs over background fluctuations of -2 to +2 sigma."""
    found = list(values)
    with_errors = list(errors) if errors is not None else [None] * len(found)
    names = ("-2 sigma", "-1 sigma", "median", "+1 sigma", "+2 sigma")
    return tuple(
        (f"expected, {name}", with_error(*pair)) for name, *pair in zip(names, found, with_errors, strict=True)
    )


def text_of(kind: str, summary: Summary) -> str:
    """Return a summary as lines of text that begin with the kind of the result."""
    lines = [f"{kind}: {summary.title}"]
    width = max((len(label) for label, _ in summary.facts), default=0)
    lines += [f"  {label:<{width}}  {value}" for label, value in summary.facts]
    if summary.columns:
        shown = (summary.columns, *summary.rows[:TEXT_ROWS])
        widths = [max(len(row[k]) for row in shown) for k in range(len(summary.columns))]
        lines += [
            "  " + "  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in shown
        ]
        lines += [f"  {note}" for note in _more(summary.rows, TEXT_ROWS)]
    return "\n".join(lines)


def html_of(summary: Summary) -> str:
    """Return a summary as HTML tables, everything in it escaped."""
    parts = [f"<div><strong>{escape(summary.title)}</strong>"]
    if summary.facts:
        parts.append(_html_table((), summary.facts))
    if summary.columns:
        parts.append(_html_table(summary.columns, summary.rows[:HTML_ROWS]))
        parts += [f"<em>{note}</em>" for note in _more(summary.rows, HTML_ROWS)]
    return "".join([*parts, "</div>"])


def _html_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    lines = [f"<thead><tr>{head}</tr></thead>"] if columns else []
    # A row is named by its first cell.
    lines += [
        "<tr>"
        + f'<th style="text-align: left">{escape(first)}</th>'
        + "".join(f'<td style="text-align: left">{escape(cell)}</td>' for cell in cells)
        + "</tr>"
        for first, *cells in rows
    ]
    return f"<table>{''.join(lines)}</table>"


def _more(rows: Sequence[object], shown: int) -> list[str]:
    return [f"... and {len(rows) - shown} more rows, in to_dict()"] if len(rows) > shown else []
