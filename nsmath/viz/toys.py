"""`q_distributions`: the toys of a test, and the tails that its p-values count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from nsmath._typing import Array
from nsmath.infer.pvalues import CONFIDENCE
from nsmath.infer.result import ToyTestResult
from nsmath.infer.teststats import Q_TIE, TestStatistic, test_statistic
from nsmath.infer.wording import with_error
from nsmath.viz.style import BLACK, BLUE, VERMILION, new_figure, outside_legend, plain, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SYMBOLS = {"qtilde": r"$\tilde{q}_\mu$", "q": r"$q_\mu$", "q0": r"$q_0$"}
MAX_BINS = 80


@styled
def q_distributions(result: ToyTestResult, *, bins: int | None = None) -> Figure:
    """Return the distributions of the test statistic in both ensembles, with the observed value.

    What is filled are the toys that the p-values count, q >= observed; an edge of the bins lies there. Failed toys
    are left out, as in the p-values, and the legend says how many they are.

    Parameters
    ----------
    bins : number of bins between 0 and the largest q; by the number of toys if None.
    """
    statistic = test_statistic(result.test_stat)
    figure = new_figure(6.4, 5.0)
    axes = figure.add_subplot()
    good = {name: ensemble.q[~ensemble.failed] for name, ensemble in result.ensembles.items()}
    edges = q_edges(good, result.q_obs, bins)
    handles: list[Any] = []
    labels: list[str] = []
    for name, colour, fill in (("b", BLUE, 0.35), ("sb", VERMILION, 0.35)):
        q = good[name]
        weight = 1.0 / max(len(q), 1)
        counts = np.histogram(q, edges)[0] * weight
        inside = np.histogram(q[q >= result.q_obs - Q_TIE], edges)[0] * weight
        axes.stairs(inside, edges, fill=True, color=colour, alpha=fill, linewidth=0.0)
        dashes = "-" if name == "sb" else (0, (4, 1.5))
        line = axes.stairs(counts, edges, color=colour, linewidth=1.4, linestyle=dashes)
        handles.append(line)
        labels.append(_hypothesis(result, statistic, name, len(q)))
    handles.insert(0, axes.axvline(result.q_obs, color=BLACK, linewidth=1.6))
    labels.insert(0, f"observed {SYMBOLS[result.test_stat]} = {result.q_obs:.4g}")
    for words in p_values(result):
        handles.append(axes.plot([], [], " ")[0])
        labels.append(words)
    axes.set_yscale("log")
    smallest = 1.0 / max(1, *(len(q) for q in good.values()))
    axes.set_ylim(0.5 * smallest, 1.5)
    margin = 0.5 * (edges[1] - edges[0])
    axes.set_xlim(edges[0] - margin, edges[-1] + margin)
    axes.set_xlabel(f"test statistic {SYMBOLS[result.test_stat]}")
    axes.set_ylabel(f"share of toys per bin of {edges[1] - edges[0]:.2g}")
    mu = f"{result.poi} = 0" if statistic.tests_null else f"{result.poi} = {result.mu_test:g}"
    axes.set_title(plain(f"{result.measurement}: test of {mu}"), loc="left")
    outside_legend(figure, handles, labels)
    return figure


def q_edges(good: dict[str, Array], q_obs: float, bins: int | None = None) -> Array:
    """Return edges of equal bins, shape (n + 1,), that hold 0, every q and the observed one, which begins a bin."""
    largest = max(q_obs, *(float(q.max(initial=0.0)) for q in good.values()))
    if largest < 10.0 * Q_TIE:
        largest = 1.0  # all q are 0: any width shows that
    n_toys = max(len(q) for q in good.values())
    n = bins or int(np.clip(4.0 * n_toys ** (1.0 / 3.0), 15, MAX_BINS))
    width = largest / n
    start = q_obs - Q_TIE
    below = int(np.ceil(max(start, 0.0) / width))
    above = int(np.floor((largest - start) / width)) + 1
    steps: Array = np.arange(-below, above + 1, dtype=float)
    return start + width * steps


def p_values(result: ToyTestResult) -> list[str]:
    """Return the p-values of a test in words, one a line."""
    if result.test_stat == "q0":
        rows = [("$p_0$", result.p0, result.p0_error, result.p0_upper)]
    else:
        rows = [
            (r"$\mathrm{CL}_{s+b}$", result.clsb, result.clsb_error, result.clsb_upper),
            (r"$\mathrm{CL}_b$", result.clb, result.clb_error, result.clb_upper),
            (r"$\mathrm{CL}_s$", result.cls, result.cls_error, result.cls_upper),
        ]
    return [_words(symbol, with_error(*numbers)) for symbol, *numbers in rows]


def _words(symbol: str, number: str) -> str:
    number = number.replace("+-", "±")
    return f"{symbol} {number}" if number.startswith(("<", "undefined")) else f"{symbol} = {number}"


def _hypothesis(result: ToyTestResult, statistic: TestStatistic, name: str, n: int) -> str:
    failed = result.ensembles[name].n_failed
    mu = 0.0 if name == "b" else result.mu_test
    tested = (name == "b") == statistic.tests_null
    text = f"toys at {plain(result.poi)} = {mu:g}{', the tested value' if tested else ''}: {n}"
    return text + (f" ({failed} failed, left out)" if failed else "")


STEPS = 60
"""Numbers of toys at which p-values are drawn on their way."""


@styled
def convergence_figure(result: ToyTestResult) -> Figure:
    """Return the p-values of a test after its first n toys, with their errors: how they have settled.

    Failed toys are left out, as in the p-values; toys count by index, whatever order they were computed in.
    """
    statistic = test_statistic(result.test_stat)
    tested, other = ("b", "sb") if statistic.tests_null else ("sb", "b")
    figure = new_figure(6.4, 4.4)
    axes = figure.add_subplot()
    handles: dict[str, Any] = {}
    n_all = min(len(result.ensembles[name]) for name in (tested, other))
    steps = np.unique(np.geomspace(min(10, n_all), n_all, STEPS).astype(int)) if n_all else np.empty(0, dtype=int)
    shares = {name: _shares(result, name, steps) for name in (tested, other)}
    curves = {"$p_0$": shares[tested]} if statistic.tests_null else {
        r"$\mathrm{CL}_{s+b}$": shares[tested], r"$\mathrm{CL}_b$": shares[other],
        r"$\mathrm{CL}_s$": _ratios(shares[tested], shares[other]),
    }  # fmt: skip
    for (label, (value, error, _)), colour in zip(curves.items(), (VERMILION, BLUE, BLACK), strict=False):
        axes.fill_between(steps, value - error, value + error, color=colour, alpha=0.18, linewidth=0.0)
        handles[f"{label} ± standard error"] = axes.plot(steps, value, color=colour, linewidth=1.4)[0]
    label, (_, _, bound) = list(curves.items())[-1]
    if np.isfinite(bound).any():
        name = f"95 % C.L. bound of {label}: no toy in the tail"
        handles[name] = axes.plot(steps, bound, color=BLACK, linewidth=1.2, linestyle="--")[0]
    if not statistic.tests_null:
        handles[r"$\mathrm{CL}_s$ = 0.05"] = axes.axhline(0.05, color=BLACK, linewidth=0.8, linestyle=":")
    axes.set_xscale("log")
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("toys of each ensemble")
    axes.set_ylabel("p-value")
    axes.set_title(plain(f"{result.measurement}: {result.poi} = {result.mu_test:g}, convergence"), loc="left")
    outside_legend(figure, list(handles.values()), list(handles))
    return figure


Curve: TypeAlias = tuple[Array, Array, Array]
"""p-values with their errors, and 95 % C.L. upper bounds where the tail is empty and there is no p-value; else NaN."""


def _shares(result: ToyTestResult, name: str, steps: Array) -> Curve:
    """Return the share of toys at or above the observed q among the first n of ``steps``."""
    ensemble = result.ensembles[name]
    good = ~ensemble.failed
    inside = np.cumsum(good & (np.nan_to_num(ensemble.q, nan=-1.0) >= result.q_obs - Q_TIE))[steps - 1]
    n = np.cumsum(good)[steps - 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.where(inside > 0, inside / n, np.nan)
        bound = np.where((inside == 0) & (n > 0), 1.0 - (1.0 - CONFIDENCE) ** (1.0 / n), np.nan)
        return p, np.sqrt(p * (1.0 - p) / n), bound


def _ratios(top: Curve, bottom: Curve) -> Curve:
    value = top[0] / bottom[0]
    return value, value * np.hypot(top[1] / top[0], bottom[1] / bottom[0]), top[2] / bottom[0]


@styled
def iterations_figure(result: ToyTestResult) -> Figure:
    """Return how many iterations the fits of the toys took, free and conditional ones together, by ensemble."""
    figure = new_figure(6.4, 3.6)
    axes = figure.add_subplot()
    handles: dict[str, Any] = {}
    counts = {}
    for name in ("b", "sb"):
        toys = result.ensembles[name]
        # A conditional fit that was not needed took none.
        made = toys.conditional_iterations[np.isfinite(toys.conditional_nll)]
        counts[name] = np.concatenate([toys.free_iterations, made])
    largest = max(int(c.max(initial=1)) for c in counts.values())
    # A whole number of iterations to a bin, the same for all.
    step = -(-(largest + 1) // MAX_BINS)
    edges = np.arange(-0.5, largest + 0.5 + step, step)
    for (name, found), colour in zip(counts.items(), (BLUE, VERMILION), strict=True):
        share = np.histogram(found, edges)[0] / max(len(found), 1)
        mu = 0.0 if name == "b" else result.mu_test
        label = f"{len(found)} fits of toys of {name}, at {plain(result.poi)} = {mu:g}"
        handles[label] = axes.stairs(share, edges, color=colour, linewidth=1.4)
    axes.set_yscale("log")
    axes.set_xlabel("iterations")
    axes.set_ylabel("share of fits")
    axes.set_title(plain(f"{result.measurement}: {result.poi} = {result.mu_test:g}, fits"), loc="left")
    outside_legend(figure, list(handles.values()), list(handles))
    return figure
