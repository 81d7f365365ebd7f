"""`grid_figure`: limits or CLs over the patches of a set: against one mass, or over the plane of two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nsmath._typing import Array
from nsmath.errors import OptionError
from nsmath.study.grid import GridResult, numeric
from nsmath.study.result import StudyResult
from nsmath.viz.style import BLACK, SKY, SMALL, VERMILION, new_figure, outside_legend, plain, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EDGES = ("m2", "m1", "median", "p1", "p2")
MANY_NAMES = 40
"""More points than this over a plane are dots without numbers."""


@dataclass(frozen=True, slots=True)
class GridRow:
    """One point: its coordinates (NaN for words), the observed value, the expected band, and the bound where the limit
    lies beyond it."""

    name: str
    at: tuple[float, ...]
    observed: float
    expected: tuple[float, ...]
    beyond: float


@dataclass(frozen=True, slots=True)
class GridData:
    """What is drawn. ``level`` : where a signal counts as excluded: a limit of 1, or CLs of 1 - C.L."""

    labels: tuple[str, ...]
    quantity: str
    level: float
    rows: tuple[GridRow, ...]
    n_missing: int


def _float(value: Any) -> float:
    return float("nan") if value is None else float(value)


def grid_data(result: GridResult | StudyResult, *, mu: float | None = None) -> GridData:
    """Return the rows of a grid; of a study with several mu those of ``mu``, the first one if not given.

    Raises
    ------
    OptionError
        A grid of results that are neither limits nor CLs, or without numeric labels.
    """
    if isinstance(result, StudyResult):
        return _study_data(result, mu)
    rows = []
    for point in result.points:
        if point.outcome is None:
            continue
        found = point.outcome.to_dict()
        at = tuple(numeric(value) for value in point.values.values())
        if result.task == "upper-limit":
            band = tuple(_float(x) for x in found["expected"]["limit"])
            rows.append(GridRow(point.name, at, _float(found["observed"]), band, _float(found["observed_beyond"])))
        elif result.task == "hypotest" and found["cls"] is not None:
            band = tuple(_float(x) for x in found["expected_set"]["cls"])
            rows.append(GridRow(point.name, at, _float(found["cls"]), band, float("nan")))
        else:
            raise OptionError("a plot over a grid needs upper limits, or tests with qtilde or q.")
    quantity, level = ("limit", 1.0) if result.task == "upper-limit" else ("CLs", 0.05)
    return _checked(GridData(result.labels, quantity, level, tuple(rows), len(result.points) - len(rows)))


def _study_data(result: StudyResult, mu: float | None) -> GridData:
    is_limit = result.study.task_name == "upper-limit"
    labels = tuple(dict.fromkeys(label for point in result.study.points for label in point.values))
    tested = [row.mu for row in result.rows]
    wanted = tested[0] if mu is None and tested else mu
    rows, n_missing = [], 0
    for row, cells in zip(result.rows, result.table(), strict=True):
        if not is_limit and row.mu != wanted:
            continue
        value = cells.get("limit" if is_limit else "cls")
        if row.outcome is None or (value is None and cells.get("limit_beyond") is None):
            n_missing += 1
            continue
        at = tuple(numeric(row.point.values.get(label, "")) for label in labels)
        band = tuple(_float(cells.get(f"expected_{edge}")) for edge in EDGES)
        rows.append(GridRow(row.point.name, at, _float(value), band, _float(cells.get("limit_beyond"))))
    quantity, level = ("limit", 1.0) if is_limit else ("CLs", 0.05)
    return _checked(GridData(labels, quantity, level, tuple(rows), n_missing))


def _checked(data: GridData) -> GridData:
    if not data.rows:
        raise OptionError("no point of the grid has a result to draw.")
    usable = [k for k in range(len(data.labels)) if all(np.isfinite(row.at[k]) for row in data.rows)]
    varied = [k for k in usable if len({row.at[k] for row in data.rows}) > 1] or usable[:1]
    if not 1 <= len(varied) <= 2:
        raise OptionError(
            f"a grid is drawn over one or two labels with numbers; this one has {len(varied)} that vary "
            f"(labels: {', '.join(data.labels) or 'none'})."
        )
    rows = tuple(
        GridRow(row.name, tuple(row.at[k] for k in varied), row.observed, row.expected, row.beyond) for row in data.rows
    )
    return GridData(tuple(data.labels[k] for k in varied), data.quantity, data.level, rows, data.n_missing)


@styled
def grid_figure(result: GridResult | StudyResult, *, mu: float | None = None) -> Figure:
    """Return limits (or CLs) against one label of a patch set, or over the plane of two.

    Parameters
    ----------
    mu : of a study with several values of mu, the one to draw; the first if not given.

    Raises
    ------
    OptionError
        As `grid_data`.
    """
    data = grid_data(result, mu=mu)
    return _against(data) if len(data.labels) == 1 else _plane(data)


def _title(data: GridData) -> str:
    missing = f"; {data.n_missing} points without a result left out" if data.n_missing else ""
    what = "upper limit on the signal strength" if data.quantity == "limit" else r"$\mathrm{CL}_s$"
    return f"{what}, {len(data.rows)} points{missing}"


def _against(data: GridData) -> Figure:
    """Draw the band and the observed line against one label."""
    rows = sorted(data.rows, key=lambda row: row.at[0])
    x = np.array([row.at[0] for row in rows])
    observed = np.array([row.observed for row in rows])
    band = np.array([row.expected for row in rows]).T
    figure = new_figure(6.4, 5.0)
    axes = figure.add_subplot()
    handles: dict[str, Any] = {}
    if np.isfinite(band[2]).any():
        handles["expected ± 2 standard deviations"] = axes.fill_between(x, band[0], band[4], color="#D6ECF8", lw=0)
        handles["expected ± 1 standard deviation"] = axes.fill_between(x, band[1], band[3], color=SKY, lw=0)
        handles["expected median"] = axes.plot(x, band[2], "--", color=BLACK, linewidth=1.2)[0]
    handles["observed"] = axes.plot(x, observed, "o-", color=BLACK, markersize=3.5, linewidth=1.4)[0]
    beyond = np.array([row.beyond for row in rows])
    if np.isfinite(beyond).any():
        handles["beyond the upper bound of the POI"] = axes.plot(x, beyond, "^", color=VERMILION, markersize=5.0)[0]
    theory = "signal as predicted" if data.quantity == "limit" else "95 % C.L."
    handles[theory] = axes.axhline(data.level, color=VERMILION, linewidth=1.2, linestyle=":")
    positive = np.concatenate([observed, band.ravel(), beyond])
    positive = positive[np.isfinite(positive) & (positive > 0.0)]
    if data.quantity == "limit" and len(positive) and positive.max() > 20.0 * positive.min():
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0.0)
    if len(x) > 1:
        axes.set_xlim(x[0], x[-1])
    axes.set_xlabel(plain(data.labels[0]))
    axes.set_ylabel("95 % C.L. upper limit" if data.quantity == "limit" else r"$\mathrm{CL}_s$")
    axes.set_title(_title(data), loc="left")
    outside_legend(figure, list(handles.values()), list(handles))
    return figure


def _plane(data: GridData) -> Figure:
    """Draw points over the plane of two labels, and where the signal as predicted is excluded."""
    from matplotlib.colors import LogNorm

    x, y = np.array([row.at for row in data.rows]).T
    observed = np.array([row.observed for row in data.rows])
    shown = np.where(np.isfinite(observed), observed, [row.beyond for row in data.rows])
    figure = new_figure(6.8, 5.6)
    axes = figure.add_subplot()
    handles: dict[str, Any] = {}
    norm = LogNorm() if data.quantity == "limit" and (shown > 0.0).all() else None
    dots = axes.scatter(x, y, c=shown, cmap="cividis_r", norm=norm, s=46.0, edgecolors="white", linewidths=0.6)
    label = "95 % C.L. upper limit" if data.quantity == "limit" else r"$\mathrm{CL}_s$"
    bar = figure.colorbar(dots, ax=axes, label=f"observed {label}")
    for axis_format in (bar.ax.yaxis.set_major_formatter, bar.ax.yaxis.set_minor_formatter):
        axis_format("{x:g}")
    beyond = ~np.isfinite(observed)
    if beyond.any():
        handles["above the upper bound of the POI"] = axes.plot(x[beyond], y[beyond], "^", color=VERMILION, ms=5.0)[0]
    for values, dashes, name in (
        (observed, "-", "observed"), (np.array([row.expected[2] for row in data.rows]), "--", "expected"),
    ):  # fmt: skip
        if _contour(axes, x, y, values, data.level, dashes):
            handles[f"{name} exclusion at 95 % C.L."] = axes.plot([], [], color=BLACK, linestyle=dashes, lw=1.5)[0]
    if len(data.rows) <= MANY_NAMES:
        for at_x, at_y, value in zip(x, y, shown, strict=True):
            axes.annotate(
                f"{value:.2g}", (at_x, at_y), xytext=(0.0, 6.0), textcoords="offset points", ha="center", fontsize=SMALL
            )
    for values, set_limits in ((x, axes.set_xlim), (y, axes.set_ylim)):
        # Room for the points at the rim and for their numbers.
        margin = 0.1 * float(np.ptp(values))
        set_limits(values.min() - margin, values.max() + margin)
    axes.set_xlabel(plain(data.labels[0]))
    axes.set_ylabel(plain(data.labels[1]))
    axes.set_title(_title(data), loc="left")
    if handles:
        outside_legend(figure, list(handles.values()), list(handles))
    return figure


def _contour(axes: Axes, x: Array, y: Array, values: Array, level: float, dashes: str) -> bool:
    """Draw where ``values`` cross ``level`` between the points; return whether they do."""
    known = np.isfinite(values)
    if known.sum() < 4 or not values[known].min() < level < values[known].max() or _on_a_line(x[known], y[known]):
        return False
    # The logarithm is nearly linear in a mass, and contours interpolate linearly.
    scaled = np.log(np.maximum(values[known], 1e-12))
    axes.tricontour(
        x[known], y[known], scaled, levels=[np.log(level)], colors=[BLACK], linestyles=[dashes], linewidths=1.5
    )
    return True


def _on_a_line(x: Sequence[float] | Array, y: Sequence[float] | Array) -> bool:
    points = np.stack([np.asarray(x), np.asarray(y)])
    points = points - points.mean(axis=1, keepdims=True)
    sizes = np.linalg.svd(points / (np.abs(points).max(axis=1, keepdims=True) + 1e-300), compute_uv=False)
    return bool(sizes[1] < 1e-9 * sizes[0])
