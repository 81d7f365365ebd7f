"""Curves of CLs from results."""

from __future__ import annotations

import numpy as np
import pytest

from nsmath import Model, Plan, Workspace, toy_upper_limit, upper_limit
from nsmath.errors import OptionError
from nsmath.paths import EXAMPLE
from nsmath.viz import cls_figure, limit_figure


def test_limits_by_asymptotics_and_by_toys_are_drawn_at_every_mu_they_looked_at() -> None:
    model = Model.from_workspace(Workspace.from_file(EXAMPLE))
    with Plan(model, threads=2, tune=False, width=64) as plan:
        results = [upper_limit(model, plan=plan), toy_upper_limit(model, n_toys=100, plan=plan)]
    for result in results:
        (axes,) = limit_figure(result).axes
        drawn = {round(float(x), 9) for line in axes.lines for x in np.asarray(line.get_xdata(), dtype=float)}
        assert {round(point.mu_test, 9) for point in result.points} <= drawn
    with pytest.raises(OptionError, match="two values of mu"):
        cls_figure(results[0].points[:1])
