"""``nsmath blind``."""

from __future__ import annotations

from typing import Any

import click

from nsmath.cli.documents import checked_targets, edit_options, write_edited
from nsmath.cli.fit import parse_fixed
from nsmath.cli.inputs import announce_compilation, chosen_interpolation, model_options, naming, read_source


@click.command("blind")
@model_options
@click.option(
    "--channel", "channels", multiple=True, required=True, metavar="NAME", help="Channel to blind; may be repeated."
)
@click.option("--fit", "fitted", is_flag=True, help="Expect what a fit of the other channels says.")
@click.option("--set", "values", multiple=True, metavar="NAME=VALUE", help="Value of a parameter; may be repeated.")
@edit_options
def blind_command(**options: Any) -> None:
    """Replace the observations of some channels by the background expectation, with the POI at 0."""
    values = parse_fixed(options["values"], "--set")
    checked_targets(options["output"], [options["input_"]])
    source = read_source(options["input_"], options["patches"])
    if options["fitted"]:
        announce_compilation()
    from nsmath.fitting.datasets import blinded

    with naming(source.label):
        result = blinded(
            source.document, options["channels"], values=values, fitted=options["fitted"],
            measurement=options["measurement"], poi=options["poi"],
            interp=chosen_interpolation(options["interp_defaults"], options["interp"]),
        )  # fmt: skip
    write_edited(result, options["output"], options["quiet"])
