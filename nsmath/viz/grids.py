"""Figures of grids: against one mass, over the plane of two, or point by point where no label is an axis."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from nsmath._typing import Array
from nsmath.errors import OptionError
from nsmath.infer.asymptotics import upper_tail
from nsmath.study.grid import GridResult
from nsmath.study.result import StudyResult
from nsmath.viz.grid_data import GridData, GridRow, distinct_mu, grid_data
from nsmath.viz.parameters import LETTER, ROW
from nsmath.viz.scans import cls_figure
from nsmath.viz.style import BLACK, GREY, SKY, SMALL, VERMILION, new_figure, outside_legend, plain, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALE = "#D6ECF8"
MANY_NUMBERS = 40
"""More points than this over a plane are dots without numbers."""
ROWS_PER_PAGE = 60
"""Points of one figure point by point."""
LOG_RANGE = 20.0
"""Numbers that differ by more than this factor stand on a logarithmic axis."""


@styled
def grid_figure(result: GridResult | StudyResult, *, mu: float | None = None) -> Figure:
    """Return limits, CLs or p0 against one label of a patch set, or over the plane of two.

    Parameters
    ----------
    mu : of a study with several values of mu, the one to draw; the first if not given.

    Raises
    ------
    OptionError
        No point has a result; no one or two labels tell the points apart with numbers, see `grid_figures`.
    """
    data = grid_data(result, mu=mu)
    if not data.labels:
        raise OptionError(
            "a grid is drawn over one or two labels with numbers that tell its points apart, and this one has no such "
            "labels; grid_figures draws it point by point."
        )
    return _against(data) if len(data.labels) == 1 else _plane(data)


@styled
def grid_figures(result: GridResult | StudyResult) -> dict[str, Figure]:
    """Return all figures of a grid or a study, by name: one for each mu.

    Where no one or two labels tell the points apart: CLs against mu of every point that was tested at several, and
    the others below each other.

    Raises
    ------
    OptionError
        No point has a result.
    """
    figures: dict[str, Figure] = {}
    tested = distinct_mu(result)
    known = [data for mu in tested if (data := _known(result, mu)) is not None]
    if not known:
        raise OptionError("no point of the grid has a result to draw.")
    scanned = set() if any(data.labels for data in known) else _scans(result, figures)
    for data in known:
        name = "grid" if len(tested) == 1 else f"{data.poi} = {data.mu:g}"
        if data.labels:
            figures[name] = _against(data) if len(data.labels) == 1 else _plane(data)
            continue
        rows = [row for row in data.rows if row.name not in scanned]
        pages = np.array_split(np.arange(len(rows)), -(-len(rows) // ROWS_PER_PAGE)) if rows else []
        for k, page in enumerate(pages):
            part = "" if len(pages) == 1 else f", {k + 1} of {len(pages)}"
            figures[name + part] = _by_name(data, [rows[i] for i in page], part)
    return figures


def _known(result: GridResult | StudyResult, mu: float) -> GridData | None:
    try:
        return grid_data(result, mu=mu)
    except OptionError:
        return None


def _scans(result: GridResult | StudyResult, figures: dict[str, Figure]) -> set[str]:
    """Add CLs against mu of the points that have two values or more; return their names."""
    drawn = set()
    for point in result.study.points if isinstance(result, StudyResult) else ():
        outcomes: list[Any] = [row.outcome for row in result.rows if row.point is point and row.outcome is not None]  # type: ignore[union-attr]
        tests = [test for test in outcomes if getattr(test, "test_stat", "q0") != "q0"]
        if len(tests) > 1:
            figures[point.name] = cls_figure(tests, title=f"{point.name}: {tests[0].measurement}, {tests[0].test_stat}")
            drawn.add(point.name)
    return drawn


def _is_log(data: GridData, numbers: Array) -> bool:
    positive = numbers[np.isfinite(numbers) & (numbers > 0.0)]
    if data.kind == "CLs" or not len(positive):
        return False
    return data.quantity.is_log or bool(positive.max() > LOG_RANGE * positive.min())


def _columns(rows: list[GridRow]) -> tuple[Array, Array, Array, Array]:
    """Return observed (N,), errors (N,), bounds where nothing else is known (N,), and the band (5, N)."""
    observed = np.array([row.observed for row in rows])
    bound = np.array([row.bound if math.isnan(row.observed) else math.nan for row in rows])
    band = np.array([row.expected for row in rows]).reshape(len(rows), 5).T
    return observed, np.array([row.error for row in rows]), bound, band


def _cut_note(rows: list[GridRow], axes: Axes, data: GridData, handles: dict[str, Any]) -> None:
    n_cut = sum(row.n_cut for row in rows)
    if n_cut:
        handles[data.words("expected band cut at the upper bound of {poi}")] = axes.plot([], [], " ")[0]


def _against(data: GridData) -> Figure:
    """Draw the band and the observed line against one label."""
    quantity = data.quantity
    rows = sorted(data.rows, key=lambda row: row.at[0])
    x = np.array([row.at[0] for row in rows])
    observed, errors, bound, band = _columns(rows)
    figure = new_figure(6.4, 5.0)
    axes = figure.add_subplot()
    handles: dict[str, Any] = {}
    if np.isfinite(band[2]).any():
        handles["expected ± 2 standard deviations"] = axes.fill_between(x, band[0], band[4], color=PALE, lw=0)
        handles["expected ± 1 standard deviation"] = axes.fill_between(x, band[1], band[3], color=SKY, lw=0)
        median = "expected median" if data.kind != "p0" else data.words("expected median for {poi} = 1")
        handles[median] = axes.plot(x, band[2], "--", color=BLACK, linewidth=1.2)[0]
        _cut_note(rows, axes, data, handles)
    size = 3.5 if len(x) <= MANY_NUMBERS else 1.8
    if np.isfinite(errors).any():
        handles["observed with statistical error"] = axes.errorbar(
            x, observed, yerr=errors, fmt="o-", color=BLACK, markersize=size, linewidth=1.4, elinewidth=1.0
        )
    elif np.isfinite(observed).any():
        handles["observed"] = axes.plot(x, observed, "o-", color=BLACK, markersize=size, linewidth=1.4)[0]
    if np.isfinite(bound).any():
        # A marker on the frame is a point like any other.
        handles[data.words(quantity.bound)] = axes.plot(
            x, bound, quantity.marker, color=VERMILION, markersize=5.0, clip_on=False
        )[0]
    numbers = np.concatenate([observed, bound, band.ravel()])
    if _is_log(data, numbers):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0.0)
    _level_lines(axes, data, numbers, handles)
    margin = 0.02 * float(np.ptp(x)) or 0.05 * abs(float(x[0])) or 1.0
    axes.set_xlim(x[0] - margin, x[-1] + margin)
    axes.set_xlabel(plain(data.labels[0]))
    axes.set_ylabel(data.words(quantity.axis))
    axes.set_title(data.title, loc="left")
    outside_legend(figure, list(handles.values()), list(handles))
    return figure


def _level_lines(axes: Axes, data: GridData, numbers: Array, handles: dict[str, Any]) -> None:
    """Draw the line that counts; for p0 one for each standard deviation, named at its end."""
    if data.kind != "p0":
        label = data.words(data.quantity.line)
        handles[label] = axes.axhline(data.quantity.level, color=VERMILION, linewidth=1.2, linestyle=":")
        return
    positive = numbers[np.isfinite(numbers) & (numbers > 0.0)]
    lowest = float(positive.min(initial=1.0))
    shown = [n for n in range(1, 38) if n == 1 or upper_tail(n) > 0.1 * lowest]
    for n in shown[:: -(-len(shown) // 8)]:
        axes.axhline(upper_tail(n), color=VERMILION, linewidth=0.9, linestyle=":")
        axes.annotate(
            rf"{n} $\sigma$", (1.0, upper_tail(n)), xycoords=("axes fraction", "data"), xytext=(3.0, 0.0),
            textcoords="offset points", va="center", color=VERMILION, fontsize=SMALL,
        )  # fmt: skip
    axes.set_ylim(0.3 * min(lowest, upper_tail(shown[-1])), 2.0)


def _plane(data: GridData) -> Figure:
    """Draw points over the plane of two labels, and the lines on which the level is crossed."""
    from matplotlib.colors import LogNorm
    from matplotlib.patheffects import withStroke

    quantity = data.quantity
    rows = list(data.rows)
    x, y = np.array([row.at for row in rows]).T
    _, _, bound, band = _columns(rows)
    shown = np.array([row.shown for row in rows])
    figure = new_figure(6.8, 5.6)
    axes = figure.add_subplot()
    handles: dict[str, Any] = {}
    norm = LogNorm() if data.kind != "CLs" and (shown > 0.0).all() and np.ptp(shown) > 0.0 else None
    below = shown <= quantity.level
    edges = [BLACK if mark else "#FFFFFF" for mark in below]
    crowd = len(rows) > MANY_NUMBERS
    dots = axes.scatter(
        x, y, c=shown, cmap="cividis_r", norm=norm, s=30.0 if crowd else 46.0, edgecolors=edges, linewidths=0.9
    )
    bar = figure.colorbar(dots, ax=axes, label=f"observed {data.words(quantity.axis)}")
    if data.kind != "p0":
        for axis_format in (bar.ax.yaxis.set_major_formatter, bar.ax.yaxis.set_minor_formatter):
            axis_format("{x:g}")
    if below.any():
        handles[data.words(quantity.marked)] = axes.scatter([], [], s=46.0, color=GREY, edgecolors=BLACK, lw=0.9)
    if np.isfinite(bound).any():
        handles[data.words(quantity.bound)] = axes.plot(x, bound * 0.0 + y, quantity.marker, color=VERMILION, ms=5.0)[0]
    for values, dashes, name in ((shown, "-", "observed"), (band[2], "--", "expected")):
        if _contour(axes, x, y, values, quantity.level, dashes):
            line = axes.plot([], [], color=BLACK, linestyle=dashes, lw=1.5)[0]
            handles[f"{name} {data.words(quantity.contour)}"] = line
    if not crowd:
        # Numbers stay readable where a line crosses them.
        halo = [withStroke(linewidth=2.0, foreground="white")]
        for at_x, at_y, value in zip(x, y, shown, strict=True):
            axes.annotate(
                f"{value:.2g}",
                (at_x, at_y),
                xytext=(0.0, 6.0),
                textcoords="offset points",
                ha="center",
                fontsize=SMALL,
                path_effects=halo,
            )
    for values, set_limits in ((x, axes.set_xlim), (y, axes.set_ylim)):
        # Room for the points at the rim and for their numbers.
        margin = 0.1 * float(np.ptp(values))
        set_limits(values.min() - margin, values.max() + margin)
    axes.set_xlabel(plain(data.labels[0]))
    axes.set_ylabel(plain(data.labels[1]))
    axes.set_title(data.title, loc="left")
    if handles:
        outside_legend(figure, list(handles.values()), list(handles))
    return figure


def _contour(axes: Axes, x: Array, y: Array, values: Array, level: float, dashes: str) -> bool:
    """Draw where ``values`` cross ``level`` between the points; return whether they do."""
    from matplotlib.tri import Triangulation

    known = np.isfinite(values)
    if known.sum() < 4 or not values[known].min() < level < values[known].max() or _on_a_line(x[known], y[known]):
        return False
    at_x, at_y = x[known], y[known]
    # Neighbours are near each other on the page, whatever the units of the two labels.
    triangles = Triangulation(at_x / np.ptp(at_x), at_y / np.ptp(at_y)).triangles
    # The logarithm is nearly linear in a mass, and contours interpolate linearly.
    scaled = np.log(np.maximum(values[known], 1e-12))
    axes.tricontour(
        Triangulation(at_x, at_y, triangles), scaled, levels=[np.log(level)], colors=[BLACK], linestyles=[dashes],
        linewidths=1.5,
    )  # fmt: skip
    return True


def _on_a_line(x: Array, y: Array) -> bool:
    points = np.stack([x, y])
    points = points - points.mean(axis=1, keepdims=True)
    sizes = np.linalg.svd(points / (np.abs(points).max(axis=1, keepdims=True) + 1e-300), compute_uv=False)
    return bool(sizes[1] < 1e-9 * sizes[0])


def _by_name(data: GridData, rows: list[GridRow], part: str) -> Figure:
    """Draw points below each other, each with its name, band and observed value."""
    quantity = data.quantity
    observed, errors, bound, band = _columns(rows)
    letters = max(len(row.name) for row in rows)
    figure = new_figure(4.2 + letters * LETTER, max(2.4, len(rows) * ROW + 1.9))
    axes = figure.add_subplot()
    handles: dict[str, Any] = {}
    at = np.arange(len(rows), dtype=float)
    if np.isfinite(band[2]).any():
        for low, high, colour, label in ((0, 4, PALE, "2 standard deviations"), (1, 3, SKY, "1 standard deviation")):
            handles[f"expected ± {label}"] = axes.barh(
                at, band[high] - band[low], left=band[low], height=0.8, color=colour
            )
        handles["expected median"] = axes.plot(band[2], at, "|", color=BLACK, markersize=7.0)[0]
        _cut_note(rows, axes, data, handles)
    name = "observed with statistical error" if np.isfinite(errors).any() else "observed"
    handles[name] = axes.errorbar(
        observed, at, xerr=errors if np.isfinite(errors).any() else None, fmt="o", color=BLACK, markersize=3.0,
        elinewidth=1.0,
    )  # fmt: skip
    if np.isfinite(bound).any():
        marker = {"^": ">", "v": "<"}[quantity.marker]
        handles[data.words(quantity.bound)] = axes.plot(bound, at, marker, color=VERMILION, markersize=4.5)[0]
    if _is_log(data, np.concatenate([observed, bound, band.ravel()])):
        axes.set_xscale("log")
    else:
        axes.set_xlim(left=0.0)
    handles[data.words(quantity.line)] = axes.axvline(quantity.level, color=VERMILION, linewidth=1.2, linestyle=":")
    axes.set_yticks(at, [plain(row.name) for row in rows], fontsize=SMALL)
    axes.tick_params(axis="y", length=0.0)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel(data.words(quantity.axis))
    figure.suptitle(data.title + part)
    outside_legend(figure, list(handles.values()), list(handles), columns=2)
    return figure
