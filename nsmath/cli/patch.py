"""``nsmath patch``: what is in a patch set, and what it makes of a workspace."""

from __future__ import annotations

from typing import Any

import click

from nsmath.cli.documents import checked_targets, edit_options, patch_set_at, write_document, write_edited
from nsmath.cli.inputs import Source, naming, read_source

SET = click.option("--patchset", "-p", required=True, metavar="FILE", help="pyhf JSON patch set.")
NAME = click.option("--name", required=True, metavar="NAME", help="Name of the patch.")
WORKSPACE = click.option(
    "--input", "-i", "input_", required=True, metavar="FILE", help="Background-only workspace; '-' for stdin."
)


@click.group("patch")
def patch_group() -> None:
    """Patch sets: named JSON patches of one background-only workspace, which its digests identify."""


@patch_group.command("list")
@SET
def list_command(patchset: str) -> None:
    """Print the names of the patches with their values, one a line."""
    from nsmath.spec.patchset import PatchSet

    found = PatchSet.from_dict(patch_set_at(patchset), f"'{patchset}'")
    for name, values in zip(found.names, found.values, strict=True):
        point = ", ".join(f"{label} = {value}" for label, value in zip(found.labels, values, strict=True))
        click.echo(f"{name}: {point}" if point else name)


@patch_group.command("extract")
@SET
@NAME
@click.option("--with-metadata", is_flag=True, help="With the metadata of the patch and of the set.")
@edit_options
def extract_command(patchset: str, name: str, with_metadata: bool, output: str, quiet: bool) -> None:
    """Write one patch of a patch set as a JSON patch of its own."""
    checked_targets(output, [patchset])
    from nsmath.spec.patchset import extracted

    source = f"'{patchset}'"
    with naming(source):
        document: Any = extracted(patch_set_at(patchset), name, with_metadata=with_metadata, source=source)
    write_document(document, output)
    if not quiet:
        n_operations = len(document["patch"] if with_metadata else document)
        click.echo(f"patch '{name}': {n_operations} operations", err=True)


@patch_group.command("apply")
@WORKSPACE
@SET
@NAME
@edit_options
def apply_command(input_: str, patchset: str, name: str, output: str, quiet: bool) -> None:
    """Write the workspace with one patch of a patch set applied, after verifying the digests."""
    checked_targets(output, [input_, patchset])
    from nsmath.spec.edit import edited
    from nsmath.spec.patchset import PatchSet

    source, found = read_source(input_), PatchSet.from_dict(patch_set_at(patchset), f"'{patchset}'")
    with naming(f"'{patchset}'"):
        document: Any = found.apply(source.given, name)
    with naming(source.label):
        result = edited(document, [f"patch '{name}' applied; {verified(found.digests, source)}"], f"patch '{name}'")
    write_edited(result, output, quiet)


@patch_group.command("verify")
@WORKSPACE
@SET
def verify_command(input_: str, patchset: str) -> None:
    """Say whether a patch set was made for a workspace: 0 if its digests agree, 2 if not."""
    from nsmath.spec.patchset import PatchSet

    source, found = read_source(input_), PatchSet.from_dict(patch_set_at(patchset), f"'{patchset}'")
    with naming(f"'{patchset}'"):
        found.verify(source.given)
    click.echo(verified(found.digests, source))


def verified(digests: dict[str, str], source: Source) -> str:
    """Return which digests agree, in words."""
    return f"{source.label} is the workspace of the patch set: {', '.join(digests)} agree"
