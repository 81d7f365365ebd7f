"""Results to files and people: JSON written whole or not at all, tables, progress."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsmath.errors import OptionError

if TYPE_CHECKING:
    from rich.console import Console

STDOUT = "-"


def checked_output(output: str | None) -> None:
    """Refuse an output that cannot be written, before any work is done for it.

    Raises
    ------
    OptionError
        The folder does not exist or is not writable, or the path is a folder.
    """
    if output is None or output == STDOUT:
        return
    path = Path(output)
    folder = path.parent
    if not folder.is_dir():
        raise OptionError(f"--output {output}: the folder {folder} does not exist. Make it first.")
    if path.is_dir():
        raise OptionError(f"--output {output} is a folder; expected a file.")
    writable = os.access(path, os.W_OK) if path.exists() else os.access(folder, os.W_OK)
    if not writable:
        raise OptionError(f"--output {output} cannot be written: permission denied.")


def write_json(result: dict[str, Any], output: str | None) -> None:
    """Write a result as JSON to a file, whole or not at all, or to stdout for ``-``; nothing for None."""
    if output is None:
        return
    text = json.dumps(result, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    if output == STDOUT:
        sys.stdout.write(text)
        return
    path = Path(output)
    if path.exists() and not path.is_file():
        # A device such as /dev/null cannot be replaced, only written to.
        path.write_text(text, encoding="utf-8")
        return
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise OptionError(f"--output {output} could not be written: {error.strerror}.") from error


def console(output: str | None) -> Console:
    """Return where people read: stdout, or stderr when stdout carries JSON."""
    from rich.console import Console

    # Scripts and logs get whole lines; only a terminal has a width to keep to.
    width = None if sys.stdout.isatty() else 120
    return Console(stderr=output == STDOUT, width=width, highlight=False, soft_wrap=True)


@contextmanager
def progress(quiet: bool) -> Iterator[Callable[[int, int, str], None] | None]:
    """Yield a progress callback that draws a bar on a terminal's stderr; None elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("observed fits", total=None)

        def update(done: int, total: int, phase: str) -> None:
            bar.update(task, completed=done, total=total, description=phase)

        yield update


def with_error(value: float | None, error: float | None, upper: float | None = None) -> str:
    """Return a number with its error for people; a bound or a word where there is none."""
    if value is None:
        return f"< {upper:.2g} (95 % C.L., no toy in the tail)" if upper is not None else "undefined"
    if error is None:
        return f"{value:.4g}"
    return f"{value:.4g} +- {error:.2g}"
