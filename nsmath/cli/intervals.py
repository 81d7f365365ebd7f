"""``nsmath intervals``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nsmath.cli.inputs import chosen_model, chosen_plan
from nsmath.cli.output import checked_output, console, progress, write_json
from nsmath.cli.plots import checked_plot, write_plots
from nsmath.cli.profiles import failures, parameter_option, print_provenance, profile_options

if TYPE_CHECKING:
    from nsmath.infer.intervals import Edge, IntervalsResult
    from nsmath.viz.files import Figures


@click.command("intervals")
@profile_options("the intervals beside the Hessian's errors")
@parameter_option("Parameter; repeat it. All fitted parameters if not given.")
@click.option(
    "--level", "levels", type=float, multiple=True, help="Confidence level, 0.6827 if not given; repeat it."
)  # fmt: skip
def intervals_command(**options: Any) -> int:
    """Profile-likelihood intervals (as MINOS makes them) beside the Hessian's errors; all edges in batches."""
    checked_output(options["output"], options["input_"])
    checked_plot(options)
    model = chosen_model(options)
    from nsmath.infer.intervals import intervals

    with chosen_plan(model, options) as plan, progress(options["quiet"]) as callback:
        result = intervals(
            model, options["parameters"] or None, levels=options["levels"] or (0.6827,), plan=plan, progress=callback
        )
    write_json(result.to_dict(), options["output"])
    write_plots(lambda: interval_figures(result), options)
    if not options["quiet"]:
        print_intervals(result, options["output"])
    return failures(result.n_failed, "edges were not found")


def interval_figures(result: IntervalsResult) -> Figures:
    """Return the figures of intervals by name, one for each level."""
    from nsmath.viz.profiles import interval_figure

    return {f"{level:g}": interval_figure(result, level) for level in result.levels}


def print_intervals(result: IntervalsResult, output: str | None) -> None:
    """Print intervals for people."""
    from rich.table import Table

    def shown(edge: Edge, value: float) -> str:
        if edge.value is not None:
            return f"{edge.value - value:+.4g}"
        return f"at bound {edge.bound:g}" if edge.status == "at bound" else edge.status

    out = console(output)
    table = Table("parameter", "level", "value", "up", "down", "Hessian", box=None)
    for row in result.intervals:
        hessian = "" if row.uncertainty is None else f"{row.uncertainty:.4g}"
        table.add_row(
            row.name, f"{row.level:g}", f"{row.value:.5g}", shown(row.upper, row.value), shown(row.lower, row.value),
            hessian,
        )  # fmt: skip
    out.print(table)
    out.print(f"  {result.n_fits} conditional fits ({result.measurement})")
    if result.is_refitted:
        out.print("  [yellow]a fit lay below the free one, which was started again there[/yellow]")
    print_provenance(out, result)
