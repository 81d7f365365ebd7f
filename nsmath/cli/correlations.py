"""``nsmath correlations``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nsmath.cli.inputs import chosen_model, chosen_plan
from nsmath.cli.output import checked_output, console, write_json
from nsmath.cli.plots import checked_plot, write_plots
from nsmath.cli.profiles import EXIT_UNTRUSTED, parameter_option, print_provenance, profile_options
from nsmath.errors import OptionError

if TYPE_CHECKING:
    from nsmath.fitting.fit import FitResult
    from nsmath.viz.files import Figures


@click.command("correlations")
@profile_options("the correlation matrix")
@parameter_option("Only correlations with this parameter, or among several of them.")
@click.option("--threshold", type=click.FloatRange(0.0, 1.0), default=0.1, help="Smallest size in table and plot.")
def correlations_command(**options: Any) -> int:
    """Correlations and covariances of the best fit, from the exact Hessian."""
    checked_output(options["output"], options["input_"])
    checked_plot(options)
    model = chosen_model(options)
    for name in options["parameters"]:
        if model.parameters[model.index_of(name)].is_fixed:
            raise OptionError(f"parameter {name!r} is fixed, so it has no correlations. Choose a fitted one.")
    from nsmath.fitting.fit import fit
    from nsmath.fitting.minimiser import FitStatus

    with chosen_plan(model, options) as plan:
        result = fit(model, plan=plan)
    write_json(correlations_dict(result), options["output"])
    write_plots(lambda: correlation_figures(result, options["threshold"]), options)
    if not options["quiet"]:
        print_correlations(result, options["output"], options["threshold"], options["parameters"])
    return 0 if result.status == FitStatus.CONVERGED else EXIT_UNTRUSTED


def correlations_dict(result: FitResult) -> dict[str, Any]:
    """Return the matrices of a fit for JSON, over the parameters that are fitted."""
    names = [name for name, fixed in zip(result.names, result.is_fixed, strict=True) if not fixed]
    index = [result.names.index(name) for name in names]
    document = result.to_dict()
    kept = {key: document[key] for key in ("measurement", "poi", "status", "at_bound", "interpolation", "model_digest",
                                           "backend", "dtype", "device")}  # fmt: skip
    return {
        **kept,
        "names": names,
        "correlation": [[document["correlation"][i][j] for j in index] for i in index],
        "covariance": [[float(result.covariance[i, j]) for j in index] for i in index],
    }


def correlation_figures(result: FitResult, threshold: float) -> Figures:
    """Return the figure of a correlation matrix by name."""
    from nsmath.viz.parameters import correlations

    return {"correlations": correlations(result, threshold=threshold)}


def print_correlations(
    result: FitResult, output: str | None, threshold: float, parameters: tuple[str, ...]
) -> None:  # fmt: skip
    """Print the correlations of at least ``threshold``, the largest first."""
    from rich.table import Table

    from nsmath.cli.fit import largest_correlations

    n = len(result.names)
    wanted = set(parameters)
    rows = [
        (size, first, second)
        for size, first, second in largest_correlations(result, n * (n - 1) // 2)
        if abs(size) >= threshold
        and (not wanted or (wanted >= {first, second} if len(wanted) > 1 else wanted & {first, second}))
    ]
    out = console(output)
    out.print(f"[bold]{len(rows)} correlations of {threshold:g} or more[/bold]  ({result.measurement})")
    table = Table("correlation", "", "", box=None)
    for size, first, second in rows:
        table.add_row(f"{size:+.3f}", first, second)
    out.print(table)
    print_provenance(out, result)
