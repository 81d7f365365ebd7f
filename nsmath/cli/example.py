"""``nsmath example``."""

from __future__ import annotations

from pathlib import Path

import click

from nsmath.cli.inputs import EXAMPLE
from nsmath.cli.output import STDOUT, checked_output, write_text
from nsmath.errors import OptionError


@click.command("example")
@click.option("--output", "-o", metavar="FILE", help="Write a copy there; '-' for stdout.")
def example_command(output: str | None) -> None:
    """Print the path of the example workspace that nsmath ships, or write a copy of it."""
    checked_output(output)
    if output is None:
        click.echo(EXAMPLE)
        return
    if output != STDOUT and Path(output).is_file():
        raise OptionError(f"--output {output} exists already, and is left as it is. Name another file.")
    write_text(EXAMPLE.read_text(encoding="utf-8"), output)
    if output != STDOUT:
        click.echo(f"written: {output}")
