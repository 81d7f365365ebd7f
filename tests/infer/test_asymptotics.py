"""Asymptotic results against closed forms, pyhf, and each other."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyhf
import pytest
from scipy.optimize import brentq
from scipy.stats import norm
from workspaces import SHARED, document, modifier, mu, one_channel, real_model, sample

from nsmath.errors import ModelError, OptionError
from nsmath.infer.asymptotic_api import hypotest, significance, upper_limit
from nsmath.infer.asymptotics import asymptotic_pvalues
from nsmath.infer.teststats import test_statistic as statistic_named
from nsmath.model.model import Model
from nsmath.plan.plan import Plan

F1 = one_channel(sample("s", [5.0], mu()), sample("b", [3.0]), observed=[4.0])
F2 = one_channel(sample("s", [5.0], mu()), sample("b", [10.0], modifier("u", "shapesys", [2.5])), observed=[9.0])
F3 = one_channel(sample("s", [5.0], mu()), sample("b", [50.0]), observed=[52.0])
F6 = document(
    {
        "SR": [sample("s", [5.0], mu()), sample("b", [10.0], modifier("nu", "normfactor"))],
        "CR": [sample("b", [100.0], modifier("nu", "normfactor"))],
    },
    {"SR": [33.0], "CR": [300.0]},
)
EXAMPLE = Path(__file__).resolve().parents[2] / "nsmath" / "data" / "example.json"


def model_of(spec: dict[str, Any]) -> Model:
    return Model.from_workspace(spec)


def counting(value: float, n: float, s: float = 5.0, b: float = 50.0, *, negative: bool = False) -> float:
    """q of a counting experiment without nuisances, in closed form."""

    def nll(m: float) -> float:
        rate = b + s * m
        return rate - (n * math.log(rate) if n else 0.0)

    best = (n - b) / s
    best = best if negative else max(best, 0.0)
    return 0.0 if best > value else 2.0 * (nll(value) - nll(best))


@pytest.mark.parametrize("value", [0.3, 1.0, 2.5, 6.0])
@pytest.mark.parametrize("observed", [40.0, 52.0, 60.0])
@pytest.mark.parametrize("name", ["qtilde", "q"])
def test_a_counting_experiment_has_its_closed_form(value: float, observed: float, name: str) -> None:
    spec = one_channel(sample("s", [5.0], mu()), sample("b", [50.0]), observed=[observed])
    spec["measurements"][0]["config"]["parameters"] = [{"name": "mu", "bounds": [[-5.0, 20.0]]}]
    result = hypotest(model_of(spec), value, test_stat=name)
    q, q_asimov = counting(value, observed, negative=name == "q"), counting(value, 50.0)
    assert (result.q_obs, result.q_asimov) == (pytest.approx(q, abs=1e-9), pytest.approx(q_asimov, abs=1e-9))
    root, spread = math.sqrt(q), math.sqrt(q_asimov)
    if name == "qtilde" and root > spread:
        clsb, clb = norm.sf((q + q_asimov) / (2 * spread)), norm.sf((q - q_asimov) / (2 * spread))
    else:
        clsb, clb = norm.sf(root), norm.sf(root - spread)
    assert (result.clsb, result.clb) == (pytest.approx(clsb, rel=1e-8), pytest.approx(clb, rel=1e-8))
    for n, expected in zip((2, 1, 0, -1, -2), result.expected_cls or (), strict=True):
        assert expected == pytest.approx(norm.sf(n + spread) / norm.sf(n), rel=1e-8)


@pytest.mark.parametrize(
    ("spec", "cls", "band"),
    [
        (F1, 0.08642, (0.001233, 0.007744, 0.042504, 0.180479, 0.499986)),
        # The q of F2 is 2.0282213 exactly; minimisers that stop at 2.028053 give a CLs of 0.183714.
        (F2, 0.183717, (0.02994, 0.087071, 0.229161, 0.498908, 0.805744)),
        (F6, 0.536731, None),
    ],
)
def test_known_values(spec: dict[str, Any], cls: float, band: tuple[float, ...] | None) -> None:
    result = hypotest(model_of(spec), 1.0)
    assert result.cls == pytest.approx(cls, abs=6e-6)
    assert band is None or result.expected_cls == pytest.approx(band, abs=6e-5)


@pytest.mark.parametrize("name", ["qtilde", "q", "q0"])
@pytest.mark.parametrize("spec", [F2, F6, "example", "complex"], ids=["F2", "F6", "example", "complex"])
def test_pyhf_agrees_within_its_minimisers_noise(spec: Any, name: str) -> None:
    if spec == "example":
        spec = json.loads(EXAMPLE.read_text(encoding="utf-8"))
    model = real_model(spec, "root") if isinstance(spec, str) else model_of(spec)
    source = spec if isinstance(spec, dict) else json.loads(
        (SHARED / f"{spec}.json").read_text()
    )  # fmt: skip
    pyhf.set_backend("numpy", pyhf.optimize.minuit_optimizer(strategy=2, tolerance=1e-4))
    workspace = pyhf.Workspace(source)
    codes = {"normsys": {"interpcode": "code4"}, "histosys": {"interpcode": "code4p"}}
    peer = workspace.model(modifier_settings=codes)
    value = 0.0 if name == "q0" else 1.0
    observed, tails, expected = pyhf.infer.hypotest(
        value, workspace.data(peer), peer, test_stat=name, return_expected_set=True, return_tail_probs=True
    )
    result = hypotest(model, 1.0, test_stat=name)
    ours = (result.clsb, result.expected_clsb) if name == "q0" else (result.cls, result.expected_cls)
    # A q that is wrong by its error estimate shifts p-values by this much.
    assert ours[0] == pytest.approx(float(observed), abs=2e-5)
    np.testing.assert_allclose(np.array(ours[1]), np.array(expected, dtype=float), rtol=0.0, atol=2e-5)
    assert name == "q0" or result.clb == pytest.approx(float(tails[1]), abs=2e-5)


@pytest.mark.parametrize("value", [1.0, 3.0])
def test_many_values_in_one_batch_are_each_value_alone(value: float) -> None:
    model = real_model("complex", "root")
    with Plan(model, threads=1, tune=False, width=64) as plan:
        alone = hypotest(model, value, plan=plan)
        together = hypotest(model, [0.5, 1.0, 2.0, 3.0, 4.0], plan=plan)
    found = next(result for result in together if result.mu_test == value)
    assert found.q_obs == pytest.approx(alone.q_obs, abs=1e-9)
    assert found.q_asimov == pytest.approx(alone.q_asimov, abs=1e-9)


def test_mu_0_is_never_excluded() -> None:
    # Case C73.
    result = hypotest(model_of(F3), 0.0)
    assert (result.cls, result.clsb, result.clb) == (1.0, 0.5, 0.5)
    assert asymptotic_pvalues(statistic_named("q0"), 0.0, 1.0)[0] == 0.5


def test_the_limit_of_a_counting_experiment_is_the_root_of_its_closed_form() -> None:
    result = upper_limit(model_of(F3))

    def cls(m: float) -> float:
        root, spread = math.sqrt(counting(m, 52.0)), math.sqrt(counting(m, 50.0))
        return norm.sf(root) / norm.sf(root - spread) - 0.05

    assert result.observed.mu == pytest.approx(brentq(cls, 1.0, 9.0, xtol=1e-10), rel=1e-6)
    for n, crossing in zip((2, 1, 0, -1, -2), result.expected, strict=True):
        exact = brentq(
            lambda m, n=n: norm.sf(n + math.sqrt(counting(m, 50.0))) / norm.sf(n) - 0.05, 0.1, 9.9, xtol=1e-10
        )
        assert crossing.mu == pytest.approx(exact, rel=1e-6)
    assert result.at_limit is not None
    assert result.at_limit.cls == pytest.approx(0.05, abs=1e-8)


@pytest.mark.parametrize("name", ["complex", "tHu", "real/stau_combined_120_1", "real/erjr_3L_200_100"])
def test_cls_at_every_limit_of_real_workspaces_is_the_level(name: str) -> None:
    model = real_model(name, "root")
    with Plan(model, threads=1, tune=False, width=64) as plan:
        result = upper_limit(model, cl=0.9, plan=plan)
        limits = [result.observed.mu, *(crossing.mu for crossing in result.expected)]
        tests = hypotest(model, [limit for limit in limits if limit is not None], plan=plan)
    assert len(tests) == 6
    assert tests[0].cls == pytest.approx(0.1, abs=1e-7)
    for k, test in enumerate(tests[1:]):
        assert test.expected_cls is not None
        assert test.expected_cls[k] == pytest.approx(0.1, abs=1e-7)


def test_a_limit_beyond_the_bound_is_named() -> None:
    result = upper_limit(model_of(one_channel(sample("s", [0.0], mu()), sample("b", [3.0]), observed=[4.0])))
    assert (result.observed.mu, result.observed.beyond, result.at_limit) == (None, 10.0, None)
    assert result.to_dict()["expected"]["beyond"] == [10.0] * 5


def test_a_scan_is_part_of_the_points() -> None:
    result = upper_limit(model_of(F3), scan=[0.5, 4.0])
    assert {0.5, 4.0} <= {point.mu_test for point in result.points}


def test_significance_of_a_counting_experiment() -> None:
    result = significance(model_of(one_channel(sample("s", [20.0], mu()), sample("b", [50.0]), observed=[65.0])))
    exact = math.sqrt(2.0 * (65.0 * math.log(65.0 / 50.0) - 15.0))
    assert result.z == pytest.approx(exact, rel=1e-8)
    expected = math.sqrt(2.0 * (70.0 * math.log(70.0 / 50.0) - 20.0))
    assert result.expected_clsb[2] == pytest.approx(norm.sf(expected), rel=1e-8)
    assert result.cls is None


def test_expected_results_from_nominal_parameters_know_nothing_of_the_data() -> None:
    shifted = json.loads(json.dumps(F6))
    shifted["observations"][1]["data"] = [310.0]
    bands = [hypotest(model_of(spec), 1.0, expected_from="nominal").expected_cls for spec in (F6, shifted)]
    assert bands[0] == pytest.approx(bands[1], rel=1e-9)
    assert hypotest(model_of(F6), 1.0).expected_cls != pytest.approx(bands[0], rel=1e-3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: hypotest(m, 11.0), OptionError, r"mu = 11 is outside the bounds"),
        (lambda m: hypotest(m, 1.0, test_stat="t"), OptionError, r"'t' is unknown"),
        (lambda m: hypotest(m, 1.0, expected_from="x"), OptionError, r"expected one of data, nominal"),
        (lambda m: upper_limit(m, cl=1.2), OptionError, r"confidence level is 1.2"),
        (lambda m: upper_limit(m, test_stat="q0"), OptionError, r"sets no limit"),
        (lambda m: upper_limit(m, scan=[20.0]), OptionError, r"mu = 20 is outside"),
        (lambda m: hypotest(model_of(document({"SR": [sample("b", [5.0])]}, {"SR": [5.0]}, poi="")), 1.0), ModelError,
         r"no parameter of interest"),
    ],
)  # fmt: skip
def test_bad_options_are_named(call: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        call(model_of(F3))
