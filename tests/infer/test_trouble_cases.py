"""Troubles that users of other programs have reported, groups F and G: what is right, by number."""

from __future__ import annotations

import gc
import math
import resource
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm, poisson
from workspaces import document, modifier, mu, one_channel, sample

from nsmath.infer.hypotest import hypotest_toys
from nsmath.infer.observed import observed_fits
from nsmath.infer.pvalues import expected_band
from nsmath.infer.result import ToyTestResult
from nsmath.infer.single_toy import single_toy
from nsmath.infer.teststats import test_statistic as statistic_named
from nsmath.model.model import Model
from nsmath.plan.plan import Plan
from nsmath.plan.tuned import Tuned

TUNED = Tuned(512, 16, 8.0)
F1 = one_channel(sample("s", [5.0], mu()), sample("b", [3.0]), observed=[4.0])


def toy_test(spec: dict[str, Any], mu_test: float = 1.0, n_toys: int = 4000, **options: Any) -> ToyTestResult:
    model = Model.from_workspace(spec)
    with Plan(model, threads=2, tuned=TUNED) as plan:
        return hypotest_toys(model, mu_test, n_toys=n_toys, plan=plan, **options)


def failing(first: float) -> dict[str, Any]:
    """The workspace of C83, mu in [0, 10] scaled so that ``first`` can be tested."""
    c = modifier("c", "histosys", {"hi_data": [17.8704], "lo_data": [15.5146]})
    spec = one_channel(sample("s", [1.0], mu()), sample("b", [16.6925], c), observed=[17.3521])
    spec["measurements"][0]["config"]["parameters"] = [
        {"name": "mu", "bounds": [[0.0, max(10.0, first)]]}, {"name": "c", "bounds": [[-10.0, 10.0]]},
    ]  # fmt: skip
    return spec


@pytest.mark.parametrize("observed", [40.0, 50.0, 60.0])
def test_c73_mu_0_is_never_excluded(observed: float) -> None:
    background = sample("b", [50.0], modifier("n", "normsys", {"lo": 0.9, "hi": 1.1}))
    result = toy_test(one_channel(sample("s", [5.0], mu()), background, observed=[observed]), 0.0, 1000)
    assert (result.cls, result.clsb, result.clb) == (1.0, 1.0, 1.0)


def test_c81_toys_equal_to_the_data_are_in_the_tail() -> None:
    result = toy_test(F1, n_toys=20_000)
    sb = result.ensembles["sb"].q
    ties = np.abs(sb - result.q_obs) < 1e-6
    # 4 events from 8: the toys that are the data themselves.
    share = float(poisson.pmf(4, 8.0))
    assert abs(ties.mean() - share) < 5.0 * math.sqrt(share / len(sb))
    assert result.clsb == np.mean(sb >= result.q_obs - 1e-6)


@pytest.mark.parametrize("mu_test", [2.0, 7.0, 17.0])
def test_c83_toys_that_fail_elsewhere_converge(mu_test: float) -> None:
    result = toy_test(failing(mu_test), mu_test, n_toys=1000)
    assert (result.n_nonconverged, result.n_error) == ({"b": 0, "sb": 0}, {"b": 0, "sb": 0})


def test_c83_a_signal_far_above_the_data_keeps_every_toy() -> None:
    spec = document({"SR": [sample("s", [93.25, 802.57], mu()), sample("b", [0.49, 0.69])]}, {"SR": [0.49, 0.69]})
    result = toy_test(spec, 1.0, n_toys=1000)
    assert result.bracket is None
    assert (result.clsb, result.cls) == (None, None)
    assert result.cls_upper == pytest.approx((1.0 - 0.05 ** (1 / 1000)) / (result.clb or 1.0))


def test_c83_failed_toys_are_counted_and_bracketed(monkeypatch: pytest.MonkeyPatch) -> None:
    from nsmath.infer import engine

    plain = engine.run_toys

    def some_fail(*args: Any) -> Any:
        toys, work = plain(*args)
        toys.q[::50] = math.nan
        toys.free_status[::50] = 1
        return toys, work

    monkeypatch.setattr(engine, "run_toys", some_fail)
    result = toy_test(F1, n_toys=1000)
    n_failed = result.ensembles["b"].n_failed
    assert result.n_nonconverged == {"b": n_failed, "sb": n_failed}
    assert n_failed >= 20
    low, high = result.bracket or (None, None)
    assert low is not None
    assert high is not None
    assert low < (result.cls or 0.0) < high


def test_c89_another_start_gives_the_same_q() -> None:
    spec = failing(10.0)
    model = Model.from_workspace(spec)
    moved = failing(10.0)
    moved["measurements"][0]["config"]["parameters"][0]["inits"] = [8.0]
    moved["measurements"][0]["config"]["parameters"][1]["inits"] = [-3.0]
    other = Model.from_workspace(moved)
    statistic = statistic_named("qtilde")
    found = []
    for m in (model, other):
        with Plan(m, threads=1, tuned=TUNED) as plan:
            found.append(observed_fits(plan, statistic, 5.0).q(statistic, 5.0))
    assert found[0] == pytest.approx(found[1], abs=1e-7)


def test_c101_a_toy_of_a_study_is_that_toy_on_its_own() -> None:
    model = Model.from_workspace(failing(10.0))
    with Plan(model, threads=2, tuned=TUNED) as plan:
        study = hypotest_toys(model, 5.0, n_toys=700, seed=9, plan=plan)
        for name in ("b", "sb"):
            for index in (0, 511, 512, 699):
                toy = single_toy(plan, statistic_named("qtilde"), 5.0, hypothesis=name, index=index, seed=9)
                assert toy.q == pytest.approx(study.ensembles[name].q[index], abs=2e-8)


def test_c103_memory_does_not_grow_with_models() -> None:
    def resident() -> float:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * resource.getpagesize() / 2**20

    spec = one_channel(sample("s", [5.0], mu()), sample("b", [50.0]), observed=[52.0])

    def many(n: int) -> None:
        for _ in range(n):
            model = Model.from_workspace(spec)
            with Plan(model, threads=1, tuned=Tuned(64, 16, 8.0)) as plan:
                hypotest_toys(model, 1.0, n_toys=10, plan=plan)
        gc.collect()

    many(20)
    before = resident()
    many(100)
    assert resident() - before < 10.0


def test_the_band_of_a_gaussian_problem_is_the_known_one() -> None:
    # Median CLs of q_mu for a Gaussian mu_hat of width 1 at mu = 2: (1 - Phi(2)) / (1/2).
    rng = np.random.default_rng(0)
    background, signal = rng.normal(0.0, 1.0, 200_000), rng.normal(2.0, 1.0, 200_000)
    q_b, q_sb = (np.where(x > 2.0, 0.0, (x - 2.0) ** 2) for x in (background, signal))
    values, errors, _ = expected_band(q_b, q_sb)
    for n, value, error in zip((2, 1, 0, -1), values, errors, strict=False):
        exact = norm.sf(2.0 + n) / norm.cdf(-n)
        assert abs((value or 0.0) - exact) < 4.0 * (error or 0.0)
