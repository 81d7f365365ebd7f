"""``nsmath digest``."""

from __future__ import annotations

from typing import Any

import click

from nsmath.cli.inputs import document_options, read_source
from nsmath.cli.output import STDOUT, checked_output, write_json


@click.command("digest")
@document_options
@click.option(
    "--algorithm", "-a", "algorithms", multiple=True, type=click.Choice(["sha256", "md5"]), default=["sha256"],
    help="May be repeated.",
)  # fmt: skip
@click.option("--sorted", "in_order", is_flag=True, help="Of the workspace sorted by name: the same for any order.")
@click.option("--output", "-o", metavar="FILE", help="Write the digests as JSON; '-' for stdout.")
@click.option("--quiet", "-q", is_flag=True, help="Print nothing.")
def digest_command(**options: Any) -> None:
    """Print the digest by which patch sets know a workspace: that of pyhf, over the JSON with sorted keys."""
    checked_output(options["output"], options["input_"])
    source = read_source(options["input_"], options["patches"])
    from nsmath.spec.edit import ordered
    from nsmath.spec.patchset import digest

    document = ordered(source.document).document if options["in_order"] else source.document
    digests = {algorithm: digest(document, algorithm) for algorithm in options["algorithms"]}
    write_json({"digests": digests, "sorted": options["in_order"]}, options["output"])
    if not options["quiet"] and options["output"] != STDOUT:
        for algorithm, text in digests.items():
            click.echo(f"{algorithm}:{text}")
