"""``--plot``: figures of a command's result, written beside its JSON and tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nsmath.cli.output import STDOUT, checked_output
from nsmath.errors import OptionError

if TYPE_CHECKING:
    from nsmath.viz.files import Figures

PLOT = "--plot"


def plot_option(what: str) -> Callable[..., Any]:
    """Return the option ``--plot``; ``what`` says what it draws."""
    return click.option(PLOT, "plot", metavar="FILE", help=f"Draw {what}; .png, .pdf or .svg. Needs the extra 'plot'.")


def checked_plot(options: dict[str, Any]) -> None:
    """Refuse a plot that cannot be made, before any work is done for it.

    Raises
    ------
    OptionError
        The suffix names no format, matplotlib is not installed, the file cannot be written, or it is that of
        ``--output`` or the input itself.
    """
    plot, output = options["plot"], options["output"]
    if plot is None:
        return
    from nsmath.viz.files import checked_format
    from nsmath.viz.style import require_matplotlib

    if plot == STDOUT:
        raise OptionError(f"{PLOT} {plot}: a plot goes to a file, whose suffix says the format.")
    checked_format(plot)
    checked_output(plot, options["input_"], option=PLOT)
    if output not in (None, STDOUT) and Path(output).resolve() == Path(plot).resolve():
        raise OptionError(f"{PLOT} {plot} is the file of --output too. Name another file.")
    require_matplotlib()


def write_plots(figures: Callable[[], Figures], options: dict[str, Any]) -> None:
    """Draw and write what ``figures`` returns, if ``--plot`` is given; several files are named on stderr."""
    if options["plot"] is None:
        return
    from nsmath.viz.files import save

    written = save(figures(), options["plot"])
    if [str(file) for file in written] != [options["plot"]] and not options["quiet"]:
        click.echo(f"{PLOT}: {', '.join(map(str, written))}", err=True)
