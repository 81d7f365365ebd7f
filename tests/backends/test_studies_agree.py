"""Fits, toys and CLs of every backend in every precision against the reference: the same toys, the same answers."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from functools import cache
from typing import Any

import numpy as np
import pytest
from tolerances import TOLERANCES
from workspaces import COMPUTED, LUMI, document, modifier, mu, sample

from nsmath.fitting.evaluate import nll_and_gradient
from nsmath.fitting.fit import fit
from nsmath.infer.engine import Workers
from nsmath.infer.hypotest import hypotest_toys
from nsmath.infer.result import ToyTestResult
from nsmath.model.model import Model
from nsmath.plan.plan import Plan
from nsmath.plan.tuned import Tuned

N_TOYS = 48
TUNED = Tuned(width=32, robust_width=16, newton_cost=8.0)
EVERY_MODIFIER = document(
    {
        "SR": [
            sample("s", [5.0, 9.0, 4.0], mu(), modifier("lumi", "lumi")),
            sample(
                "b", [50.0, 40.0, 9.0],
                modifier("n", "normsys", {"lo": 0.85, "hi": 1.2}),
                modifier("h", "histosys", {"lo_data": [45.0, 42.0, 8.0], "hi_data": [58.0, 37.0, 11.0]}),
                modifier("stat", "staterror", [3.0, 2.0, 1.5]),
            ),
            sample("fake", [4.0, 3.0, 2.0], modifier("f", "shapesys", [2.0, 1.0, 1.5])),
            sample("free", [8.0, 7.0, 6.0], modifier("g", "shapefactor")),
        ],
        "CR": [
            sample("b", [200.0, 120.0, 80.0], modifier("n", "normsys", {"lo": 0.9, "hi": 1.1})),
            sample("free", [90.0, 70.0, 60.0], modifier("g", "shapefactor")),
        ],
    },
    {"SR": [64.0, 50.0, 18.0], "CR": [285.0, 196.0, 137.0]},
    lumi=LUMI,
)  # fmt: skip
MODEL = Model.from_workspace(EVERY_MODIFIER)


def plan_of(backend: str, dtype: str) -> Plan:
    return Plan(MODEL, backend=backend, dtype=dtype, threads=1, tuned=TUNED)


def outcome(plan: Plan, **options: Any) -> ToyTestResult:
    return hypotest_toys(MODEL, 1.0, n_toys=N_TOYS, expected_set=True, plan=plan, **options)


@cache
def expected() -> ToyTestResult:
    with plan_of("reference", "float64") as plan:
        return outcome(plan)


@pytest.mark.parametrize(("backend", "dtype"), COMPUTED)
def test_best_fit_and_uncertainties_are_those_of_the_reference(backend, dtype):
    wanted = fit(MODEL, backend="reference")
    got = fit(MODEL, backend=backend, dtype=dtype)
    size = TOLERANCES[backend, dtype].parameter
    assert (got.backend, got.dtype, got.status) == (backend, dtype, wanted.status)
    assert np.nanmax(np.abs(got.values - wanted.values) / wanted.uncertainties) < size
    np.testing.assert_allclose(got.uncertainties, wanted.uncertainties, rtol=size)
    assert got.nll == pytest.approx(wanted.nll, abs=TOLERANCES[backend, dtype].q)


@pytest.mark.parametrize(("backend", "dtype"), COMPUTED)
def test_toys_q_and_cls_are_those_of_the_reference(backend, dtype):
    with plan_of(backend, dtype) as plan:
        got = outcome(plan)
    wanted = expected()
    assert got.q_obs == pytest.approx(wanted.q_obs, abs=TOLERANCES["cpu", "float64"].q)
    for name, ensemble in wanted.ensembles.items():
        np.testing.assert_allclose(got.ensembles[name].q, ensemble.q, rtol=0.0, atol=TOLERANCES[backend, dtype].q)
    assert (got.clsb, got.clb, got.cls) == (wanted.clsb, wanted.clb, wanted.cls)
    assert got.expected_set == wanted.expected_set
    assert (got.to_dict()["backend"], got.to_dict()["dtype"], got.to_dict()["device"]) == (
        backend, dtype, plan.device,
    )  # fmt: skip


@pytest.mark.parametrize(("backend", "dtype"), COMPUTED)
def test_a_plan_that_is_used_again_gives_the_same_bits(backend, dtype):
    with plan_of(backend, dtype) as plan:
        first = outcome(plan)
        outcome(plan, seed=5)
        again = outcome(plan)
    for name, ensemble in first.ensembles.items():
        np.testing.assert_array_equal(again.ensembles[name].q, ensemble.q)


@pytest.mark.parametrize(("backend", "dtype"), COMPUTED)
def test_nll_and_gradient_at_many_points_are_those_of_the_reference(backend, dtype):
    rng = np.random.default_rng(3)
    theta = np.clip(MODEL.init + rng.normal(0.0, 0.1, (5, len(MODEL.names))), *MODEL.bounds)
    nll, gradient = nll_and_gradient(MODEL, theta, backend=backend, dtype=dtype)
    wanted_nll, wanted_gradient = nll_and_gradient(MODEL, theta, backend="reference")
    tolerance = TOLERANCES[backend, dtype]
    np.testing.assert_allclose(nll, wanted_nll, rtol=tolerance.nll)
    scale = np.abs(wanted_gradient).max()
    np.testing.assert_allclose(gradient, wanted_gradient, rtol=tolerance.gradient, atol=tolerance.gradient * scale)


@pytest.mark.parametrize(("backend", "dtype"), COMPUTED)
def test_workers_compute_as_the_plan_does(backend, dtype):
    class Here(Executor):
        """Computes what is submitted at once."""

        def submit(self, fn, /, *args, **kwargs):
            future: Future[Any] = Future()
            future.set_result(fn(*args, **kwargs))
            return future

    with plan_of(backend, dtype) as plan:
        alone, worked = outcome(plan), outcome(plan, engine=Workers(Here(), 1))
    for name, ensemble in alone.ensembles.items():
        np.testing.assert_array_equal(worked.ensembles[name].q, ensemble.q)
