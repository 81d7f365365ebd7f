"""Results to files and people: JSON written whole or not at all, tables, progress."""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsmath.errors import OptionError
from nsmath.infer.wording import with_error as with_error
from nsmath.paths import replace_file

if TYPE_CHECKING:
    from rich.console import Console

STDOUT = "-"
LINE = 160
"""Columns that an object of the JSON output may take before it is nested."""


def checked_output(output: str | None, source: str | None = None, option: str = "--output") -> None:
    """Refuse an output that cannot be written, before any work is done for it; ``source`` is what is read.

    ``option`` is what asked for it, for messages.

    Raises
    ------
    OptionError
        The folder does not exist or takes no files, the path is a folder, or it is the input itself.
    """
    if output is None or output == STDOUT:
        return
    path = Path(output)
    if path.is_dir():
        raise OptionError(f"{option} {output} is a folder; expected a file.")
    if source is not None and path.exists() and Path(source).exists() and path.samefile(source):
        raise OptionError(f"{option} {output} is the input itself, which would be lost. Name another file.")
    if path.exists() and not os.access(path, os.W_OK):
        raise OptionError(f"{option} {output} cannot be written: permission denied.")
    if path.exists() and not path.is_file():
        return
    folder = path.resolve().parent
    if not folder.is_dir():
        raise OptionError(f"{option} {output}: the folder {folder} does not exist. Make it first.")
    try:
        # Permissions do not tell everything (read-only and special file systems); a nameless file does.
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise OptionError(f"{option} {output}: no file can be made in {folder}: {error.strerror}.") from error


def write_json(result: dict[str, Any], output: str | None, option: str = "--output") -> None:
    """Write a result as JSON to a file, whole or not at all, or to stdout for ``-``; nothing for None."""
    if output is not None:
        write_text(json_text(finite(result)) + "\n", output, option)


def write_text(text: str, output: str, option: str = "--output") -> None:
    """Write a file whole or not at all, or to stdout for ``-``; ``option`` is what asked for it, for messages.

    Raises
    ------
    OptionError
        It cannot be written; nothing is left behind.
    """
    if output == STDOUT:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    try:
        replace_file(output, text.encode())
    except OSError as error:
        raise OptionError(f"{option} {output} could not be written: {error.strerror}.") from error


def finite(value: Any) -> Any:
    """Return ``value`` with None for every number that JSON does not have."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def json_text(value: Any, indent: int = 0) -> str:
    """Return JSON for people too: lists of numbers and small objects on one line, everything else nested."""
    items = list(value.values()) if isinstance(value, dict) else value
    nested = isinstance(value, (dict, list)) and any(isinstance(item, (dict, list)) for item in items)
    flat = json.dumps(value, allow_nan=False, ensure_ascii=False)
    if not nested and (indent + len(flat) <= LINE or not isinstance(value, dict)):
        return flat
    pad = " " * (indent + 2)
    if isinstance(value, dict):
        rows = [f"{pad}{json.dumps(k, ensure_ascii=False)}: {json_text(v, indent + 2)}" for k, v in value.items()]
        return "{\n" + ",\n".join(rows) + "\n" + " " * indent + "}"
    return "[\n" + ",\n".join(pad + json_text(item, indent + 2) for item in value) + "\n" + " " * indent + "]"


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
