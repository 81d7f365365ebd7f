"""What the commands about one best fit share: options, and how numbers are shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from nsmath.cli.inputs import model_options, plan_options
from nsmath.cli.plots import plot_option
from nsmath.cli.studies import Command

if TYPE_CHECKING:
    from rich.console import Console

EXIT_UNTRUSTED = 1


def profile_options(plot: str) -> Callable[[Command], Command]:
    """Return a decorator that adds the options for model, plan, output and a plot of ``plot``."""

    def add(command: Command) -> Command:
        for option in reversed((
            model_options,
            plan_options,
            click.option("--output", "-o", metavar="FILE", help="Write the result as JSON; '-' for stdout."),
            plot_option(plot),
            click.option("--quiet", "-q", is_flag=True, help="No table."),
        )):  # fmt: skip
            command = option(command)
        return command

    return add


def parameter_option(what: str) -> Callable[[Command], Command]:
    """Return the repeatable option ``--parameter``; ``what`` says which parameters these are."""
    return click.option("--parameter", "parameters", multiple=True, metavar="NAME", help=what)


def print_provenance(out: Console, result: Any) -> None:
    """Print where a result comes from."""
    codes = ", ".join(f"{kind} {code}" for kind, code in result.interpolation.items())
    out.print(f"  interpolation {codes}; model {result.model_digest[:12]}")


def failures(n_failed: int, what: str) -> int:
    """Return the exit code: 0, or 1 with a word on stderr where fits failed."""
    if not n_failed:
        return 0
    click.echo(f"error: {n_failed} {what}; they are null in the JSON. `nsmath fit --fix` shows such a fit.", err=True)
    return EXIT_UNTRUSTED
