"""How every plot looks, and the only way to a new figure: colours, sizes, text that is taken literally."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from nsmath.errors import OptionError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

P = ParamSpec("P")
R = TypeVar("R")

# Okabe and Ito, "Color Universal Design" (2008): told apart with every kind of colour vision.
BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7",
)  # fmt: skip
GREY, LIGHT_GREY = "#BDBDBD", "#E6E6E6"
FILLS = (SKY, ORANGE, GREEN, YELLOW, BLUE, VERMILION, PURPLE)
"""Colours of areas, in the order of use."""

SMALL = 7.0
"""Points; the smallest size of letters, still readable in print."""

STYLE: dict[str, Any] = {
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.labelsize": 9.0,
    "legend.fontsize": 8.0,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "figure.titlesize": 10.0,
    "legend.frameon": False,
    "xtick.direction": "in",
    "ytick.direction": "in",
    # Far enough that the numbers at the corner do not touch.
    "xtick.major.pad": 5.0,
    "ytick.major.pad": 4.5,
    "axes.linewidth": 0.8,
    "hatch.linewidth": 0.6,
    "savefig.dpi": 200.0,
    # Letters of PDF files as TrueType, which publishers ask for; of SVG files as outlines, the same on any machine.
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    # The same figure gives the same file.
    "svg.hashsalt": "nsmath",
}


def require_matplotlib() -> None:
    """Do nothing where plots can be made.

    Raises
    ------
    OptionError
        matplotlib is not installed.
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise OptionError(
            f"plots need matplotlib, which cannot be imported ({error}). Install it with: pip install 'nsmath[plot]'"
        ) from error


@contextmanager
def style() -> Iterator[None]:
    """Set matplotlib's defaults and `STYLE` over them, and bring the user's settings back at the end."""
    require_matplotlib()
    import matplotlib.style

    with matplotlib.style.context(["default", STYLE]):
        yield


def styled(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function that draws do so in `style`, whatever the user's settings."""

    @functools.wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> R:
        with style():
            return function(*args, **kwargs)

    return inside


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure, size in inches, whose layout leaves room for all text."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def plain(name: str) -> str:
    """Return a name as matplotlib shall show it: a dollar is a dollar, not the begin of a formula."""
    return name.replace("$", r"\$")


def outside_legend(figure: Figure, handles: list[Any], labels: list[str], columns: int = 2) -> None:
    """Put a legend below all axes, where it covers nothing."""
    # An underscore in front would make matplotlib leave the entry out.
    shown = [f"\u200b{label}" if label.startswith("_") else label for label in labels]
    figure.legend(handles, shown, loc="outside lower center", ncols=min(columns, len(handles)))


def say(axes: Axes, message: str) -> None:
    """Write ``message`` in the place of a plot that has nothing to show."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, message, ha="center", va="center", transform=axes.transAxes, wrap=True)
