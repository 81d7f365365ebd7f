"""`save`: figures to files, whole or not at all."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from nsmath.errors import OptionError
from nsmath.paths import replace_file
from nsmath.viz.style import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Figures: TypeAlias = "Mapping[str, Figure]"
"""Figures by name."""
FORMATS: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".pdf": {"CreationDate": None, "Producer": None, "Creator": "nsmath"},
    ".svg": {"Date": None, "Creator": "nsmath"},
}
"""Suffix -> metadata; without a date, so that the same figure gives the same file."""


def checked_format(path: str | Path) -> str:
    """Return the suffix of ``path``, in small letters.

    Raises
    ------
    OptionError
        No format of plots belongs to it.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise OptionError(
            f"the plot {str(path)!r} has the suffix {suffix!r}; expected one of {', '.join(FORMATS)}, which says the "
            "format."
        )
    return suffix


def save(figures: Figure | Figures, path: str | Path) -> tuple[Path, ...]:
    """Write a figure, or several by name; return the files.

    Several figures are the pages of one PDF. Formats without pages get a file each, with the name of the figure in
    that of the file: ``fit.png`` becomes ``fit-pulls.png`` and ``fit-correlations.png``.

    Raises
    ------
    OptionError
        Unknown suffix, matplotlib is not installed, or a file cannot be written. Every file is whole or as it was.
    """
    suffix, path = checked_format(path), Path(path)
    named: Figures = figures if isinstance(figures, Mapping) else {"": figures}
    with style():
        if suffix == ".pdf":
            contents = {path: _pages(list(named.values()))}
        else:
            contents = {file: image_bytes(figure, suffix) for file, figure in _files(named, path).items()}
    # Nothing is written before all are drawn.
    for file, content in contents.items():
        try:
            replace_file(file, content)
        except OSError as error:
            raise OptionError(f"the plot '{file}' could not be written: {error.strerror}.") from error
    return tuple(contents)


def _files(named: Figures, path: Path) -> dict[Path, Figure]:
    """Return the figures by file; names that differ only in what files cannot be called get a number."""
    if len(named) == 1:
        return {path: next(iter(named.values()))}
    files: dict[Path, Figure] = {}
    for name, figure in named.items():
        stem = f"{path.stem}-{re.sub(r'[^A-Za-z0-9._-]+', '_', name)}"
        file, n = path.with_name(stem + path.suffix), 2
        while file in files:
            file, n = path.with_name(f"{stem}-{n}{path.suffix}"), n + 1
        files[file] = figure
    return files


def image_bytes(figure: Figure, suffix: str) -> bytes:
    """Return a figure as a file of this suffix; without a date, so that the same figure is the same file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=suffix[1:], metadata=FORMATS[suffix])
    return buffer.getvalue()


def _pages(figures: list[Figure]) -> bytes:
    from matplotlib.backends.backend_pdf import PdfPages

    buffer = io.BytesIO()
    with PdfPages(buffer, metadata=FORMATS[".pdf"]) as pages:
        for figure in figures:
            pages.savefig(figure)
    return buffer.getvalue()
