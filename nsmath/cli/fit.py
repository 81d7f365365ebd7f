"""``nsmath fit``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from nsmath.cli.inputs import chosen_device, chosen_model, device_options, model_options
from nsmath.cli.output import checked_output, console, write_json
from nsmath.cli.plots import checked_plot, plot_option, write_plots
from nsmath.errors import OptionError

if TYPE_CHECKING:
    from nsmath.fitting.fit import FitResult
    from nsmath.model.model import Model
    from nsmath.viz.files import Figures

EXIT_NOT_CONVERGED = 1


@click.command("fit")
@model_options
@device_options
@click.option("--fix", "fixed", multiple=True, metavar="NAME=VALUE", help="Hold a parameter; may be repeated.")
@click.option("--output", "-o", metavar="FILE", help="Write the result as JSON; '-' for stdout.")
@plot_option("pulls and correlations")
@click.option("--quiet", "-q", is_flag=True, help="No table.")
@click.option("--n-correlations", type=click.IntRange(min=0), default=10, help="Largest correlations to list.")
def fit_command(**options: Any) -> int:
    """Fit the observed data: best fit, uncertainties and correlations from the exact Hessian, NLL, status."""
    checked_output(options["output"], options["input_"])
    checked_plot(options)
    fixed = parse_fixed(options["fixed"])
    model = chosen_model(options)
    for name in fixed:
        model.index_of(name)
    choice = chosen_device(model, options, 1, "1 fit")
    from nsmath.fitting.fit import fit
    from nsmath.fitting.minimiser import FitStatus

    result = fit(model, fixed=fixed, backend=choice.backend, dtype=choice.dtype)
    write_json(result.to_dict(), options["output"])
    write_plots(lambda: fit_figures(model, result), options)
    if not options["quiet"]:
        print_table(model, result, options["output"], options["n_correlations"])
    return 0 if result.status == FitStatus.CONVERGED else EXIT_NOT_CONVERGED


def fit_figures(model: Model, result: FitResult) -> Figures:
    """Return the figures of a fit by name."""
    from nsmath.viz.parameters import correlations, pull_pages

    return {**pull_pages(model, result), "correlations": correlations(result)}


def parse_fixed(texts: tuple[str, ...], option: str = "--fix") -> dict[str, float]:
    """Return options of the form NAME=VALUE, such as ``--fix``, as name -> value."""
    fixed: dict[str, float] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        if name in fixed:
            raise OptionError(f"{option} {text!r}: '{name}' is given twice. Give it once.")
        try:
            fixed[name] = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise OptionError(f"{option} {text!r}: expected NAME=VALUE, such as mu=1.0.")
    return fixed


def print_table(model: Model, result: FitResult, output: str | None, n_correlations: int) -> None:
    """Print a fit for people: every parameter with its pull, the largest correlations, NLL and status."""
    from rich.table import Table

    out = console(output)
    table = Table(title=f"{result.measurement}: {result.status.message}", title_justify="left")
    for heading, justify in (("parameter", "left"), ("value", "right"), ("uncertainty", "right"), ("pull", "right"),
                             ("note", "left")):  # fmt: skip
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    for parameter, value, error, fixed in zip(
        model.parameters, result.values, result.uncertainties, result.is_fixed, strict=True
    ):
        notes = [
            note
            for note, holds in (
                ("POI", parameter.name == result.poi), ("fixed", fixed),
                ("at a bound", parameter.name in result.at_bound),
            )
            if holds
        ]  # fmt: skip
        pull = ""
        if parameter.constraint == "normal" and not fixed:
            pull = f"{(value - parameter.auxdata) / parameter.scale:+.2f}"
        shown = "" if fixed or math.isnan(error) else f"{error:.4g}"
        table.add_row(parameter.name, f"{value:.5g}", shown, pull, ", ".join(notes))
    out.print(table)
    for size, first, second in largest_correlations(result, n_correlations):
        out.print(f"  correlation {size:+.3f}  {first}  {second}")
    codes = ", ".join(f"{kind} {code}" for kind, code in result.interpolation.items())
    out.print(f"NLL {result.nll:.9g} (twice {result.twice_nll:.9g}) after {result.n_iterations} iterations")
    if result.at_bound:
        out.print(f"at a bound, so without a symmetric uncertainty: {', '.join(result.at_bound)}", style="yellow")
    out.print(f"interpolation {codes}; model {result.model_digest[:12]}")


def largest_correlations(result: FitResult, n: int) -> list[tuple[float, str, str]]:
    """Return the n largest correlations with their two parameters, by size."""
    import numpy as np

    matrix = np.nan_to_num(np.triu(result.correlation, 1))
    order = np.argsort(-np.abs(matrix), axis=None)[:n]
    pairs = [np.unravel_index(k, matrix.shape) for k in order]
    return [(float(matrix[i, j]), result.names[i], result.names[j]) for i, j in pairs if matrix[i, j] != 0.0]
