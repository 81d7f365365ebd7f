"""``nsmath gof``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nsmath.cli.inputs import chosen_model, chosen_plan
from nsmath.cli.output import checked_output, console, progress, with_error, write_json
from nsmath.cli.plots import checked_plot, write_plots
from nsmath.cli.profiles import EXIT_UNTRUSTED, print_provenance, profile_options

if TYPE_CHECKING:
    from nsmath.infer.goodness import GoodnessOfFit
    from nsmath.viz.files import Figures


@click.command("gof")
@profile_options("the statistic of toys, the observed one and the chi2")
@click.option("--n-toys", type=click.IntRange(min=0), default=1000, help="Toys at the best fit; 0 for chi2 alone.")
@click.option("--seed", type=int, default=0, help="Seed; toys depend on it and their index alone.")
@click.option(
    "--aux", type=click.Choice(["random", "fixed"]), default="random",
    help="Auxiliary data fluctuate with the toys, or stay as observed.",
)  # fmt: skip
def gof_command(**options: Any) -> int:
    """Goodness of the best fit against the saturated model: p-value by chi2, and by toys."""
    checked_output(options["output"], options["input_"])
    checked_plot(options)
    model = chosen_model(options)
    from nsmath.infer.goodness import goodness_of_fit
    from nsmath.infer.result import MAX_FAILED_SHARE

    with chosen_plan(model, options) as plan, progress(options["quiet"]) as callback:
        result = goodness_of_fit(
            model, n_toys=options["n_toys"], seed=options["seed"], aux=options["aux"], plan=plan, progress=callback
        )
    write_json(result.to_dict(), options["output"])
    write_plots(lambda: gof_figures(result), options)
    if not options["quiet"]:
        print_gof(result, options["output"])
    if result.n_failed > MAX_FAILED_SHARE * result.n_toys:
        click.echo(
            f"error: {result.n_failed} of {result.n_toys} toys failed, more than {MAX_FAILED_SHARE:.0%}: do not trust "
            "the p-value by toys beyond p_toys_bracket.", err=True,
        )  # fmt: skip
        return EXIT_UNTRUSTED
    return 0


def gof_figures(result: GoodnessOfFit) -> Figures:
    """Return the figure of a goodness of fit by name."""
    from nsmath.viz.profiles import goodness_figure

    return {"gof": goodness_figure(result)}


def print_gof(result: GoodnessOfFit, output: str | None) -> None:
    """Print a goodness of fit for people."""
    out = console(output)
    out.print(f"[bold]goodness of fit[/bold]  ({result.measurement})")
    out.print(f"  2 (NLL - NLL saturated)  {result.statistic:.6g} for {result.n_dof} degrees of freedom")
    chi2 = "undefined without degrees of freedom" if result.p_chi2 is None else f"{result.p_chi2:.4g}"
    out.print(f"  p by chi2                {chi2}")
    if result.n_toys:
        out.print(f"  p by {result.n_toys} toys".ljust(27) + with_error(
            result.p_toys, result.p_toys_error, result.p_toys_upper
        ))  # fmt: skip
    if result.p_toys_bracket is not None:
        low, high = result.p_toys_bracket
        out.print(f"  [yellow]{result.n_failed} toys failed; counted either way, p lies in {low:.4g} to {high:.4g}[/]")
    print_provenance(out, result)
