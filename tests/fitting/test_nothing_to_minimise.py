"""Models whose parameters are all fixed, or all profiled in closed form."""

from __future__ import annotations

import math
from typing import Any

import pytest
from workspaces import BACKEND_NAMES, document, modifier, mu, sample

from nsmath.fitting.fit import fit
from nsmath.fitting.minimiser import FitStatus
from nsmath.model.model import Model
from nsmath.plan.plan import Plan


@pytest.mark.parametrize("backend", BACKEND_NAMES)
@pytest.mark.parametrize(
    ("modifiers", "poi_config", "best"),
    [
        ([], [], {}),
        # One gamma of width 0.04, profiled: the root of gamma^2 / 0.04^2 + (50 - 1 / 0.04^2) gamma - 52 = 0.
        ([modifier("e", "staterror", [2.0])], [], {"e[0]": (575.0 + math.sqrt(575.0**2 + 4 * 625.0 * 52.0)) / 1250.0}),
        ([mu()], [{"name": "mu", "fixed": True, "inits": [1.0]}], {"mu": 1.0}),
    ],
)
def test_a_model_that_leaves_nothing_to_minimise_is_fitted_all_the_same(
    backend: str, modifiers: list[dict[str, Any]], poi_config: list[dict[str, Any]], best: dict[str, float]
) -> None:
    spec = document({"SR": [sample("b", [50.0], *modifiers)]}, {"SR": [52.0]}, poi="")
    spec["measurements"][0]["config"]["parameters"] = poi_config
    model = Model.from_workspace(spec)
    with Plan(model, backend=backend, threads=1, tune=False, width=8) as plan:
        result = fit(model, plan=plan)
    assert result.status == FitStatus.CONVERGED
    assert dict(zip(result.names, result.values, strict=True)) == pytest.approx(best, abs=1e-7)
