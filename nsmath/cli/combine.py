"""``nsmath combine``."""

from __future__ import annotations

from typing import Any

import click

from nsmath.cli.documents import checked_targets, edit_options, write_edited
from nsmath.cli.inputs import STDIN, read_source
from nsmath.errors import OptionError


@click.command("combine")
@click.option(
    "--input", "-i", "inputs", required=True, multiple=True, metavar="FILE",
    help="pyhf JSON workspace, '-' for stdin; give it twice: first the left one, then the right one.",
)  # fmt: skip
@click.option(
    "--join", type=click.Choice(["none", "outer", "left outer", "right outer"]), default="none",
    help="What happens to channels, observations and measurements of the same name.",
)  # fmt: skip
@click.option("--merge-channels", is_flag=True, help="Put the samples of channels of the same name together.")
@edit_options
def combine_command(**options: Any) -> None:
    """Join two workspaces into one; modifiers of the same name in both share their parameter."""
    inputs = options["inputs"]
    if len(inputs) != 2:
        raise OptionError(f"--input was given {len(inputs)} times; expected two workspaces, left and right.")
    if inputs.count(STDIN) == 2:
        raise OptionError("--input - was given twice, but there is one stdin. Name a file for one of the two.")
    checked_targets(options["output"], inputs)
    left, right = (read_source(given) for given in inputs)
    from nsmath.spec.combine import combined

    result = combined(left.document, right.document, join=options["join"], merge_channels=options["merge_channels"])
    write_edited(result, options["output"], options["quiet"])
