"""Figures of scans, intervals, rankings and goodness of fit hold their numbers, and no text covers another."""

from __future__ import annotations

import numpy as np
import pytest
from figures import badly_placed, many_parameters
from workspaces import FIXTURES

from nsmath import Model, goodness_of_fit, intervals, ranking, scan
from nsmath.errors import OptionError
from nsmath.viz import goodness_figure, interval_figure, ranking_figure, scan_figure


@pytest.mark.parametrize("n", [3, 80])
def test_rankings_and_intervals_are_readable_however_many_parameters_there_are(n: int) -> None:
    model = many_parameters(n)
    for figure in (ranking_figure(ranking(model), top=30), interval_figure(intervals(model))):
        assert badly_placed(figure) == []


def test_a_ranking_draws_every_impact_and_pull_of_its_rows() -> None:
    result = ranking(Model.from_workspace(FIXTURES["three_gammas"]))
    figure = ranking_figure(result, top=3)
    lower, upper = figure.axes
    widths = sorted(patch.get_width() for patch in upper.patches)
    shown = [i.shift for row in result.parameters[:3] for pair in (row.postfit_impact, row.prefit_impact) for i in pair]
    np.testing.assert_allclose(widths, sorted(shown))
    assert [label.get_text() for label in lower.get_yticklabels()] == [row.name for row in result.parameters[:3]]


def test_intervals_that_end_at_a_bound_are_marked_in_the_legend() -> None:
    figure = interval_figure(intervals(Model.from_workspace(FIXTURES["F2"])))
    assert "ends at the parameter's bound" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_the_figure_of_a_scan_holds_its_points_for_one_parameter_and_for_two() -> None:
    model = Model.from_workspace(FIXTURES["F6"])
    line = scan(model, "mu", points=7)
    (drawn,) = [x for x in scan_figure(line).axes[0].lines if len(x.get_xdata()) == 7]
    np.testing.assert_allclose(drawn.get_ydata(), line.twice_delta_nll)
    grid = scan(model, ("mu", "nu"), points=(5, 4))
    mesh = scan_figure(grid).axes[0].collections[0]
    np.testing.assert_allclose(mesh.get_array().ravel(), grid.twice_delta_nll.T.ravel())


def test_the_filled_part_of_a_goodness_of_fit_is_its_p_value() -> None:
    result = goodness_of_fit(Model.from_workspace(FIXTURES["F3"]), n_toys=500)
    figure = goodness_figure(result)
    tail = figure.axes[0].patches[0].get_data().values
    assert tail.sum() == pytest.approx(result.p_toys)
    assert badly_placed(figure) == []


def test_a_level_that_was_not_computed_is_refused() -> None:
    with pytest.raises(OptionError, match=r"no intervals at level 0\.5"):
        interval_figure(intervals(Model.from_workspace(FIXTURES["F2"]), "mu"), 0.5)
