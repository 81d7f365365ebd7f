"""What sections are made of: facts, tables, figures, notes; each knows which macro of the page shows it."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nsmath.summary import Summary

if TYPE_CHECKING:
    from nsmath.viz.files import Figures


@dataclass(frozen=True, slots=True)
class Facts:
    """Labels and values, one below the other."""

    rows: tuple[tuple[str, str], ...]
    kind: str = "facts"


@dataclass(frozen=True, slots=True)
class Table:
    """A table that readers sort by any column and search.

    Attributes
    ----------
    columns : headings. rows : cells as text. keys : for each cell what it is sorted by; "" where it is empty.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    keys: tuple[tuple[str, ...], ...]
    caption: str = ""
    kind: str = "table"


@dataclass(frozen=True, slots=True)
class Image:
    """A figure as SVG in a data URI, which no script and no style of the page reaches; ``text`` says what it shows."""

    uri: str
    text: str
    wide: bool
    kind: str = "image"


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence; ``warning`` makes it stand out."""

    text: str
    warning: bool = False
    kind: str = "note"


Block = Facts | Table | Image | Note

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def facts(rows: Iterable[tuple[str, object]]) -> Facts:
    """Return facts whose values are shown as text."""
    return Facts(tuple((label, str(value)) for label, value in rows))


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> Table:
    """Return a table; cells are sorted by the number that they begin with, or as words."""
    cells = tuple(tuple(shown(cell) for cell in row) for row in rows)
    return Table(tuple(columns), cells, tuple(tuple(sort_key(cell) for cell in row) for row in cells), caption)


def shown(value: object) -> str:
    """Return a cell: five digits of a number, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def sort_key(cell: str) -> str:
    """Return the number that a cell begins with, a bound's sign aside; the cell itself where there is none."""
    found = _NUMBER.match(cell.lstrip("<> "))
    return found.group(0) if found else cell


def summary_blocks(summary: Summary) -> list[Block]:
    """Return a result's summary as blocks."""
    blocks: list[Block] = [Facts(summary.facts)] if summary.facts else []
    return blocks + ([table(summary.columns, summary.rows)] if summary.columns else [])


def images(figures: Figures, text: str) -> list[Block]:
    """Return figures by name as images."""
    return [image(figure, text if len(figures) == 1 else f"{text}: {name}") for name, figure in figures.items()]


def image(figure: Any, text: str) -> Image:
    """Return a matplotlib figure as an image inside the page."""
    from nsmath.viz.files import image_bytes
    from nsmath.viz.style import style

    with style():
        content = base64.b64encode(image_bytes(figure, ".svg")).decode()
    width, height = figure.get_size_inches()
    return Image(f"data:image/svg+xml;base64,{content}", text, bool(width > 7.5 or height > 9.0))
