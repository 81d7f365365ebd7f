"""``nsmath example``."""

from __future__ import annotations

import click

from nsmath.cli.inputs import EXAMPLE
from nsmath.cli.output import checked_output
from nsmath.errors import OptionError


@click.command("example")
@click.option("--output", "-o", metavar="FILE", help="Write a copy there.")
def example_command(output: str | None) -> None:
    """Print the path of the example workspace that nsmath ships, or write a copy of it."""
    checked_output(output)
    if output is None:
        click.echo(EXAMPLE)
        return
    try:
        with open(output, "x", encoding="utf-8") as file:
            file.write(EXAMPLE.read_text(encoding="utf-8"))
    except FileExistsError:
        raise OptionError(f"--output {output} exists already, and is left as it is. Name another file.") from None
    click.echo(f"written: {output}")
