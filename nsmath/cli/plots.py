"""``--plot`` and its like: figures of a command's result, written beside its JSON and tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nsmath.cli.output import STDOUT, checked_output
from nsmath.errors import OptionError

if TYPE_CHECKING:
    from nsmath.infer.result import ToyTestResult
    from nsmath.study.grid import GridResult
    from nsmath.study.result import StudyResult
    from nsmath.viz.files import Figures

PLOT, CONVERGENCE = "--plot", "--plot-convergence"


def _name(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_")


def plot_option(what: str, flag: str = PLOT) -> Callable[..., Any]:
    """Return the option ``--plot``, or another ``flag`` of its kind; ``what`` says what it draws."""
    return click.option(
        flag, _name(flag), metavar="FILE", help=f"Draw {what}; .png, .pdf or .svg. Needs the extra 'plot'."
    )


convergence_option = plot_option(
    "how the p-values settled with the number of toys, and the iterations of the fits", CONVERGENCE
)
"""Adds the option ``--plot-convergence``."""


def checked_plot(options: dict[str, Any], *flags: str) -> None:
    """Refuse plots that cannot be made, before any work is done for them; ``flags`` are those of the command.

    Raises
    ------
    OptionError
        The suffix names no format, matplotlib is not installed, the file cannot be written, or it is that of
        ``--output``, of another plot or the input itself.
    """
    taken = {} if options["output"] in (None, STDOUT) else {Path(options["output"]).resolve(): "--output"}
    for flag in flags or (PLOT,):
        plot = options[_name(flag)]
        if plot is None:
            continue
        from nsmath.viz.files import checked_format
        from nsmath.viz.style import require_matplotlib

        if plot == STDOUT:
            raise OptionError(f"{flag} {plot}: a plot goes to a file, whose suffix says the format.")
        checked_format(plot)
        checked_output(plot, options.get("input_"), option=flag)
        if Path(plot).resolve() in taken:
            raise OptionError(f"{flag} {plot} is the file of {taken[Path(plot).resolve()]} too. Name another file.")
        taken[Path(plot).resolve()] = flag
        require_matplotlib()


def write_plots(figures: Callable[[], Figures], options: dict[str, Any], flag: str = PLOT) -> None:
    """Draw and write what ``figures`` returns, if ``flag`` is given; several files are named on stderr."""
    plot = options[_name(flag)]
    if plot is None:
        return
    from nsmath.viz.files import save

    written = save(figures(), plot)
    if [str(file) for file in written] != [plot] and not options["quiet"]:
        click.echo(f"{flag}: {', '.join(map(str, written))}", err=True)


def write_test_plots(results: list[ToyTestResult], options: dict[str, Any]) -> None:
    """Write what ``--plot`` and ``--plot-convergence`` ask for of toy tests, a figure of its own for every mu."""
    from nsmath.viz.toys import convergence_figure, iterations_figure, q_distributions

    def named(name: str, result: ToyTestResult) -> str:
        return name if len(results) == 1 else f"{name} {result.poi} = {result.mu_test:g}"

    write_plots(lambda: {named("q", result): q_distributions(result) for result in results}, options)
    write_plots(
        lambda: {
            named(name, result): draw(result)
            for result in results
            for name, draw in (("convergence", convergence_figure), ("iterations", iterations_figure))
        },
        options,
        CONVERGENCE,
    )


def write_grid_plots(result: GridResult | StudyResult, options: dict[str, Any]) -> None:
    """Write what ``--plot`` asks for of a grid; where no point has a result, a line on stderr says so."""
    if options["plot"] is None:
        return
    from nsmath.viz.grids import grid_figures

    try:
        figures = grid_figures(result)
    except OptionError as error:
        click.echo(f"{PLOT} {options['plot']}: not written, {error}", err=True)
        return
    write_plots(lambda: figures, options)
