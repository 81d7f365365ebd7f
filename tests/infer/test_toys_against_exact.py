"""CLs by toys against exact enumeration of all toys (cases F1, F2, F6: closed-form profiles, no Monte Carlo)."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import pytest
from workspaces import document, modifier, mu, one_channel, sample

from nsmath.infer.hypotest import hypotest_toys
from nsmath.infer.teststats import TEST_STATISTICS
from nsmath.model.model import Model
from nsmath.plan.plan import Plan

N_TOYS = 20_000

F1 = one_channel(sample("s", [5.0], mu()), sample("b", [3.0]), observed=[4.0])
F2 = one_channel(sample("s", [5.0], mu()), sample("b", [10.0], modifier("u", "shapesys", [2.5])), observed=[9.0])
F6 = document(
    {
        "SR": [sample("s", [5.0], mu()), sample("b", [10.0], modifier("nu", "normfactor"))],
        "CR": [sample("b", [100.0], modifier("nu", "normfactor"))],
    },
    {"SR": [33.0], "CR": [300.0]},
)

# workspace, (CLs+b, CLb, CLs), band of -2 .. +2 sigma
EXACT = {
    "F1": (F1, (0.0996324, 0.8152632, 0.1222089), (0.006738, 0.015160, 0.065479, 0.208754, 0.458418)),
    "F2": (F2, (0.0811064, 0.4193794, 0.1933962), (0.04653, 0.09844, 0.23262, 0.48858, 1.0)),
    "F6": (F6, (0.3818962, 0.7055993, 0.5412366), (0.11959, 0.22389, 0.40715, 1.0, 1.0)),
}


def toys(spec: dict[str, Any], value: float = 1.0, **options: Any) -> Any:
    model = Model.from_workspace(spec)
    with Plan(model, threads=2, tune=False, width=512) as plan:
        return hypotest_toys(model, value, plan=plan, **{"n_toys": N_TOYS, "seed": 3, **options})


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    return {name: toys(spec, expected_set=True) for name, (spec, _, _) in EXACT.items()}


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("number", [0, 1, 2], ids=["clsb", "clb", "cls"])
def test_toys_agree_with_exact_enumeration_within_three_standard_errors(
    results: dict[str, Any], name: str, number: int
) -> None:
    result, exact = results[name], EXACT[name][1][number]
    value = (result.clsb, result.clb, result.cls)[number]
    error = (result.clsb_error, result.clb_error, result.cls_error)[number]
    assert abs(value - exact) < 3.0 * error


@pytest.mark.parametrize("name", EXACT)
def test_the_expected_band_is_the_exact_one_within_four_of_its_errors(results: dict[str, Any], name: str) -> None:
    band = results[name].expected_set
    assert band.nsigma_order == (2, 1, 0, -1, -2)
    for value, error, exact in zip(band.cls, band.cls_error, EXACT[name][2], strict=True):
        # A quantile of a discrete distribution may sit on either side of a step: the error covers the step.
        # Where all tails are full there is no error to give.
        assert (error is None) == (value == 1.0)
        assert abs(value - exact) <= 4.0 * (error or 1e-12)


@pytest.mark.parametrize("name", EXACT)
def test_every_toy_of_the_exact_cases_converges(results: dict[str, Any], name: str) -> None:
    assert results[name].n_nonconverged == {"b": 0, "sb": 0}
    assert results[name].n_error == {"b": 0, "sb": 0}
    assert results[name].bracket is None


def test_f2_falls_with_mu_as_exact_enumeration_says() -> None:
    for value, exact in ((1.5, 0.062405), (2.0, 0.017153)):
        result = toys(F2, value)
        assert abs(result.cls - exact) < 3.0 * result.cls_error


def test_pure_signal_with_nothing_seen_has_cls_of_exp_minus_s() -> None:
    result = toys(one_channel(sample("s", [3.0], mu()), observed=[0.0]))
    assert result.mu_hat == 0.0
    assert abs(result.cls - math.exp(-3.0)) < 3.0 * result.cls_error


def test_an_excess_above_the_tested_mu_gives_cls_of_one() -> None:
    result = toys(one_channel(sample("s", [5.0], mu()), sample("b", [3.0]), observed=[9.0]))
    assert (result.q_obs, result.clsb, result.clb, result.cls) == (0.0, 1.0, 1.0, 1.0)


def test_an_empty_tail_is_a_bound_and_not_zero() -> None:
    result = toys(one_channel(sample("s", [30.0], mu()), sample("b", [3.0]), observed=[0.0]), n_toys=2000)
    assert result.cls is None
    assert result.clsb is None
    assert result.cls_error is None
    bound = 1.0 - 0.05 ** (1.0 / 2000)
    assert result.clsb_upper == pytest.approx(bound)
    assert result.cls_upper == pytest.approx(bound / result.clb)
    assert result.to_dict()["cls"] is None


def test_toys_are_thrown_at_the_conditional_fit_and_not_at_the_start_values() -> None:
    # Thrown at nu = 1, F6 would give .4448 (case C79).
    result = toys(F6)
    assert abs(result.cls - 0.5412366) < 0.03


def test_q_tilde_of_a_deficit_does_not_know_that_mu_may_be_negative() -> None:
    # Case C87: bounds [-4, 10], mu_hat = -1; the right q-tilde is that of bounds [0, 10].
    def deficit(lower: float) -> dict[str, Any]:
        return one_channel(
            sample("s", [10.0], mu()), sample("b", [50.0]), observed=[40.0], mu={"bounds": [[lower, 10.0]]}
        )

    free, bounded = toys(deficit(-4.0), n_toys=200), toys(deficit(0.0), n_toys=200)
    assert free.q_obs == pytest.approx(bounded.q_obs, abs=1e-9)
    assert toys(deficit(-4.0), n_toys=200, test_stat="q").q_obs > free.q_obs + 0.1
    # Closed form of q_mu with n = 40, mu_hat = -1.
    n, tested = 40.0, 60.0
    assert toys(deficit(-4.0), n_toys=200, test_stat="q").q_obs == pytest.approx(
        2.0 * (tested - n - n * math.log(tested / n)), abs=1e-7
    )


def test_discovery_p_value_is_the_poisson_tail() -> None:
    result = toys(one_channel(sample("s", [5.0], mu()), sample("b", [3.0]), observed=[7.0]), test_stat="q0")
    exact = 1.0 - sum(math.exp(-3.0) * 3.0**k / math.factorial(k) for k in range(7))
    assert abs(result.p0 - exact) < 3.0 * result.p0_error
    assert result.z0 == pytest.approx(NormalDist().inv_cdf(1.0 - result.p0), abs=1e-9)
    assert result.cls is None


def test_fixed_auxiliary_data_make_the_background_certain_again() -> None:
    # With auxdata held, only n varies: CLs+b is a sum over n of a Poisson at the conditional fit's rate.
    result = toys(F2, aux="fixed")
    gamma = {1.0: 0.8315577, 0.0: 0.9615385}

    def q(n: float) -> float:
        def profile(value: float) -> float:
            # Stationary gamma of Pois(n | 5 mu + 10 gamma) Pois(16 | 16 gamma), tau = 16.
            a, b, c = 26.0 * 10.0, 26.0 * 5.0 * value - 10.0 * (n + 16.0), -16.0 * 5.0 * value
            g = (-b + math.sqrt(b * b - 4.0 * a * c)) / (2.0 * a)
            rate = 5.0 * value + 10.0 * g
            return rate - (n * math.log(rate) if n else 0.0) + 16.0 * g - 16.0 * math.log(g)

        best = max(0.0, (n - 10.0) / 5.0)
        return 0.0 if best > 1.0 else 2.0 * (profile(1.0) - profile(best))

    observed = q(9.0)
    exact = {}
    for value in (0.0, 1.0):
        rate = 5.0 * value + 10.0 * gamma[value]
        weights = [math.exp(-rate + n * math.log(rate) - math.lgamma(n + 1)) for n in range(80)]
        exact[value] = sum(w for n, w in enumerate(weights) if q(n) >= observed - 1e-6)
    assert abs(result.clsb - exact[1.0]) < 3.0 * result.clsb_error
    assert abs(result.clb - exact[0.0]) < 3.0 * result.clb_error


@pytest.mark.parametrize("name", TEST_STATISTICS)
def test_every_test_statistic_is_zero_at_its_own_best_fit(name: str) -> None:
    statistic = TEST_STATISTICS[name]
    import numpy as np

    tested = statistic.tested_mu(1.0)
    value = statistic.q(np.array([tested]), np.array([2.0]), np.array([2.0]), 1.0)
    assert value.tolist() == [0.0]


def test_a_band_from_nominal_parameters_knows_nothing_of_the_data() -> None:
    # Case C79: at nu = 1 instead of the fitted 3 the median of F6 is 0.182; the observed CLs stays 0.5412.
    result = toys(F6, expected_set=True, expected_from="nominal")
    band = result.expected_set
    assert band.expected_from == "nominal"
    assert abs(band.cls[2] - 0.182) < 4.0 * band.cls_error[2]
    assert abs(result.cls - 0.5412366) < 3.0 * result.cls_error


def test_bands_are_labelled_by_what_they_come_from(results: dict[str, Any]) -> None:
    assert results["F6"].to_dict()["expected_set"]["expected_from"] == "data"
