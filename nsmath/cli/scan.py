"""``nsmath scan``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nsmath.cli.inputs import chosen_model, chosen_plan
from nsmath.cli.output import checked_output, console, write_json
from nsmath.cli.plots import checked_plot, write_plots
from nsmath.cli.profiles import failures, parameter_option, print_provenance, profile_options
from nsmath.errors import OptionError

if TYPE_CHECKING:
    from nsmath.infer.scan import Range, ScanResult
    from nsmath.viz.files import Figures


@click.command("scan")
@profile_options("the profile likelihood, or its contours for two parameters")
@parameter_option("Parameter to scan, the POI if not given; a second one makes a grid.")
@click.option(
    "--range", "ranges", multiple=True, metavar="LO:HI[:N]",
    help="Range and number of points of each parameter, in their order; 3 sigma about the best fit if not given.",
)  # fmt: skip
@click.option("--points", type=click.IntRange(min=2), help="Points of each parameter whose range gives none.")
@click.option("--all-parameters", is_flag=True, help="All fitted parameters at every point, in the JSON.")
def scan_command(**options: Any) -> int:
    """Profile likelihood over one or two parameters: all points are fitted in one batch."""
    checked_output(options["output"], options["input_"])
    checked_plot(options)
    model = chosen_model(options)
    names = options["parameters"] or ((model.poi,) if model.poi else ())
    if not names:
        raise OptionError("the measurement has no parameter of interest; name a parameter (--parameter NAME).")
    ranges, points = chosen_ranges(names, options["ranges"], options["points"])
    from nsmath.infer.scan import scan

    with chosen_plan(model, options) as plan:
        result = scan(model, names, ranges=ranges, points=points, plan=plan)
    document = result.to_dict()
    if options["all_parameters"]:
        document |= {"names": list(result.names), "theta": result.theta.tolist()}
    write_json(document, options["output"])
    write_plots(lambda: scan_figures(result), options)
    if not options["quiet"]:
        print_scan(result, options["output"])
    return failures(result.n_failed, f"of {result.status.size} points failed")


def chosen_ranges(
    names: tuple[str, ...], texts: tuple[str, ...], points: int | None
) -> tuple[list[Range | None], list[int] | None]:
    """Return the range (or None) and the number of points of every parameter.

    Raises
    ------
    OptionError
        More ranges than parameters, or one that cannot be read.
    """
    from nsmath.infer.scan import DEFAULT_POINTS

    if len(texts) > len(names):
        raise OptionError(f"{len(texts)} --range for {len(names)} parameters; expected one for each at most.")
    default = DEFAULT_POINTS.get(len(names), (2,))[0] if points is None else points
    ranges: list[Range | None] = []
    counts: list[int] = []
    for text in texts:
        parts = text.split(":")
        try:
            low, high = float(parts[0]), float(parts[1])
            count = int(parts[2]) if len(parts) == 3 else default
            if len(parts) > 3:
                raise ValueError
        except (ValueError, IndexError):
            raise OptionError(f"--range {text!r}: expected LO:HI or LO:HI:N, such as 0:2:21.") from None
        ranges.append((low, high))
        counts.append(count)
    missing = len(names) - len(texts)
    return ranges + [None] * missing, counts + [default] * missing


def scan_figures(result: ScanResult) -> Figures:
    """Return the figure of a scan by name."""
    from nsmath.viz.profiles import scan_figure

    return {"scan": scan_figure(result)}


def print_scan(result: ScanResult, output: str | None) -> None:
    """Print a scan for people: the best fit, and for one parameter the points."""
    import numpy as np
    from rich.table import Table

    out = console(output)
    for name, best, error, cut in zip(
        result.parameters, result.best, result.uncertainties, result.cut, strict=True
    ):  # fmt: skip
        shown = f" +- {error:.4g}" if np.isfinite(error) else " (at a bound)"
        out.print(f"[bold]{name}[/bold] = {best:.5g}{shown}" + ("; the range ends at a bound" if cut else ""))
    if len(result.parameters) == 1:
        table = Table(result.parameters[0], "-2 delta ln L", box=None)
        for value, rise in zip(result.values[0], result.twice_delta_nll, strict=True):
            table.add_row(f"{value:.5g}", "failed" if np.isnan(rise) else f"{rise:.5g}")
        out.print(table)
    else:
        grid = " x ".join(str(len(values)) for values in result.values)
        out.print(f"  {grid} points ({result.measurement}); the grid is in the JSON (--output) and the plot (--plot)")
    for level, rise in result.levels.items():
        out.print(f"  {100.0 * level:g} % region: -2 delta ln L below {rise:.4g}")
    if result.is_refitted:
        out.print("  [yellow]a point lay below the free fit, which was started again there[/yellow]")
    print_provenance(out, result)
