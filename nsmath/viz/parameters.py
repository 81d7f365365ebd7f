"""`pulls` and `correlations` of a fit, readable with hundreds of parameters."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from nsmath._typing import Array, IntArray
from nsmath.errors import OptionError
from nsmath.fitting.fit import FitResult
from nsmath.fitting.inspection import pulls as pull_values
from nsmath.fitting.minimiser import FitStatus
from nsmath.model.model import Model
from nsmath.model.yields import prefit_uncertainties
from nsmath.viz.style import (
    BLACK,
    BLUE,
    GREY,
    LIGHT_GREY,
    SMALL,
    VERMILION,
    new_figure,
    outside_legend,
    plain,
    say,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROW = 0.155
"""Inches from one parameter to the next: a line of letters of size `SMALL`, and a gap."""
LETTER = 0.058
"""Inches that a letter of size `SMALL` is wide, about."""
PULL_AXIS = 1.7
"""Inches of the axis of one column of pulls."""
MIN_ROWS = 30
PAGE = 0.8
"""Width of a page over its height."""
PER_PAGE = 120
"""Pulls that one page of `pull_pages` holds, with letters that are still readable on A4."""
MAX_PULL = 5.0
"""Widths shown on either side; what lies beyond is an arrow with its number."""
ALL_CORRELATIONS = 30
MAX_CORRELATIONS = 45
"""Parameters that a matrix shows without a threshold of the user's; up to the first number, all that there are."""
CELL_NUMBERS = 16


def _title(result: FitResult, subject: str) -> str:
    status = "" if result.status == FitStatus.CONVERGED else f" ({result.status.message})"
    return plain(f"{result.measurement}: {subject}{status}")


@styled
def pulls(model: Model, result: FitResult) -> Figure:
    """Return the pulls of the parameters that have a constraint and are fitted.

    Points are (value - auxiliary measurement) / width of the constraint, bars the fitted uncertainty over that width
    (1 where the data say nothing). Free and fixed parameters have no pull; the legend says how many they are.

    Parameters
    ----------
    model : of which ``result`` is a fit.
    """
    return _pull_figure(model, result, _pulled(model, result), "pulls")


@styled
def pull_pages(model: Model, result: FitResult) -> dict[str, Figure]:
    """Return `pulls` by name, over as many figures as keep it readable in print, `PER_PAGE` parameters each."""
    shown = _pulled(model, result)
    n_pages = max(1, math.ceil(len(shown) / PER_PAGE))
    if n_pages == 1:
        return {"pulls": _pull_figure(model, result, shown, "pulls")}
    return {
        f"pulls-{page}": _pull_figure(model, result, part, f"pulls, {page} of {n_pages}")
        for page, part in enumerate(np.array_split(shown, n_pages), 1)
    }


def _pulled(model: Model, result: FitResult) -> IntArray:
    """Return which parameters have a pull: fitted, with a constraint."""
    pull = pull_values(model, result.values)
    return np.flatnonzero(np.isfinite(pull) & ~np.array(result.is_fixed, dtype=bool))


def _pull_figure(model: Model, result: FitResult, shown: IntArray, subject: str) -> Figure:
    if not len(shown):
        figure = new_figure(6.4, 2.0)
        say(figure.add_subplot(), "no parameter that is fitted has a constraint: there are no pulls")
        figure.suptitle(_title(result, subject))
        return figure
    width = prefit_uncertainties(model)[shown]
    pull, errors = pull_values(model, result.values)[shown], result.uncertainties[shown] / width
    names = [result.names[p] for p in shown]
    columns, rows = _shape(len(shown))
    letters = sum(max(map(len, names[c * rows : (c + 1) * rows])) for c in range(columns))
    figure = new_figure(max(5.4, letters * LETTER + columns * (PULL_AXIS + 0.25)), max(2.4, rows * ROW + 1.7))
    reach = min(MAX_PULL, max(2.5, 1.05 * float(np.max(np.abs(pull) + np.nan_to_num(errors)))))
    handles: dict[str, Any] = {}
    for c, axes in enumerate(np.atleast_1d(figure.subplots(1, columns))):
        part = slice(c * rows, (c + 1) * rows)
        _pull_column(axes, names[part], pull[part], errors[part], reach, handles)
        axes.set_ylim(rows - 0.4, -0.6)
        axes.set_xlabel("pull [widths of the constraint]")
    figure.suptitle(_title(result, subject))
    left_out = _left_out(model, result)
    if left_out:
        handles[left_out] = axes.plot([], [], " ")[0]
    outside_legend(figure, list(handles.values()), list(handles))
    return figure


def _shape(n: int) -> tuple[int, int]:
    """Return columns and rows of about the shape of a page."""
    rows = max(MIN_ROWS, math.ceil(math.sqrt(n * 2.0 * PULL_AXIS / (PAGE * ROW))))
    columns = max(1, round(n / rows))
    return columns, math.ceil(n / columns)


