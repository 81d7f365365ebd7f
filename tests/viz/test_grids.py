"""Figures of grids hold the numbers of all points, bounds where there are none, and say what they left out."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from figures import badly_placed, legend_texts, toy_test
from matplotlib.collections import PathCollection

from nsmath.errors import OptionError
from nsmath.infer.asymptotic_limit import AsymptoticLimitResult
from nsmath.infer.asymptotics import AsymptoticTestResult
from nsmath.infer.limit_curve import Crossing
from nsmath.study.grid import GridPoint, GridResult
from nsmath.study.result import StudyResult, StudyRow
from nsmath.viz import grid_figure, grid_figures
from nsmath.viz.grid_data import distinct_mu, grid_data

LONG = "direct_production_of_charginos_decaying_through_sleptons_and_sneutrinos"


def a_test(mu: float = 1.0, **numbers: Any) -> AsymptoticTestResult:
    fields: dict[str, Any] = {
        "mu_test": mu, "mu_hat": 0.1, "q_obs": 1.0, "q_asimov": 1.0, "clsb": 0.02, "clb": 0.5, "cls": 0.04,
        "expected_clsb": (0.001, 0.01, 0.03, 0.1, 0.2), "expected_cls": (0.01, 0.02, 0.06, 0.2, 0.4),
        "expected_from": "data", "test_stat": "qtilde", "poi": "mu_sig", "poi_max": None, "measurement": "search",
        "interpolation": {}, "model_digest": "", "backend": "cpu", "dtype": "float64", "device": "cpu",
    }  # fmt: skip
    return AsymptoticTestResult(**{**fields, **numbers})


def limit_of(observed: float | None, expected: float = 1.0, cl: float = 0.95) -> AsymptoticLimitResult:
    """Return a limit whose band lies about ``expected``; beyond 10 where it is higher."""

    def crossing(mu: float | None) -> Crossing:
        return Crossing(None, None, 10.0) if mu is None or mu > 10.0 else Crossing(mu, None)

    band = tuple(crossing(expected * factor) for factor in (0.5, 0.7, 1.0, 1.5, 2.2))
    return AsymptoticLimitResult(cl, crossing(observed), band, None, (a_test(),), 10.0)


def grid(task: str, outcomes: dict[tuple[Any, ...], Any], labels: tuple[str, ...]) -> GridResult:
    points = tuple(
        GridPoint("_".join(map(str, at)), dict(zip(labels, at, strict=True)), outcome, None if outcome else "broken")
        for at, outcome in outcomes.items()
    )
    return GridResult(task, labels, points)


MASSES = {(m,): limit_of(0.002 * m, 0.0025 * m) for m in (400, 100, 300, 200, 700)}
PLANE = {(m, d): limit_of((m / 500.0) ** 2 * (1.0 + d / 300.0)) for m in range(200, 900, 100) for d in (0, 50, 100)}


def line_with(axes: Any, marker: str) -> Any:
    return next(line for line in axes.lines if line.get_marker() == marker)


def test_a_band_against_a_mass_has_its_level_and_the_line_of_the_predicted_signal() -> None:
    for cl, word in ((0.95, "95 %"), (0.9, "90 %")):
        result = grid("upper-limit", {at: dataclasses.replace(o, cl=cl) for at, o in MASSES.items()}, ("mass [GeV]",))
        figure = grid_figure(result)
        (axes,) = figure.axes
        assert axes.get_ylabel() == f"{word} C.L. upper limit on mu_sig"
        assert axes.get_title(loc="left") == f"search: {word} C.L. upper limit on mu_sig, 5 points"
        assert "signal as predicted (mu_sig = 1)" in legend_texts(figure)
        np.testing.assert_allclose(line_with(axes, "o").get_xdata(), [100, 200, 300, 400, 700])
        np.testing.assert_allclose(line_with(axes, "o").get_ydata(), [0.2, 0.4, 0.6, 0.8, 1.4])
        assert badly_placed(figure) == []


def test_limits_beyond_the_bound_are_marked_there_and_so_is_a_band_that_is_cut() -> None:
    result = grid("upper-limit", {(100,): limit_of(2.0, 3.0), (200,): limit_of(8.0, 7.0), (300,): limit_of(None, 22.0)},
                  ("mass",))  # fmt: skip
    figure = grid_figure(result)
    words = legend_texts(figure)
    assert "beyond the upper bound of mu_sig" in words
    assert "expected band cut at the upper bound of mu_sig" in words
    triangle = line_with(figure.axes[0], "^").get_ydata()
    assert np.isnan(triangle[:2]).all()
    assert triangle[2] == 10.0
    data = grid_data(result)
    assert [row.n_cut for row in data.rows] == [0, 2, 5]
    assert data.rows[1].expected == pytest.approx((3.5, 4.9, 7.0, 10.0, 10.0))


def test_points_that_failed_are_counted_in_the_title() -> None:
    result = grid("upper-limit", {**MASSES, (900,): None}, ("mass",))
    assert grid_figure(result).axes[0].get_title(loc="left").endswith("5 points; 1 without a result left out")
    with pytest.raises(OptionError, match="no point of the grid has a result"):
        grid_figures(grid("upper-limit", {(100,): None}, ("mass",)))


def test_excluded_points_of_a_plane_have_a_rim_and_lie_on_one_side_of_the_contour() -> None:
    result = grid("upper-limit", PLANE, ("parent", "child"))
    figure = grid_figure(result)
    axes = figure.axes[0]
    dots = next(c for c in axes.collections if isinstance(c, PathCollection) and len(c.get_offsets()) == len(PLANE))
    rims = ["black" if tuple(edge[:3]) == (0.0, 0.0, 0.0) else "white" for edge in dots.get_edgecolors()]
    assert rims == ["black" if limit.observed.mu <= 1.0 else "white" for limit in PLANE.values()]
    assert {"excluded at 95 % C.L.", "observed exclusion at 95 % C.L."} <= set(legend_texts(figure))
    vertices = np.concatenate([
        path.vertices for c in axes.collections if not isinstance(c, PathCollection) for path in c.get_paths()
    ])  # fmt: skip
    # The log of this limit is not linear between points, so the line is off by little.
    for m, d in vertices:
        assert (m / 500.0) ** 2 * (1.0 + d / 300.0) == pytest.approx(1.0, abs=0.06)
    assert badly_placed(figure) == []


def test_the_contour_does_not_depend_on_the_units_of_the_labels() -> None:
    lines = []
    for unit in (1.0, 1e-4):
        result = grid("upper-limit", {(m, d * unit): limit for (m, d), limit in PLANE.items()}, ("parent", "child"))
        axes = grid_figure(result).axes[0]
        found = [path.vertices for c in axes.collections if not isinstance(c, PathCollection) for path in c.get_paths()]
        lines.append(np.concatenate(found) / (1.0, unit))
    np.testing.assert_allclose(lines[0], lines[1], rtol=1e-9)


def test_two_hundred_points_with_long_labels_overlap_nowhere() -> None:
    outcomes = {(m, d): limit_of(m * d / 4e4) for m in range(100, 2100, 100) for d in range(10, 110, 10)}
    for labels in ((LONG, "m($\\chi^0_1$) [GeV]"),):
        figure = grid_figure(grid("upper-limit", outcomes, labels))
        assert badly_placed(figure) == []
    words = grid("upper-limit", {(f"{LONG}_{k}",): limit_of(0.01 * k + 0.1) for k in range(200)}, ("model",))
    pages = grid_figures(words)
    assert list(pages) == [f"grid, {k} of 4" for k in (1, 2, 3, 4)]
    names = [label.get_text() for page in pages.values() for label in page.axes[0].get_yticklabels()]
    assert names == [point.name for point in words.points]
    for page in pages.values():
        assert badly_placed(page) == []


def test_points_that_share_a_mass_are_drawn_by_name_and_not_as_a_zigzag() -> None:
    result = grid("upper-limit", {(100, "a"): limit_of(1.0), (100, "b"): limit_of(2.0), (200, "a"): limit_of(3.0)},
                  ("mass", "model"))  # fmt: skip
    assert grid_data(result).labels == ()
    with pytest.raises(OptionError, match="grid_figures draws it point by point"):
        grid_figure(result)
    (figure,) = grid_figures(result).values()
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["100_a", "100_b", "200_a"]


def test_p0_is_drawn_with_its_standard_deviations() -> None:
    outcomes = {
        (m,): a_test(0.0, test_stat="q0", cls=None, expected_cls=None, clsb=10.0 ** (-abs(m - 500) / 50.0 - 1.0))
        for m in range(300, 800, 50)
    }
    figure = grid_figure(grid("significance", outcomes, ("mass",)))
    (axes,) = figure.axes
    assert axes.get_yscale() == "log"
    np.testing.assert_allclose(
        line_with(axes, "o").get_ydata(), [10.0 ** (-abs(m - 500) / 50.0 - 1.0) for m in range(300, 800, 50)]
    )
    assert r"3 $\sigma$" in [text.get_text() for text in axes.texts]
    assert "expected median for mu_sig = 1" in legend_texts(figure)
    assert badly_placed(figure) == []


def study(task: str, rows: list[tuple[str, dict[str, Any], float, Any]]) -> StudyResult:
    """Return the result of a study with these rows: point, its values, mu, outcome."""
    points = {name: SimpleNamespace(name=name, values=values) for name, values, _, _ in rows}
    laid_out: Any = SimpleNamespace(task_name=task, points=tuple(points.values()))
    made: list[Any] = [StudyRow(points[name], mu, "done", outcome) for name, _, mu, outcome in rows]  # type: ignore[arg-type]
    return StudyResult(laid_out, tuple(made), 1.0)


TOYS = np.linspace(0.0, 8.0, 200)


def test_a_study_of_several_mu_has_a_figure_for_each_with_errors_and_bounds() -> None:
    tail, none = toy_test(TOYS + 2.0, TOYS, 7.0), toy_test(TOYS + 2.0, TOYS, 9.0)
    assert none.cls is None
    rows = [(f"m{m}", {"mass": m}, mu, tail if m < 300 else none) for m in (100, 200, 300, 400) for mu in (0.5, 1.0)]
    result = study("hypotest-toys", rows)
    assert distinct_mu(result) == [0.5, 1.0]
    figures = grid_figures(result)
    assert list(figures) == ["mu = 0.5", "mu = 1"]
    for figure in figures.values():
        assert {"observed with statistical error", "lower than this: no toy in the tail"} <= set(legend_texts(figure))
        bounds = line_with(figure.axes[0], "v").get_ydata()
        np.testing.assert_allclose(bounds[2:], none.cls_upper)
        assert np.isnan(bounds[:2]).all()


def test_a_study_without_labels_is_drawn_against_mu_and_by_name() -> None:
    test = toy_test(TOYS + 2.0, TOYS, 7.0)
    at = [dataclasses.replace(test, mu_test=mu) for mu in (0.5, 1.0, 2.0)]
    result = study("hypotest-toys", [*(("scan", {}, t.mu_test, t) for t in at), ("alone", {}, 1.0, at[1])])
    figures = grid_figures(result)
    assert list(figures) == ["scan", "mu = 1"]
    assert figures["scan"].axes[0].get_title(loc="left") == "scan: main, qtilde"
    assert [label.get_text() for label in figures["mu = 1"].axes[0].get_yticklabels()] == ["alone"]


def test_limits_and_discoveries_of_studies_are_drawn() -> None:
    limits = study("upper-limit", [(f"m{m}", {"mass": m}, math.nan, limit_of(0.01 * m)) for m in (100, 200)])
    assert list(grid_figures(limits)) == ["grid"]
    p0 = toy_test(TOYS, TOYS + 2.0, 7.0, "q0")
    discoveries = study("hypotest-toys", [(f"m{m}", {"mass": m}, 1.0, p0) for m in (100, 200)])
    (figure,) = grid_figures(discoveries).values()
    np.testing.assert_allclose(figure.axes[0].containers[0].lines[0].get_ydata(), p0.p0)


def test_one_point_is_drawn_too(tmp_path: Path) -> None:
    for task, outcome in (("upper-limit", limit_of(0.5)), ("hypotest", a_test())):
        figure = grid_figure(grid(task, {(100,): outcome}, ("mass",)))
        assert figure.axes[0].get_title(loc="left").endswith("1 point")
        figure.savefig(tmp_path / "one.png")
