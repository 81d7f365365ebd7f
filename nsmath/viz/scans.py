"""Scans over parameters: from plain arrays (`cls_scan`, `likelihood_scan`, `likelihood_contour`) and from results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nsmath._typing import Array
from nsmath.errors import OptionError
from nsmath.viz.style import BLACK, BLUE, GREY, SKY, VERMILION, new_figure, outside_legend, plain, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nsmath.infer.asymptotic_limit import AsymptoticLimitResult
    from nsmath.infer.asymptotics import AsymptoticTestResult
    from nsmath.infer.result import ToyTestResult
    from nsmath.infer.toy_limit import ToyLimitResult

    Test = ToyTestResult | AsymptoticTestResult

WITHIN = {1: ((0.683, 1.0), (0.95, 3.841)), 2: ((0.683, 2.296), (0.95, 5.991))}
"""Number of parameters -> (confidence level, chi2 quantile): how far -2 ln L rises above its minimum."""


def numbers(name: str, values: Any, shape: tuple[int, ...]) -> Array:
    """Return ``values`` as an array; what is None becomes NaN, which plots leave out.

    Raises
    ------
    OptionError
        Another shape than ``shape``.
    """
    found = np.array(values, dtype=float)
    if found.shape != shape:
        raise OptionError(f"{name} has shape {found.shape}; expected {shape}.")
    return found


def points(name: str, values: Any) -> Array:
    """Return the values of a scan, (N,).

    Raises
    ------
    OptionError
        Fewer than two, one that is not finite, or not in ascending order.
    """
    found = np.array(values, dtype=float)
    if found.ndim != 1 or len(found) < 2 or not (np.diff(found) > 0.0).all():
        raise OptionError(f"{name} of a scan are two values or more in ascending order; got {found.tolist()}.")
    return found


@styled
def cls_scan(
    mu: Any, observed: Any = None, observed_error: Any = None, band: Any = None, *, poi: str = "mu",
    level: float = 0.95, limit: float | None = None, title: str = "", observed_upper: Any = None,
) -> Figure:  # fmt: skip
    """Return CLs against the tested value, with the band expected from background alone.

    Parameters
    ----------
    mu : tested values in ascending order, (N,).
    observed, observed_error : CLs and its statistical error, (N,); None, alone or as an element, where there is none.
    band : expected CLs, (5, N): rows by background fluctuation, from +2 to -2 standard deviations or the reverse.
    level : confidence level of the exclusion; a line is drawn at CLs = 1 - level.
    limit : observed upper limit, to be marked.
    observed_upper : bounds of CLs where no toy is in its tail, (N,); None elsewhere.

    Raises
    ------
    OptionError
        Arrays of other shapes; values that do not ascend.
    """
    x = points("mu", mu)
    figure = new_figure(6.4, 5.0)
    axes = figure.add_subplot()
    handles: dict[str, Any] = {}
    if band is not None:
        rows = numbers("band", band, (5, len(x)))
        handles["expected ± 2 standard deviations"] = axes.fill_between(x, rows[0], rows[4], color="#D6ECF8", lw=0)
        handles["expected ± 1 standard deviation"] = axes.fill_between(x, rows[1], rows[3], color=SKY, lw=0)
        handles["expected median"] = axes.plot(x, rows[2], "--", color=BLACK, linewidth=1.2)[0]
    if observed is not None:
        error = None if observed_error is None else numbers("observed_error", observed_error, x.shape)
        handles["observed" + (" with statistical error" if error is not None else "")] = axes.errorbar(
            x, numbers("observed", observed, x.shape), yerr=error, fmt="o-", color=BLACK, markersize=3.0, linewidth=1.4
        )
    if observed_upper is not None:
        handles["observed is lower than this: no toy in the tail"] = axes.plot(
            x, numbers("observed_upper", observed_upper, x.shape), "v", color=VERMILION, markersize=5.0, clip_on=False
        )[0]
    alpha = 1.0 - level
    handles[f"{100.0 * level:g} % C.L."] = axes.axhline(alpha, color=VERMILION, linewidth=1.2)
    if limit is not None:
        handles[f"observed limit {plain(poi)} < {limit:.4g}"] = axes.axvline(limit, color=BLUE, lw=1.2, ls=":")
    axes.set_xlim(x[0], x[-1])
    axes.set_ylim(0.0, 1.05)
    axes.set_xlabel(f"tested {plain(poi)}")
    axes.set_ylabel(r"$\mathrm{CL}_s$")
    axes.set_title(plain(title), loc="left")
    outside_legend(figure, list(handles.values()), list(handles))
    return figure


@styled
def likelihood_scan(
    values: Any, twice_delta_nll: Any, *, name: str = "mu", best: float | None = None, title: str = ""
) -> Figure:
    """Return the profile likelihood ratio -2 ln(L(value) / L(best)) of one parameter.

    Parameters
    ----------
    values : of the parameter, ascending, (N,).
    twice_delta_nll : rise of -2 ln L above its minimum, (N,).
    best : best fit, to be marked.

    Raises
    ------
    OptionError
        Arrays of other shapes; values that do not ascend.
    """
    x = points(name, values)
    rise = numbers("twice_delta_nll", twice_delta_nll, x.shape)
    figure = new_figure(6.4, 4.6)
    axes = figure.add_subplot()
    handles: dict[str, Any] = {"profile likelihood": axes.plot(x, rise, "o-", color=BLUE, ms=3.0, lw=1.4)[0]}
    for (share, quantile), dashes in zip(WITHIN[1], ("--", ":"), strict=True):
        handles[f"{100.0 * share:g} % C.L."] = axes.axhline(quantile, color=VERMILION, linewidth=1.0, linestyle=dashes)
    if best is not None:
        handles[f"best fit {best:.4g}"] = axes.axvline(best, color=GREY, linewidth=1.2)
    axes.set_xlim(x[0], x[-1])
    axes.set_ylim(min(0.0, 1.05 * float(np.nanmin(rise))), 1.05 * max(4.5, float(np.nanmax(rise))))
    _scan_labels(axes, plain(name), r"$-2\,\ln\,(L/L_\mathrm{best})$", title)
    outside_legend(figure, list(handles.values()), list(handles))
    return figure


@styled
def likelihood_contour(
    x: Any, y: Any, twice_delta_nll: Any, *, names: tuple[str, str], best: tuple[float, float] | None = None,
    title: str = "",
) -> Figure:  # fmt: skip
    """Return the profile likelihood ratio of two parameters, with the contours of two confidence levels.

    Parameters
    ----------
    x, y : values of the parameters ``names``, ascending, (N,) and (M,).
    twice_delta_nll : rise of -2 ln L above its minimum, (N, M).
    best : best fit, to be marked.

    Raises
    ------
    OptionError
        Arrays of other shapes; values that do not ascend.
    """
    first, second = points(names[0], x), points(names[1], y)
    rise = numbers("twice_delta_nll", twice_delta_nll, (len(first), len(second))).T
    figure = new_figure(6.4, 5.4)
    axes = figure.add_subplot()
    handles: dict[str, Any] = {}
    mesh = axes.pcolormesh(first, second, np.ma.masked_invalid(rise), cmap="cividis_r", vmin=0.0, vmax=12.0)
    figure.colorbar(mesh, ax=axes, label=r"$-2\,\ln\,(L/L_\mathrm{best})$", extend="max")
    for (share, quantile), dashes in zip(WITHIN[2], ("-", "--"), strict=True):
        if np.nanmin(rise) < quantile < np.nanmax(rise):
            axes.contour(first, second, rise, levels=[quantile], colors=[BLACK], linestyles=[dashes], linewidths=1.4)
            handles[f"{100.0 * share:g} % C.L."] = axes.plot([], [], color=BLACK, linestyle=dashes, lw=1.4)[0]
    if best is not None:
        handles["best fit"] = axes.plot([best[0]], [best[1]], "P", color=VERMILION, markersize=8.0, mec="white")[0]
    _scan_labels(axes, plain(names[0]), plain(names[1]), title)
    if handles:
        outside_legend(figure, list(handles.values()), list(handles), columns=3)
    return figure


def _scan_labels(axes: Axes, x: str, y: str, title: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(plain(title), loc="left")


def limit_figure(result: ToyLimitResult | AsymptoticLimitResult) -> Figure:
    """Return the CLs curves of a limit, at every mu that was tested for it, and the observed limit.

    Raises
    ------
    OptionError
        Too few values of mu for a curve.
    """
    return cls_figure(result.points, level=result.cl, limit=result.observed.mu)


def cls_figure(
    tests: Sequence[Test], *, level: float = 0.95, limit: float | None = None, title: str | None = None
) -> Figure:
    """Return CLs against mu of several tests of one model, toy-based or asymptotic.

    Raises
    ------
    OptionError
        Fewer than two values of mu, or tests of mu = 0, which have no CLs.
    """
    ordered = sorted(tests, key=lambda test: test.mu_test)
    first = ordered[0]
    if len(ordered) < 2 or first.test_stat == "q0":
        raise OptionError("a plot of CLs against mu needs tests with qtilde or q at two values of mu or more.")
    errors = [getattr(test, "cls_error", None) for test in ordered]
    bounds = [getattr(test, "cls_upper", None) for test in ordered]
    bands = [_band(test) for test in ordered]
    return cls_scan(
        [test.mu_test for test in ordered], [test.cls for test in ordered],
        errors if any(error is not None for error in errors) else None,
        None if any(band is None for band in bands) else np.array(bands, dtype=float).T,
        poi=first.poi, level=level, limit=limit,
        observed_upper=bounds if any(bound is not None for bound in bounds) else None,
        title=f"{first.measurement}, {first.test_stat}" if title is None else title,
    )  # fmt: skip


def _band(test: Test) -> Sequence[float | None] | None:
    asymptotic: Sequence[float] | None = getattr(test, "expected_cls", None)
    if asymptotic is not None:
        return asymptotic
    band = getattr(test, "expected_set", None)
    # Edges whose tail no toy reached lie somewhere below their bound: drawn at 0, or the band would end in mid-air.
    return None if band is None else tuple(0.0 if value is None else value for value in band.cls)
