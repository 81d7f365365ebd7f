"""What the commands that write a workspace share: their options, and the document that leaves them."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nsmath.cli.output import STDOUT, checked_output, json_text, write_text
from nsmath.errors import PatchError

if TYPE_CHECKING:
    from nsmath.spec.edit import Edited


def edit_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a command that writes a document."""
    options = [
        click.option("--output", "-o", metavar="FILE", default=STDOUT, help="Where the JSON goes; '-' is stdout."),
        click.option("--quiet", "-q", is_flag=True, help="Do not say on stderr what was done."),
    ]
    return functools.reduce(lambda f, option: option(f), reversed(options), function)


def checked_targets(output: str, sources: Iterable[str]) -> None:
    """Refuse an output that cannot be written, or that is one of the files that are read."""
    for source in sources:
        checked_output(output, source)


def write_document(document: Any, output: str) -> None:
    """Write a JSON document, whole or not at all; numbers as they are in it."""
    text = json_text(document) + "\n"
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # JSON may name unpaired surrogates; UTF-8 has none.
        text = json.dumps(document, indent=2) + "\n"
    write_text(text, output)


def write_edited(result: Edited, output: str, quiet: bool) -> None:
    """Write an edited workspace; what was done to it, and its warnings, go to stderr."""
    write_document(result.document, output)
    if not quiet:
        for note in result.notes:
            click.echo(note, err=True)
        for line in result.workspace.warning_summary():
            click.echo(f"warning: {line}", err=True)


def patch_set_at(path: str) -> Any:
    """Return the parsed JSON of a patch set file, unchecked."""
    from nsmath.spec.read import parse_json, read_bytes

    return parse_json(read_bytes(Path(path), PatchError), f"'{path}'", PatchError)
