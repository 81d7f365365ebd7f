"""Studies stop when the rule is satisfied, and not before."""

from __future__ import annotations

from typing import Any

import pytest
from workspaces import document, modifier, mu, sample

from nsmath.errors import OptionError
from nsmath.infer.hypotest import hypotest_toys
from nsmath.infer.pvalues import Tail
from nsmath.infer.result import ToyTestResult
from nsmath.infer.stopping import StoppingRule
from nsmath.model.model import Model
from nsmath.plan.plan import Plan
from nsmath.plan.tuned import Tuned


def toy_test(mu_test: float, rule: StoppingRule, observed: float = 9.0, **options: Any) -> ToyTestResult:
    # F2 of the trouble cases: CLs(1) is 0.193396, CLs(2) is 0.017153, exactly.
    spec = document(
        {"SR": [sample("s", [5.0], mu()), sample("b", [10.0], modifier("e", "shapesys", [2.5]))]}, {"SR": [observed]}
    )
    model = Model.from_workspace(spec)
    with Plan(model, tuned=Tuned(512, 16, 8.0)) as plan:
        return hypotest_toys(model, mu_test, n_toys=500, stop=rule, plan=plan, **options)


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        (StoppingRule(error=0.006), 0.006),
        (StoppingRule(relative_error=0.04), 0.04 * 0.2),
        # Case C97: the stricter of two.
        (StoppingRule(error=0.1, relative_error=0.04), 0.04 * 0.2),
        (StoppingRule(error=0.006, relative_error=0.5), 0.006),
    ],
)
def test_the_error_that_was_asked_for_is_reached(rule: StoppingRule, error: float) -> None:
    result = toy_test(1.0, rule)
    assert result.stopping is not None
    assert result.stopping["reached"]
    assert 0.5 * error < (result.cls_error or 1.0) <= error
    assert abs((result.cls or 0.0) - 0.1933962) < 4 * error


@pytest.mark.parametrize(("mu_test", "decision"), [(1.0, "above"), (2.0, "below"), (4.0, "below")])
def test_a_clear_case_is_decided_with_few_toys(mu_test: float, decision: str) -> None:
    result = toy_test(mu_test, StoppingRule(decide=0.05))
    assert result.stopping is not None
    assert (result.stopping["reached"], result.stopping["decision"]) == (True, decision)
    assert result.n_toys["b"] < 8000


def test_a_case_that_cannot_be_decided_stops_at_the_limit_and_says_so() -> None:
    result = toy_test(1.0, StoppingRule(decide=0.1933962, n_sigma=5.0, max_toys=3000))
    assert result.stopping is not None
    assert (result.stopping["reached"], result.stopping["decision"]) == (False, None)
    assert result.n_toys == {"b": 3000, "sb": 3000}


def test_a_discovery_test_stops_by_its_own_p_value() -> None:
    result = toy_test(1.0, StoppingRule(error=0.01), 14.0, test_stat="q0")
    assert result.cls is None
    assert (result.p0_error or 1.0) <= 0.01


def test_an_empty_tail_decides_by_its_bound_only() -> None:
    rule = StoppingRule(decide=0.05)
    # (1 - 0.05 CLb)^n must fall below the one-sided probability of 3 sigma, 0.00135: n = 173.
    assert not rule.verdict(Tail(0, 172), Tail(129, 172)).reached
    verdict = rule.verdict(Tail(0, 176), Tail(132, 176))
    assert (verdict.reached, verdict.decision) == (True, "below")
    # Without a background tail nothing can be said at all.
    assert not rule.verdict(Tail(0, 10**6), Tail(0, 10**6)).reached


def test_a_full_tail_is_as_exact_as_toys_can_tell() -> None:
    verdict = StoppingRule(error=0.001, decide=0.05).verdict(Tail(100, 100), Tail(100, 100))
    assert (verdict.reached, verdict.value, verdict.error) == (True, 1.0, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs an error"),
        ({"error": 0.0}, "error is 0; expected a number between 0 and 1"),
        ({"decide": 1.5}, "decide is 1.5; expected a number between 0 and 1"),
        ({"decide": 0.05, "n_sigma": -1.0}, "n_sigma is -1"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        StoppingRule(**options)
