"""``nsmath ranking``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nsmath.cli.inputs import chosen_model, chosen_plan
from nsmath.cli.output import checked_output, console, write_json
from nsmath.cli.plots import checked_plot, write_plots
from nsmath.cli.profiles import failures, parameter_option, print_provenance, profile_options

if TYPE_CHECKING:
    from nsmath.infer.ranking import Impact, RankingResult
    from nsmath.viz.files import Figures


@click.command("ranking")
@profile_options("pulls and impacts, the largest first")
@parameter_option("Nuisance parameter; repeat it. All fitted ones if not given.")
@click.option("--top", type=click.IntRange(min=1), default=20, help="Parameters in the table and the plot.")
def ranking_command(**options: Any) -> int:
    """Pulls, constraints and impacts of nuisance parameters on the POI, before and after the fit.

    An impact is the shift of the POI's best fit when a parameter is held one standard deviation off its own.
    """
    checked_output(options["output"], options["input_"])
    checked_plot(options)
    model = chosen_model(options)
    from nsmath.infer.ranking import ranking

    with chosen_plan(model, options) as plan:
        result = ranking(model, options["parameters"] or None, plan=plan)
    write_json(result.to_dict(), options["output"])
    write_plots(lambda: ranking_figures(result, options["top"]), options)
    if not options["quiet"]:
        print_ranking(result, options["output"], options["top"])
    return failures(result.n_failed, f"of {result.n_fits} refits failed")


def ranking_figures(result: RankingResult, top: int) -> Figures:
    """Return the figure of a ranking by name."""
    from nsmath.viz.profiles import ranking_figure

    return {"ranking": ranking_figure(result, top=top)}


def print_ranking(result: RankingResult, output: str | None, top: int) -> None:
    """Print a ranking for people."""
    from rich.table import Table

    def shown(pair: tuple[Impact, Impact] | None) -> str:
        if pair is None:
            return ""
        sides = (pair[1], pair[0])
        return " ".join("failed" if i.shift is None else f"{i.shift:+.4g}" + ("*" if i.is_cut else "") for i in sides)

    out = console(output)
    error = " (at a bound)" if result.mu_uncertainty is None else f" +- {result.mu_uncertainty:.4g}"
    out.print(f"[bold]{result.poi}[/bold] = {result.mu_hat:.5g}{error}  ({result.measurement})")
    table = Table("", "parameter", "pull", "constraint", "impact up, down", "before the fit", box=None)
    for k, row in enumerate(result.parameters[:top], start=1):
        pull, constraint = (
            "" if value is None else form.format(value)
            for value, form in ((row.pull, "{:+.2f}"), (row.constraint, "{:.2f}"))
        )
        table.add_row(str(k), row.name, pull, constraint, shown(row.postfit_impact), shown(row.prefit_impact))
    out.print(table)
    if len(result.parameters) > top:
        out.print(f"  {len(result.parameters) - top} more with smaller impacts: --top {len(result.parameters)}")
    if any(i.is_cut for row in result.parameters for i in (row.postfit_impact or ()) + (row.prefit_impact or ())):
        out.print("  * held at its bound, which is nearer than a standard deviation")
    out.print(f"  {result.n_fits} refits")
    print_provenance(out, result)
