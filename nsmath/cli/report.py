"""``nsmath report``."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from nsmath.cli.inputs import chosen_plan, meaning_options, patch_option, plan_options, source_and_model
from nsmath.cli.output import STDOUT, checked_output, write_text
from nsmath.errors import OptionError


@click.command("report")
@click.argument("what", metavar="STORE_OR_WORKSPACE")
@patch_option
@meaning_options
@click.option("--output", "-o", metavar="FILE", required=True, help="The page, FILE.html.")
@click.option("--n-toys", type=click.IntRange(min=0), default=300, help="Toys of the goodness of fit.")
@click.option("--seed", type=int, default=0, help="Seed of these toys.")
@plan_options
@click.option("--quiet", "-q", is_flag=True, help="Say nothing on the way.")
def report_command(what: str, **options: Any) -> int:
    """One self-contained HTML page of a workspace, or of the folder of a store of toys: tables, plots, provenance.

    It needs no network, its tables can be sorted and searched, and it prints. The options for models and fits are those
    of a workspace; a store knows its own.
    """
    checked_output(options["output"], what)
    if options["output"] == STDOUT:
        raise OptionError("--output -: a report goes to a file.")
    from nsmath.report.page import require_jinja

    require_jinja()
    command = [shlex.quote(word) for word in ("nsmath", *sys.argv[1:])]

    def note(text: str) -> None:
        if not options["quiet"] and sys.stderr.isatty():
            click.echo(f"{text} ...", err=True)

    is_store = Path(what).is_dir()
    page = _of_store(what, command, note) if is_store else _of_workspace({**options, "input_": what}, command, note)
    write_text(page, options["output"])
    if not options["quiet"]:
        click.echo(f"{options['output']}: {len(page.encode()) / 1e6:.1f} MB")
    return 0


def _of_store(folder: str, command: list[str], note: Any) -> str:
    from nsmath.report.page import store_report
    from nsmath.store.toystore import ToyStore

    return store_report(ToyStore.read(folder), command=command, note=note)


def _of_workspace(options: dict[str, Any], command: list[str], note: Any) -> str:
    from nsmath.report.page import workspace_report

    source, model = source_and_model(options)
    with chosen_plan(model, options) as plan:
        return workspace_report(
            source.workspace, model, source=source.label, n_toys=options["n_toys"], seed=options["seed"], plan=plan,
            command=command, note=note,
        )  # fmt: skip
