"""Figures around one best fit: scans, intervals, rankings, goodness of fit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from nsmath.errors import OptionError
from nsmath.infer.goodness import GoodnessOfFit, upper_chi2
from nsmath.infer.intervals import AT_BOUND, Interval, IntervalsResult
from nsmath.infer.ranking import Impact, RankedParameter, RankingResult
from nsmath.infer.scan import ScanResult
from nsmath.viz.parameters import LETTER, ROW
from nsmath.viz.scans import likelihood_contour, likelihood_scan
from nsmath.viz.style import (
    BLACK,
    BLUE,
    GREY,
    LIGHT_GREY,
    SKY,
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

MAX_ROWS = 60
"""Parameters in one figure of intervals; those with the most asymmetric intervals are shown where there are more."""
MAX_PULL = 3.0
GOODNESS_BINS = 50


def scan_figure(result: ScanResult) -> Figure:
    """Return the profile likelihood of a scan, with contours where it is over two parameters."""
    title = f"{result.measurement}: profile likelihood"
    if len(result.parameters) == 1:
        return likelihood_scan(
            result.values[0], result.twice_delta_nll, name=result.parameters[0], best=result.best[0], title=title
        )
    x, y = result.values
    return likelihood_contour(
        x, y, result.twice_delta_nll, names=(result.parameters[0], result.parameters[1]),
        best=(result.best[0], result.best[1]), title=title,
    )  # fmt: skip


@styled
def interval_figure(result: IntervalsResult, level: float | None = None) -> Figure:
    """Return the intervals of one level beside the Hessian's errors, in units of the latter about the best fit.

    Where there are more than `MAX_ROWS` parameters, those whose two kinds of error differ the most are shown.

    Raises
    ------
    OptionError
        No interval of this level.
    """
    wanted = result.levels[0] if level is None else level
    rows = [row for row in result.intervals if row.level == wanted]
    if not rows:
        raise OptionError(f"there are no intervals at level {wanted:g}; expected one of {result.levels}.")
    n_all = len(rows)
    if n_all > MAX_ROWS:
        kept = sorted(range(n_all), key=lambda k: -_asymmetry(rows[k]))[:MAX_ROWS]
        rows = [rows[k] for k in sorted(kept)]
    letters = max(len(row.name) for row in rows)
    figure = new_figure(3.6 + letters * LETTER, max(2.4, len(rows) * ROW + 1.6))
    axes = figure.add_subplot()
    handles: dict[str, Any] = {}
    for k, row in enumerate(rows):
        _interval_row(axes, k, row, handles)
    axes.axvline(0.0, color=BLACK, linewidth=0.6)
    axes.set_yticks(range(len(rows)), [plain(row.name) for row in rows], fontsize=SMALL)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0.0)
    axes.set_xlabel("distance from the best fit [Hessian errors]")
    which = f"the {len(rows)} of {n_all} parameters with the largest differences" if n_all > len(rows) else ""
    figure.suptitle(plain(f"{result.measurement}: {100.0 * wanted:g} % intervals" + (f"\n{which}" if which else "")))
    outside_legend(figure, list(handles.values()), list(handles))
    return figure


def _unit(row: Interval) -> float:
    """Return the Hessian's error; where there is none, the size of the interval."""
    sides = [abs(edge.value - row.value) for edge in (row.lower, row.upper) if edge.value is not None]
    return row.uncertainty or max(sides, default=1.0) or 1.0


def _asymmetry(row: Interval) -> float:
    if row.lower.value is None or row.upper.value is None or row.uncertainty is None:
        return math.inf
    down, up = row.value - row.lower.value, row.upper.value - row.value
    return max(abs(up - row.uncertainty), abs(down - row.uncertainty), abs(up - down)) / row.uncertainty


def _interval_row(axes: Axes, y: int, row: Interval, handles: dict[str, Any]) -> None:
    from statistics import NormalDist

    unit = _unit(row)
    if row.uncertainty is not None:
        reach = NormalDist().inv_cdf(0.5 * (1.0 + row.level))
        handles["Hessian"] = axes.barh(y, 2.0 * reach, left=-reach, height=0.7, color=LIGHT_GREY)
    ends = []
    for edge, side in ((row.lower, -1.0), (row.upper, 1.0)):
        at = edge.value if edge.value is not None else (edge.bound if edge.status == AT_BOUND else row.value)
        ends.append((at - row.value) / unit)
        if edge.status == AT_BOUND:
            handles["ends at the parameter's bound"] = axes.plot(
                [ends[-1]], [y], "D", color=VERMILION, markersize=3.5, markerfacecolor="white"
            )[0]
        elif edge.value is None:
            handles["not found: fits failed"] = axes.plot([side * 0.3], [y], "x", color=VERMILION, markersize=4.0)[0]
    handles["profile likelihood"] = axes.plot(ends, [y, y], "|-", color=BLUE, linewidth=1.2, markersize=5.0)[0]


