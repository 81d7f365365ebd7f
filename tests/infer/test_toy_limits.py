"""Limits by toys against exact enumeration (F1), known values (F2), and curves with a known crossing."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm, poisson
from workspaces import modifier, mu, one_channel, sample

from nsmath.errors import FitError, OptionError
from nsmath.infer.hypotest import toy_upper_limit
from nsmath.infer.limit_curve import CurvePoint, bracket, crossing, found, next_mu
from nsmath.infer.pvalues import NSIGMA_ORDER
from nsmath.infer.toy_limit import ToyLimitResult
from nsmath.model.model import Model
from nsmath.plan.plan import Plan
from nsmath.plan.tuned import Tuned

F1 = one_channel(sample("s", [5.0], mu()), sample("b", [3.0]), observed=[4.0])
F2 = one_channel(sample("s", [5.0], mu()), sample("b", [10.0], modifier("u", "shapesys", [2.5])), observed=[9.0])
COUNTS = np.arange(0, 80)


def limits(spec: dict[str, Any], n_toys: int, **options: Any) -> ToyLimitResult:
    model = Model.from_workspace(spec)
    with Plan(model, threads=2, tuned=Tuned(1024, 16, 8.0)) as plan:
        return toy_upper_limit(model, n_toys=n_toys, plan=plan, **options)


@cache
def exact_f1_cls(value: float) -> dict[str | int, float]:
    """CLs of F1 at mu, observed and expected, by enumeration of all counts."""
    rate, best = 3.0 + 5.0 * value, np.maximum(3.0, COUNTS)
    q = 2.0 * (rate - best - COUNTS * np.log(rate / best))
    q = np.where(rate < COUNTS, 0.0, q)
    signal, background = poisson.pmf(COUNTS, rate), poisson.pmf(COUNTS, 3.0)
    in_tail = q >= q[:, None] - 1e-9
    values = (in_tail * signal).sum(axis=1) / (in_tail * background).sum(axis=1)
    order = np.argsort(values)
    share = np.cumsum(background[order])
    edges = {n: float(values[order][np.searchsorted(share, norm.cdf(-n))]) for n in NSIGMA_ORDER}
    return {"observed": float(values[4]), **edges}


@pytest.fixture(scope="module")
def f1() -> ToyLimitResult:
    return limits(F1, 20_000, seed=5)


def test_the_observed_limit_of_f1_is_the_exact_one(f1: ToyLimitResult) -> None:
    exact = brentq(lambda m: exact_f1_cls(m)["observed"] - 0.05, 1.0, 2.0)
    assert exact == pytest.approx(1.296082, abs=2e-6)
    assert f1.observed.mu is not None
    assert 0.0 < (f1.observed.error or 0.0) < 0.03
    assert abs(f1.observed.mu - exact) < 3.0 * (f1.observed.error or 0.0)


@pytest.mark.parametrize("nsigma", [1, 0, -1, -2])
def test_expected_limits_of_f1_are_the_exact_ones(f1: ToyLimitResult, nsigma: int) -> None:
    # The band of a counting experiment is a staircase in mu: look for the last mu that is not excluded.
    grid = np.linspace(0.3, 3.0, 541)
    exact = max(m for m in grid if exact_f1_cls(float(m))[nsigma] >= 0.05)
    found_here = f1.expected[NSIGMA_ORDER.index(nsigma)]
    assert found_here.mu is not None
    assert abs(found_here.mu - exact) < max(4.0 * (found_here.error or 0.0), 0.02)


def test_the_error_of_a_limit_is_its_spread_over_seeds() -> None:
    results = [limits(F1, 2000, seed=seed).observed for seed in range(12)]
    pulls = np.array([((r.mu or 0.0) - 1.296082) / (r.error or 1.0) for r in results])
    # chi2 with 12 degrees of freedom, 0.1 % on either side.
    assert 2.2 < np.sum(pulls**2) < 33.0


def test_f2_and_the_test_at_its_limit() -> None:
    result = limits(F2, 20_000, seed=1)
    assert abs((result.observed.mu or 0.0) - 1.585) < 3.0 * (result.observed.error or 0.0)
    nearest = result.at_limit
    assert nearest is not None
    assert nearest.mu_test == pytest.approx(result.observed.mu, rel=0.03)
    assert abs((nearest.cls or 0.0) - 0.05) < 4.0 * (nearest.cls_error or 0.0) + 0.005


def test_a_signal_that_does_nothing_has_no_limit_in_finite_time() -> None:
    # Case C95: CLs is 1 at every mu.
    result = limits(one_channel(sample("s", [0.0], mu()), sample("b", [3.0]), observed=[4.0]), 200)
    for limit in (result.observed, *result.expected):
        assert (limit.mu, limit.beyond) == (None, 10.0)
    assert result.to_dict()["observed"] is None
    assert len(result.points) < 12


def test_a_limit_beyond_the_bound_is_named_and_not_made_up() -> None:
    # Case C93: the scan ends before CLs falls below 0.05.
    result = limits(one_channel(sample("s", [0.5], mu()), sample("b", [30.0]), observed=[33.0]), 500)
    assert (result.observed.mu, result.observed.beyond) == (None, 10.0)
    assert result.at_limit is None


def test_points_are_kept_and_a_second_run_computes_nothing(tmp_path: Path) -> None:
    first = limits(F1, 1000, store=tmp_path)
    again = limits(F1, 1000, store=tmp_path)
    assert first.to_dict() == again.to_dict()
    assert all(work["fits"] == 0 for point in again.points for work in point.fits.values())
    assert len(list(tmp_path.glob("mu_*"))) == len(first.points)


def test_background_toys_are_fitted_freely_once_and_give_the_same_q() -> None:
    result = limits(F1, 1000)
    model = Model.from_workspace(F1)
    with Plan(model, threads=2, tuned=Tuned(1024, 16, 8.0)) as plan:
        from nsmath.infer.hypotest import hypotest_toys

        last = result.points[-1]
        alone = hypotest_toys(model, last.mu_test, n_toys=1000, plan=plan)
    np.testing.assert_array_equal(alone.ensembles["b"].q, last.ensembles["b"].q)
    assert sum(p.fits["b"]["fits"] for p in result.points) < len(result.points) * alone.fits["b"]["fits"] * 0.75


@pytest.mark.parametrize(
    ("options", "message"),
    [({"cl": 0.3}, "confidence level is 0.3"), ({"test_stat": "q0"}, "sets no limit"), ({"n_toys": 0}, "n_toys is 0")],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        limits(F1, **{"n_toys": 10, **options})


def falling(mu_value: float) -> CurvePoint:
    value = math.exp(-mu_value)
    return CurvePoint(mu_value, value, 0.02 * value)


def test_a_search_on_an_exact_curve_ends_at_its_crossing() -> None:
    points, at = [], 1.0
    while at is not None:
        points.append(falling(at))
        at = next_mu(points, 0.05, 100.0)
        assert len(points) < 15
    limit = found(points, 0.05)
    assert limit.mu == pytest.approx(math.log(20.0), rel=1e-3)
    # d ln CLs / d mu = -1, so the error of mu is the relative error of CLs.
    assert limit.error == pytest.approx(0.02, rel=0.05)


def test_an_empty_tail_counts_as_excluded() -> None:
    points = [CurvePoint(1.0, 0.4, 0.01), CurvePoint(4.0, None, None)]
    assert bracket(points, 0.05) == (1.0, 4.0)
    assert crossing(points, 0.05) == (2.5, None)


def test_the_last_crossing_of_a_noisy_curve_counts() -> None:
    points = [CurvePoint(m, v, 0.01) for m, v in ((1.0, 0.06), (1.1, 0.048), (1.2, 0.053), (1.3, 0.04))]
    assert bracket(points, 0.05) == (1.2, 1.3)
    assert 1.2 <= crossing(points, 0.05)[0] <= 1.3


def test_a_search_that_does_not_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nsmath.infer.toy_limit.next_mu", lambda points, level, mu_max: 0.1 + 0.1 * len(points))
    with pytest.raises(FitError, match=r"the limit is not known after toys at \d+ values of mu"):
        limits(F1, 20)
