"""``nsmath rename``."""

from __future__ import annotations

from typing import Any

import click

from nsmath.cli.documents import checked_targets, edit_options, write_edited
from nsmath.cli.inputs import document_options, naming, read_source
from nsmath.errors import OptionError

PARTS = ("channels", "samples", "modifiers", "measurements")
PAIR: dict[str, Any] = {"multiple": True, "type": (str, str), "metavar": "OLD NEW"}


@click.command("rename")
@document_options
@click.option("--channel", "channels", **PAIR, help="Old and new name of a channel; may be repeated.")
@click.option("--sample", "samples", **PAIR, help="Old and new name of a sample, in every channel.")
@click.option("--modifier", "modifiers", **PAIR, help="Old and new name of a modifier; configurations and POI follow.")
@click.option("--measurement", "measurements", **PAIR, help="Old and new name of a measurement.")
@edit_options
def rename_command(**options: Any) -> None:
    """Give channels, samples, modifiers or measurements of a workspace other names, all at once."""
    parts = {part: checked_pairs(options[part]) for part in PARTS}
    if not any(parts.values()):
        raise OptionError(
            "nothing was named to rename. Give --channel, --sample, --modifier or --measurement with OLD NEW."
        )
    checked_targets(options["output"], [options["input_"]])
    source = read_source(options["input_"], options["patches"])
    from nsmath.spec.edit import renamed

    with naming(source.label):
        result = renamed(source.document, **parts)
    write_edited(result, options["output"], options["quiet"])


def checked_pairs(pairs: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Return pairs of old and new names as a dictionary; an old name may have one new name only."""
    found: dict[str, str] = {}
    for old, new in pairs:
        if old in found:
            raise OptionError(f"'{old}' is to be renamed twice, to '{found[old]}' and to '{new}'. Choose one.")
        found[old] = new
    return found
