"""Minima on the kinks of piecewise interpolation, where gradients do not vanish."""

from __future__ import annotations

import numpy as np
import pytest
from workspaces import modifier, one_channel, real_model, sample

from nsmath.fitting.evaluate import nll
from nsmath.fitting.fit import FitResult, fit
from nsmath.fitting.kinks import kinks_of
from nsmath.fitting.minimiser import FitStatus
from nsmath.model.model import Model
from nsmath.plan.plan import Plan


def fitted(model: Model) -> FitResult:
    with Plan(model, threads=1, tune=False, width=64) as plan:
        return fit(model, plan=plan)


@pytest.mark.parametrize("observed", [45.0, 49.0])
@pytest.mark.parametrize(
    ("kind", "data"), [("histosys", {"hi_data": [60.0], "lo_data": [60.0]}), ("normsys", {"hi": 1.2, "lo": 1.2})]
)
def test_a_variation_that_only_raises_the_yield_stays_at_0_when_fewer_are_seen(
    observed: float, kind: str, data: object
) -> None:
    # The rate is 50 + 10 |alpha| (or 50 * 1.2^|alpha|): with fewer than 50 events both sides rise.
    spec = one_channel(sample("b", [50.0], modifier("a", kind, data)), observed=[observed])
    spec["measurements"][0]["config"]["poi"] = ""
    result = fitted(Model.from_workspace(spec, interp="pyhf"))
    assert result.status == FitStatus.CONVERGED
    assert result["a"] == pytest.approx(0.0, abs=1e-8)


@pytest.mark.parametrize(
    "name",
    ["complex", "tHu", "real/compressed_SR2l_patch", "real/erjr_3L_200_100", "real/sbottomC_900_250_60",
     "real/stau_combined_120_1", "real/b2kpi_20bin", "real/ttbar_ljets_pruned"],
)  # fmt: skip
def test_fits_of_real_workspaces_with_piecewise_codes_end_in_a_local_minimum(name: str) -> None:
    model = real_model(name, "pyhf")
    result = fitted(model)
    assert result.status == FitStatus.CONVERGED
    # No short step along any parameter lowers the NLL: derivatives need not exist for this to say so. (There may be
    # other minima: a kink that points upward separates two.)
    lower, upper = model.bounds
    free = np.flatnonzero(~model.is_fixed)
    for size in (1e-4, 1e-3):
        steps = np.concatenate([size * np.eye(len(model.names))[free], -size * np.eye(len(model.names))[free]])
        around = np.clip(result.values + steps, lower, upper)
        assert nll(model, around).min() > result.nll - 1e-7


def test_smooth_codes_have_no_kinks_and_piecewise_ones_do() -> None:
    assert len(kinks_of(real_model("complex", "root").tensors)) == 0
    assert len(kinks_of(real_model("complex", "pyhf").tensors)) == 2