@styled
def ranking_figure(result: RankingResult, *, top: int = 20) -> Figure:
    """Return the ``top`` parameters by impact: impacts on the upper axis, pulls on the lower one."""
    rows = result.parameters[:top]
    if not rows:
        figure = new_figure(6.4, 2.0)
        say(figure.add_subplot(), "no nuisance parameter is fitted: there is no ranking")
        return figure
    letters = max(len(row.name) for row in rows)
    figure = new_figure(4.6 + letters * LETTER, max(3.0, len(rows) * 0.27 + 1.9))
    lower = figure.add_subplot()
    upper = lower.twiny()
    lower.set_zorder(upper.get_zorder() + 1)
    lower.patch.set_visible(False)
    handles: dict[str, Any] = {}
    for y, row in enumerate(rows):
        _impact_bars(upper, y, row, handles)
        _pull_point(lower, y, row, handles)
    shifts = [
        abs(i.shift) for row in rows for i in (*(row.postfit_impact or ()), *(row.prefit_impact or ())) if i.shift
    ]  # fmt: skip
    reach = 1.15 * max(shifts, default=1.0)
    upper.set_xlim(-reach, reach)
    upper.set_xlabel(plain(f"impact: shift of {result.poi}"))
    pull_reach = max(2.0, *(abs(row.pull) + (row.constraint or 0.0) for row in rows if row.pull is not None), 0.0)
    pull_reach = min(1.1 * pull_reach, MAX_PULL)
    lower.set_xlim(-pull_reach, pull_reach)
    for x in (-1.0, 0.0, 1.0):
        lower.axvline(x, color=BLACK, linewidth=0.6, linestyle="-" if x == 0.0 else ":")
    lower.set_xlabel("pull [widths of the constraint]")
    lower.set_yticks(range(len(rows)), [plain(row.name) for row in rows], fontsize=SMALL)
    lower.set_ylim(len(rows) - 0.4, -0.6)
    lower.tick_params(axis="y", length=0.0)
    error = "" if result.mu_uncertainty is None else f" ± {result.mu_uncertainty:.3g}"
    figure.suptitle(plain(f"{result.measurement}: {result.poi} = {result.mu_hat:.4g}{error}"))
    outside_legend(figure, list(handles.values()), list(handles))
    return figure


def _impact_bars(axes: Axes, y: int, row: RankedParameter, handles: dict[str, Any]) -> None:
    """Draw a row's impacts: filled after the fit, outlined before it; the colour says which way it was moved."""
    kinds: tuple[tuple[str, tuple[Impact, Impact] | None], ...] = (
        ("after the fit", row.postfit_impact), ("before the fit", row.prefit_impact),
    )  # fmt: skip
    for kind, pair in kinds:
        for impact, colour, way in zip(pair or (), (SKY, BLUE), ("down", "up"), strict=False):
            if impact.shift is None:
                continue
            filled = kind == "after the fit"
            bar = axes.barh(
                y, impact.shift, height=0.74, color=colour if filled else "none", edgecolor=colour,
                linewidth=0.0 if filled else 0.9, zorder=1 if filled else 2,
            )  # fmt: skip
            handles[f"impact {kind}, moved {way}"] = bar


def _pull_point(axes: Axes, y: int, row: RankedParameter, handles: dict[str, Any]) -> None:
    if row.pull is None:
        return
    if abs(row.pull) > MAX_PULL:
        side = math.copysign(1.0, row.pull)
        axes.text(side * 0.98 * MAX_PULL, y, f"{row.pull:+.3g}", fontsize=SMALL, va="center",
                  ha="right" if side > 0 else "left")  # fmt: skip
        return
    handles["pull and constraint"] = axes.errorbar(
        row.pull, y, xerr=row.constraint, fmt="o", color=BLACK, markersize=3.0, linewidth=1.0
    )


@styled
def goodness_figure(result: GoodnessOfFit) -> Figure:
    """Return the statistic's distribution in toys, the chi2 distribution and the observed value."""
    figure = new_figure(6.4, 4.8)
    axes = figure.add_subplot()
    handles: dict[str, Any] = {}
    good = result.toys[np.isfinite(result.toys)]
    spread = max(result.n_dof, 1) + 4.0 * math.sqrt(2.0 * max(result.n_dof, 1))
    top = 1.05 * max(result.statistic, float(good.max(initial=0.0)), 0.0 if len(good) else spread, 1e-12)
    edges = np.linspace(0.0, top, GOODNESS_BINS + 1)
    if len(good):
        share = np.histogram(good, edges)[0] / len(good)
        tail = np.histogram(good[good >= result.statistic], edges)[0] / len(good)
        axes.stairs(tail, edges, fill=True, color=SKY, linewidth=0.0)
        failed = f" ({result.n_failed} failed, left out)" if result.n_failed else ""
        handles[f"{len(good)} toys{failed}"] = axes.stairs(share, edges, color=BLUE, linewidth=1.3)
    if result.n_dof > 0:
        above = np.array([upper_chi2(float(x), result.n_dof) for x in edges])
        handles[f"$\\chi^2$ with {result.n_dof} degrees of freedom"] = axes.stairs(
            above[:-1] - above[1:], edges, color=VERMILION, linewidth=1.3, linestyle="--"
        )
    handles[f"observed {result.statistic:.5g}"] = axes.axvline(result.statistic, color=BLACK, linewidth=1.6)
    for words in _goodness_words(result):
        handles[words] = axes.plot([], [], " ")[0]
    axes.set_xlim(0.0, top)
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel(r"$-2\,\ln\,(L_\mathrm{best}/L_\mathrm{saturated})$")
    axes.set_ylabel(f"share per bin of {edges[1]:.2g}")
    axes.set_title(plain(f"{result.measurement}: goodness of fit"), loc="left")
    axes.grid(axis="y", color=GREY, linewidth=0.3)
    outside_legend(figure, list(handles.values()), list(handles))
    return figure


def _goodness_words(result: GoodnessOfFit) -> list[str]:
    from nsmath.infer.wording import with_error

    words = []
    if result.n_toys:
        number = with_error(result.p_toys, result.p_toys_error, result.p_toys_upper).replace("+-", "±")
        words.append(f"p by toys {number}")
    if result.p_chi2 is not None:
        words.append(f"p by chi2 {result.p_chi2:.4g}")
    return words
