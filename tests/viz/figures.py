"""What is in a figure, for tests: texts that overlap, entries of the legend, results made up for plots."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from workspaces import modifier, mu, one_channel, sample

from nsmath import FitResult, Model, ToyTestResult
from nsmath.fitting.minimiser import FitStatus
from nsmath.infer.result import Provenance, toy_test_result
from nsmath.infer.teststats import test_statistic
from nsmath.store.ensemble import Ensemble


def boxes(figure: Figure) -> list[tuple[str, Any]]:
    """Return every text of a figure that is drawn, with its box on the page."""
    figure.draw_without_rendering()
    texts = [*figure.texts, *(text for legend in figure.legends for text in legend.get_texts())]
    for axes in figure.axes:
        texts += axes.texts
        if axes.axison:
            texts += [axes.xaxis.label, axes.yaxis.label, axes.title, axes._left_title]
            for axis, view in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
                # Ticks outside of the view are there, but not drawn.
                ticks = [tick for tick in axis.get_major_ticks() if min(view) <= tick.get_loc() <= max(view)]
                texts += [tick.label1 for tick in ticks if tick.label1.get_visible()]
    return [(t.get_text(), t.get_window_extent()) for t in texts if t.get_visible() and t.get_text().strip()]


def badly_placed(figure: Figure) -> list[tuple[str, ...]]:
    """Return the pairs of texts that cover each other by more than a pixel, and texts that the page cuts."""
    names, found = zip(*boxes(figure), strict=True)
    edges = np.array([box.extents for box in found])
    low, high = edges[:, None, :2], edges[:, None, 2:]
    shared = np.minimum(high, high.transpose(1, 0, 2)) - np.maximum(low, low.transpose(1, 0, 2))
    i, j = np.nonzero(np.triu((shared > 1.0).all(axis=2), 1))
    page = figure.bbox.extents
    cut = (edges[:, :2] < page[:2] - 1.0).any(axis=1) | (edges[:, 2:] > page[2:] + 1.0).any(axis=1)
    return [(names[a], names[b]) for a, b in zip(i, j, strict=True)] + [(names[k],) for k in np.flatnonzero(cut)]


def legend_texts(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def ensemble(q: np.ndarray) -> Ensemble:
    zero = np.zeros(len(q))
    return Ensemble(np.arange(len(q)), q, zero, zero, zero, zero, zero, zero, zero)


def toy_test(q_b: np.ndarray, q_sb: np.ndarray, q_obs: float, test_stat: str = "qtilde") -> ToyTestResult:
    """Return the result of a test whose toys gave ``q_b`` and ``q_sb``."""
    provenance = Provenance(
        poi="mu", poi_max=None, measurement="main", interpolation={}, model_digest="digest", versions={}, backend="cpu",
        dtype="float64", device="cpu", threads=1, tile_width=8, seed=0, aux="random", transfers=None,
    )  # fmt: skip
    return toy_test_result(
        test_statistic(test_stat), 1.0, {"q_obs": q_obs, "mu_hat": 0.1}, {"b": ensemble(q_b), "sb": ensemble(q_sb)},
        provenance, expected=False,
    )  # fmt: skip


def many_parameters(n: int) -> Model:
    """Return a model with mu and ``n`` normsys parameters, with names as long as those of real analyses."""
    names = [f"weight_bTagSF_DL1r_Continuous_eigenvars_Light_{k}" for k in range(n)]
    norms = [modifier(name, "normsys", {"lo": 0.99, "hi": 1.01}) for name in names]
    return Model.from_workspace(one_channel(sample("s", [5.0], mu()), sample("b", [50.0], *norms), observed=[52.0]))


def made_fit(model: Model, seed: int = 3, **changes: Any) -> FitResult:
    """Return a fit of ``model`` with made-up values and a covariance that is positive definite."""
    rng, n = np.random.default_rng(seed), len(model.names)
    factor = np.eye(n) + 0.2 * rng.normal(size=(n, n)) * (rng.uniform(size=(n, n)) < 3.0 / n)
    covariance = factor @ factor.T
    fields: dict[str, Any] = {
        "measurement": "main", "poi": "mu", "names": model.names, "values": rng.normal(size=n),
        "uncertainties": np.sqrt(np.diag(covariance)), "covariance": covariance, "nll": 1.0,
        "status": FitStatus.CONVERGED, "n_iterations": 1, "at_bound": (), "is_fixed": (False,) * n,
        "interpolation": {}, "model_digest": "", "backend": "cpu", "dtype": "float64", "device": "cpu",
    }  # fmt: skip
    return FitResult(**{**fields, **changes})
