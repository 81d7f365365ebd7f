"""``nsmath asimov``."""

from __future__ import annotations

from typing import Any

import click

from nsmath.cli.documents import checked_targets, edit_options, write_edited
from nsmath.cli.fit import parse_fixed
from nsmath.cli.inputs import announce_compilation, chosen_interpolation, model_options, naming, read_source


@click.command("asimov")
@model_options
@click.option("--set", "values", multiple=True, metavar="NAME=VALUE", help="Value of a parameter; may be repeated.")
@click.option("--fit", "fitted", is_flag=True, help="The other parameters at the best fit, not at their start values.")
@click.option(
    "--aux", type=click.Choice(["expected", "observed"]), default="expected",
    help="Auxiliary data as expected at the point, or left as observed.",
)  # fmt: skip
@edit_options
def asimov_command(**options: Any) -> None:
    """Replace the data of a workspace by what is expected at one point: its Asimov data set."""
    values = parse_fixed(options["values"], "--set")
    checked_targets(options["output"], [options["input_"]])
    source = read_source(options["input_"], options["patches"])
    if options["fitted"]:
        announce_compilation()
    from nsmath.fitting.datasets import asimov

    with naming(source.label):
        result = asimov(
            source.document, values=values, fitted=options["fitted"], aux=options["aux"],
            measurement=options["measurement"], poi=options["poi"],
            interp=chosen_interpolation(options["interp_defaults"], options["interp"]),
        )  # fmt: skip
    write_edited(result, options["output"], options["quiet"])