def _pull_column(
    axes: Axes, names: list[str], pull: Array, errors: Array, reach: float, handles: dict[str, Any]
) -> None:
    """Draw one column of pulls; new entries of the legend go into ``handles``, by label."""
    y = np.arange(len(names))
    axes.axvspan(-2.0, 2.0, color=LIGHT_GREY, linewidth=0.0)
    handles.setdefault("one and two widths of the constraint", axes.axvspan(-1.0, 1.0, color=GREY, linewidth=0.0))
    axes.axvline(0.0, color=BLACK, linewidth=0.6)
    known, inside = np.isfinite(errors), np.abs(pull) <= reach
    first = known & inside
    if first.any():
        handles["fitted value and uncertainty"] = axes.errorbar(
            pull[first], y[first], xerr=errors[first], fmt="o", color=BLUE, markersize=3.0, linewidth=1.0
        )
    second = ~known & inside
    if second.any():
        handles["at a bound or undetermined: no uncertainty"] = axes.plot(
            pull[second], y[second], "D", color=VERMILION, markersize=3.5, markerfacecolor="white"
        )[0]
    for k in np.flatnonzero(~inside):
        side = np.sign(pull[k])
        arrow = axes.plot([side * reach * 0.96], [y[k]], ">" if side > 0 else "<", color=VERMILION, markersize=4.5)[0]
        axes.text(
            side * reach * 0.9, y[k], f"{pull[k]:+.3g}", fontsize=SMALL, va="center", ha="right" if side > 0 else "left"
        )
        handles[f"beyond {reach:g} widths, with its number"] = arrow
    axes.set_xlim(-reach, reach)
    axes.set_yticks(y, [plain(name) for name in names], fontsize=SMALL)
    axes.tick_params(axis="y", length=0.0)


def _left_out(model: Model, result: FitResult) -> str:
    n_fixed = sum(result.is_fixed)
    n_free = len(model.names) - len(_pulled(model, result)) - n_fixed
    parts = [f"{n} {kind}" for n, kind in ((n_free, "without constraint"), (n_fixed, "fixed")) if n]
    return f"left out: {', '.join(parts)}" if parts else ""


@styled
def correlations(result: FitResult, *, threshold: float | None = None) -> Figure:
    """Return the correlation matrix of a fit.

    Parameters
    ----------
    threshold : parameters are shown whose correlation with some other one is at least this large, either way. None:
        all, where there are few; else the smallest multiple of 0.05 that leaves a matrix one can read, or, where none
        does, the strongest pairs. The title says which.

    Raises
    ------
    OptionError
        ``threshold`` is not between 0 and 1.
    """
    if threshold is not None and not 0.0 <= threshold <= 1.0:
        raise OptionError(f"threshold is {threshold:g}; a correlation to show lies between 0 and 1.")
    matrix = result.correlation
    known = np.flatnonzero(np.isfinite(np.diag(matrix)))
    shown, used = correlated(matrix, known, threshold)
    subject = f"correlations of {len(known)} parameters"
    if len(shown) < len(known):
        which = "the largest correlations" if used is None else f"|correlation| ≥ {used:g}"
        subject = f"correlations of the {len(shown)} of {len(known)} parameters with {which}"
    if len(shown) == 0:
        figure = new_figure(6.4, 2.0)
        why = "no parameter has an uncertainty" if not len(known) else f"no correlation is {threshold:g} or larger"
        say(figure.add_subplot(), f"{why}: there is no matrix to show")
        figure.suptitle(_title(result, "correlations"))
        return figure
    return _matrix(matrix[np.ix_(shown, shown)], [plain(result.names[p]) for p in shown], _title(result, subject))


def correlated(matrix: Array, known: IntArray, threshold: float | None) -> tuple[IntArray, float | None]:
    """Return the parameters to show, and the threshold that chose them; None where none of the usual ones can."""
    size = np.abs(matrix[np.ix_(known, known)])
    np.fill_diagonal(size, 0.0)
    largest = size.max(axis=1, initial=0.0)
    if threshold is not None:
        return known[largest >= threshold], threshold
    if len(known) <= ALL_CORRELATIONS:
        return known, 0.0
    for step in range(1, 20):
        n_shown = np.count_nonzero(largest >= 0.05 * step)
        if 0 < n_shown <= MAX_CORRELATIONS:
            return known[largest >= 0.05 * step], 0.05 * step
    # All much alike: the strongest pairs, as many as there is room for.
    found: dict[int, None] = {}
    for pair in np.argsort(-np.triu(size), axis=None, kind="stable"):
        found |= dict.fromkeys(int(k) for k in np.unravel_index(pair, size.shape))
        if len(found) >= MAX_CORRELATIONS - 1:
            break
    return known[sorted(found)], None


def _matrix(matrix: Array, names: list[str], title: str) -> Figure:
    from matplotlib.colors import LinearSegmentedColormap

    n = len(names)
    letters = max(map(len, names)) * LETTER
    side = max(2.6, n * (ROW if n > CELL_NUMBERS else 0.36))
    figure = new_figure(max(side + letters + 1.3, 6.0), side + letters + 0.7)
    axes = figure.add_subplot()
    colours = LinearSegmentedColormap.from_list("correlation", [BLUE, "#FFFFFF", VERMILION])
    image = axes.imshow(matrix, cmap=colours, vmin=-1.0, vmax=1.0)
    axes.set_xticks(range(n), names, rotation=90, fontsize=SMALL)
    axes.set_yticks(range(n), names, fontsize=SMALL)
    axes.tick_params(length=0.0)
    if n <= CELL_NUMBERS:
        for i, row in enumerate(matrix):
            for j, value in enumerate(row):
                # Rounded first, so that no cell reads -0.00.
                number = round(float(value), 2) + 0.0
                axes.text(j, i, f"{number:.2f}", ha="center", va="center", fontsize=SMALL)
    figure.colorbar(image, ax=axes, label="correlation", shrink=0.8, aspect=30)
    figure.suptitle(title)
    return figure
