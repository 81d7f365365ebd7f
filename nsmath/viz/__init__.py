"""Plots of results, as matplotlib figures; `save` writes them. The extra ``plot`` brings matplotlib.

Functions take result records, or plain arrays, and return a `matplotlib.figure.Figure` of their own: the state of
pyplot is neither used nor touched. Names load on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nsmath.viz.channels import channel_figures, data_and_model
    from nsmath.viz.files import FORMATS, save
    from nsmath.viz.grids import grid_figure, grid_figures
    from nsmath.viz.parameters import correlations, pull_pages, pulls
    from nsmath.viz.profiles import goodness_figure, interval_figure, ranking_figure, scan_figure
    from nsmath.viz.scans import cls_figure, cls_scan, likelihood_contour, likelihood_scan, limit_figure
    from nsmath.viz.toys import convergence_figure, iterations_figure, q_distributions

_HOMES = {
    "FORMATS": "nsmath.viz.files",
    "channel_figures": "nsmath.viz.channels",
    "cls_figure": "nsmath.viz.scans",
    "cls_scan": "nsmath.viz.scans",
    "limit_figure": "nsmath.viz.scans",
    "convergence_figure": "nsmath.viz.toys",
    "iterations_figure": "nsmath.viz.toys",
    "correlations": "nsmath.viz.parameters",
    "data_and_model": "nsmath.viz.channels",
    "likelihood_contour": "nsmath.viz.scans",
    "likelihood_scan": "nsmath.viz.scans",
    "pull_pages": "nsmath.viz.parameters",
    "pulls": "nsmath.viz.parameters",
    "q_distributions": "nsmath.viz.toys",
    "save": "nsmath.viz.files",
    "grid_figure": "nsmath.viz.grids",
    "grid_figures": "nsmath.viz.grids",
    "goodness_figure": "nsmath.viz.profiles",
    "interval_figure": "nsmath.viz.profiles",
    "ranking_figure": "nsmath.viz.profiles",
    "scan_figure": "nsmath.viz.profiles",
}

__all__ = [
    "FORMATS",
    "channel_figures",
    "cls_figure",
    "cls_scan",
    "convergence_figure",
    "correlations",
    "data_and_model",
    "goodness_figure",
    "grid_figure",
    "grid_figures",
    "interval_figure",
    "iterations_figure",
    "likelihood_contour",
    "likelihood_scan",
    "limit_figure",
    "pull_pages",
    "pulls",
    "q_distributions",
    "ranking_figure",
    "save",
    "scan_figure",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'nsmath.viz' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
