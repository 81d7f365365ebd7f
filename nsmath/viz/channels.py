"""`data_and_model`: observed events over stacked samples, before and after a fit, with their ratio."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nsmath._typing import Array
from nsmath.model.yields import ChannelYields, Yield
from nsmath.viz.style import BLACK, FILLS, GREY, SMALL, VERMILION, new_figure, outside_legend, plain, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HATCHES = ("", "////")
"""Each colour is used once with each of them, so that as many samples are told apart."""
MAX_SAMPLES = len(FILLS) * len(HATCHES)
BINS_TOGETHER = 16
"""Channels of a single bin that one figure shows together."""


@styled
def data_and_model(before: ChannelYields, after: ChannelYields | None = None) -> Figure:
    """Return observed and expected events of one channel: before the fit and, where there is one, after it.

    Samples are stacked, those below zero downwards; the line is their sum, the hatched band its uncertainty.
    Observed events have score intervals, `count_interval`. The lower panels are observed over expected.

    Parameters
    ----------
    before, after : yields from `inspection`; ``after`` is None where there is no fit.
    """
    return _figure(before, after, np.arange(1, len(before.observed) + 1).astype(str).tolist(), "bin")


def channel_figures(before: Sequence[ChannelYields], after: Sequence[ChannelYields] | None) -> dict[str, Figure]:
    """Return figures of all channels by name; several channels of a single bin stand together in one.

    Parameters
    ----------
    before, after : as the attributes ``nominal`` and ``postfit`` of an `Inspection`.
    """
    figures: dict[str, Figure] = {}
    groups = list(_groups(before))
    n_others = sum(len(group) == 1 for group in groups)
    n_groups = len(groups) - n_others
    for group in groups:
        states = [[state[c] for c in group] for state in (before, after) if state is not None]
        if len(group) == 1:
            figures[before[group[0]].name] = data_and_model(*[state[0] for state in states])
        else:
            names = [channel.name for channel in states[0]]
            title = "channels of a single bin"
            if n_groups > 1:
                title += f", {len(figures) + 1 - n_others} of {n_groups}"
            figures[title.replace(",", "")] = _single_bins([side_by_side(state, title) for state in states], names)
    return figures


def _groups(channels: Sequence[ChannelYields]) -> Iterator[list[int]]:
    """Return which channels stand in one figure: those of one bin together, each other one alone."""
    single = [c for c, channel in enumerate(channels) if len(channel.observed) == 1]
    yield from ([c] for c, channel in enumerate(channels) if len(channel.observed) > 1)
    if single:
        n_figures = -(-len(single) // BINS_TOGETHER)
        for part in np.array_split(np.array(single), n_figures):
            yield part.tolist()


def side_by_side(channels: Sequence[ChannelYields], name: str) -> ChannelYields:
    """Return channels as one, their bins in order; a sample that one of them does not have is 0 there."""
    samples = {sample: None for channel in channels for sample in channel.samples}
    joined = {sample: _joined([channel.samples.get(sample) for channel in channels], channels) for sample in samples}
    together = _joined([channel.all for channel in channels], channels)
    return ChannelYields(name, np.concatenate([channel.observed for channel in channels]), together, joined)


def _joined(parts: Sequence[Yield | None], channels: Sequence[ChannelYields]) -> Yield:
    absent = [np.zeros(len(channel.observed)) for channel in channels]
    events = np.concatenate([none if part is None else part.events for part, none in zip(parts, absent, strict=True)])
    uncertainty = None
    if all(part is None or part.uncertainty is not None for part in parts):
        uncertainty = np.concatenate([
            none if part is None or part.uncertainty is None else part.uncertainty
            for part, none in zip(parts, absent, strict=True)
        ])  # fmt: skip
    # The sum of channels would need the correlations between them.
    return Yield(events, uncertainty, float(events.sum()), None)


@styled
def _single_bins(states: list[ChannelYields], names: list[str]) -> Figure:
    return _figure(states[0], states[1] if len(states) > 1 else None, [plain(name) for name in names], "")


def count_interval(n: Array) -> tuple[Array, Array]:
    """Return the ends of the 68.3 % score interval of the mean of a Poisson count, each of the shape of ``n``.

    All means mu with ``|n - mu| <= sqrt(mu)``: ``n + 1/2 -+ sqrt(n + 1/4)``. It has a length at n = 0 and takes
    Asimov data, which are no integers.
    """
    half = np.sqrt(n + 0.25)
    return n + 0.5 - half, n + 0.5 + half


def _figure(before: ChannelYields, after: ChannelYields | None, ticks: list[str], axis: str) -> Figure:
    states = {"before the fit": before} | ({} if after is None else {"after the fit": after})
    n_bins = len(ticks)
    width = float(np.clip(0.28 * n_bins, 3.2, 12.0))
    named = 0.0 if axis else 0.055 * max(map(len, ticks))
    figure = new_figure(len(states) * width + 0.8, 5.6 + named)
    grid = figure.subplots(2, len(states), sharex=True, sharey="row", squeeze=False, height_ratios=[3.0, 1.0])
    look = _look(before)
    edges: Array = np.arange(0.5, n_bins + 1.0)
    handles: dict[str, Any] = {}
    for column, (when, state) in enumerate(states.items()):
        upper, lower = grid[:, column]
        _stack(upper, state, edges, look, handles)
        _ratio(lower, state, edges, handles)
        upper.set_title(when, loc="left")
        lower.set_xlabel(axis)
        lower.set_xlim(edges[0], edges[-1])
        _ticks(lower, ticks, bool(axis))
        upper.tick_params(axis="x", length=0.0)
    if _limits(grid, list(states.values())):
        handles["samples below zero: not on this scale"] = grid[0, 0].plot([], [], " ")[0]
    grid[0, 0].set_ylabel("events per bin")
    grid[1, 0].set_ylabel("obs. / exp.")
    figure.align_ylabels(grid[:, 0])
    figure.suptitle(plain(before.name))
    outside_legend(figure, list(handles.values()), list(handles), columns=2 if len(states) == 1 else 3)
    return figure


def _ticks(axes: Axes, ticks: list[str], numbered: bool) -> None:
    if not numbered:
        axes.set_xticks(np.arange(1, len(ticks) + 1), ticks, rotation=90, fontsize=SMALL)
    else:
        step = -(-len(ticks) // 20)
        axes.set_xticks(np.arange(1, len(ticks) + 1, step), ticks[::step])
    axes.tick_params(axis="x", length=0.0)


def _look(channel: ChannelYields) -> dict[str, tuple[str, str, tuple[str, ...]]]:
    """Return label -> (colour, hatch, samples) from the bottom of the stack up; the smallest ones share an entry."""
    by_size = sorted(channel.samples, key=lambda name: abs(channel.samples[name].total))
    groups: list[tuple[str, tuple[str, ...]]] = [(name, (name,)) for name in by_size]
    n_small = len(groups) - MAX_SAMPLES + 1
    if n_small > 1:
        groups = [(f"{n_small} smallest samples", tuple(by_size[:n_small])), *groups[n_small:]]
    looks = [(colour, hatch) for hatch in HATCHES for colour in FILLS]
    # The largest samples get the plain colours.
    return {label: (*look, names) for (label, names), look in zip(groups, reversed(looks[: len(groups)]), strict=True)}


def _stack(
    axes: Axes, state: ChannelYields, edges: Array, look: dict[str, tuple[str, str, tuple[str, ...]]],
    handles: dict[str, Any],
) -> None:  # fmt: skip
    centres = 0.5 * (edges[1:] + edges[:-1])
    low, high = count_interval(state.observed)
    handles["observed"] = axes.errorbar(
        centres, state.observed, yerr=(state.observed - low, high - state.observed), fmt="o", color=BLACK,
        markersize=3.5, linewidth=1.0, zorder=5,
    )  # fmt: skip
    handles["expected"] = axes.stairs(state.all.events, edges, baseline=None, color=BLACK, linewidth=1.2, zorder=4)
    if state.all.uncertainty is not None:
        handles["its uncertainty"] = _band(axes, state.all.events, state.all.uncertainty, edges)
    up, down = np.zeros(len(centres)), np.zeros(len(centres))
    drawn = {}
    for label, (colour, hatch, names) in look.items():
        events = np.sum([state.samples[name].events for name in names], axis=0)
        base = np.where(events < 0.0, down, up)
        drawn[plain(label)] = axes.stairs(
            base + events,
            edges,
            baseline=base,
            fill=True,
            facecolor=colour,
            hatch=hatch,
            edgecolor="white",
            linewidth=0.4,
        )
        up, down = up + np.maximum(events, 0.0), down + np.minimum(events, 0.0)
    # As they lie on each other, from the top.
    for label in reversed(drawn):
        handles.setdefault(label, drawn[label])


def _band(axes: Axes, middle: Array, half: Array, edges: Array) -> Any:
    return axes.stairs(
        middle + half, edges, baseline=middle - half, fill=True, facecolor="none", edgecolor="#555555",
        hatch="xxxxx", linewidth=0.0, zorder=3,
    )  # fmt: skip


def _ratio(axes: Axes, state: ChannelYields, edges: Array, handles: dict[str, Any]) -> None:
    """Draw observed over expected; bins that expect nothing have none."""
    expected = np.where(state.all.events > 0.0, state.all.events, np.nan)
    centres = 0.5 * (edges[1:] + edges[:-1])
    low, high = count_interval(state.observed)
    ratio = state.observed / expected
    axes.axhline(1.0, color=GREY, linewidth=0.8)
    if state.all.uncertainty is not None:
        relative = np.nan_to_num(state.all.uncertainty / expected)
        _band(axes, np.ones(len(centres)), relative, edges)
    errors = (ratio - low / expected, high / expected - ratio)
    axes.errorbar(centres, ratio, yerr=errors, fmt="o", color=BLACK, markersize=3.5, linewidth=1.0, zorder=5)
    beyond = ratio > 1.0 + _reach([state])
    if beyond.any():
        top = np.full(int(beyond.sum()), 1.0 + 0.93 * _reach([state]))
        handles["ratio beyond the panel"] = axes.plot(centres[beyond], top, "^", color=VERMILION, markersize=5.0)[0]


def _top(state: ChannelYields) -> Array:
    """Return the upper edge of the band."""
    return state.all.events if state.all.uncertainty is None else state.all.events + state.all.uncertainty


def _reach(states: list[ChannelYields]) -> float:
    """Return how far from 1 the panel of ratios goes: what points and band need, 1 at most."""
    needed = 0.1
    for state in states:
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = [*count_interval(state.observed), state.observed]
            ratios = np.array([end / state.all.events for end in [*ends, _top(state)]])
        needed = max(needed, float(np.max(np.abs(ratios[np.isfinite(ratios)] - 1.0), initial=0.0)))
    return min(1.08 * needed, 1.0)


def _limits(grid: Any, states: list[ChannelYields]) -> bool:
    """Set the ends of the axes; return whether samples below zero are lost to a logarithmic one."""
    reach = _reach(states)
    grid[1, 0].set_ylim(1.0 - reach, 1.0 + reach)
    # A band much larger than the yields may leave the panel; the one below shows its size.
    points = [np.maximum(count_interval(s.observed)[1], s.all.events) for s in states]
    tops = [np.maximum(p, np.minimum(_top(s), 1.6 * p.max())) for p, s in zip(points, states, strict=True)]
    lows = [np.minimum.reduce([np.minimum(sample.events, 0.0) for sample in s.samples.values()]) for s in states]
    highest, lowest = float(np.max(tops)), float(np.min(lows))
    means = np.concatenate([s.all.events for s in states])
    # Large negative yields are part of the story, which only a linear scale tells.
    if lowest > -0.01 * highest and means.min() > 0.0 and means.max() > 100.0 * means.min():
        grid[0, 0].set_yscale("log")
        grid[0, 0].set_ylim(0.2 * means.min(), 3.0 * highest)
        return lowest < 0.0
    grid[0, 0].set_ylim(1.1 * lowest, 1.1 * highest)
    return False
