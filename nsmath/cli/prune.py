"""``nsmath prune``."""

from __future__ import annotations

from typing import Any

import click

from nsmath.cli.documents import checked_targets, edit_options, write_edited
from nsmath.cli.inputs import document_options, naming, read_source
from nsmath.errors import OptionError

PARTS = ("channels", "samples", "modifiers", "modifier_types", "measurements")


@click.command("prune")
@document_options
@click.option("--channel", "channels", multiple=True, metavar="NAME", help="Channel to remove; may be repeated.")
@click.option("--sample", "samples", multiple=True, metavar="NAME", help="Sample to remove, from every channel.")
@click.option("--modifier", "modifiers", multiple=True, metavar="NAME", help="Modifier to remove, from every sample.")
@click.option("--modifier-type", "modifier_types", multiple=True, metavar="TYPE", help="Remove all of a type.")
@click.option("--measurement", "measurements", multiple=True, metavar="NAME", help="Measurement to remove.")
@edit_options
def prune_command(**options: Any) -> None:
    """Remove channels, samples, modifiers or measurements from a workspace."""
    parts = {part: options[part] for part in PARTS}
    if not any(parts.values()):
        raise OptionError(
            "nothing was named to prune. Give --channel, --sample, --modifier, --modifier-type or --measurement."
        )
    checked_targets(options["output"], [options["input_"]])
    source = read_source(options["input_"], options["patches"])
    from nsmath.spec.edit import pruned

    with naming(source.label):
        result = pruned(source.document, **parts)
    write_edited(result, options["output"], options["quiet"])
