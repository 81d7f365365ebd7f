"""What a study can compute at its points: one row for each task."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

from nsmath.infer.calculator import ToyCalculator
from nsmath.infer.hypotest import checked_options
from nsmath.infer.result import ToyTestResult, untrusted
from nsmath.infer.stopping import StoppingRule
from nsmath.infer.teststats import TestStatistic
from nsmath.infer.toy_limit import ToyLimitResult, checked_level, checked_statistic, limits_by_toys
from nsmath.model.model import Model
from nsmath.summary import Result

TYPICAL_SEARCH = 10
"""Values of mu that the search for limits takes; progress only."""

Settings = Mapping[str, Any]
"""The keys of a point with their values: its own, else those of the study, else the defaults."""


Outcome: TypeAlias = Result
"""What a task gives at one point."""


class Task(Protocol):
    """One kind of study. A point has one or more jobs, such as values of mu."""

    needs: tuple[str, ...]
    """Keys without default that it cannot do without."""
    columns: tuple[str, ...]
    """Columns of the table that `cells` fills."""

    def jobs(self, settings: Settings) -> tuple[float, ...]:
        """Return the jobs of a point, each the value of mu that stands in the table."""

    def n_toys(self, settings: Settings) -> int:
        """Return the toys that one job throws, as far as they are known before it is done."""

    def checked(self, model: Model, settings: Settings, job: float) -> TestStatistic:
        """Return the test statistic of a job that can be done; raises `NsmathError` where it cannot."""

    def outcome(self, calculator: ToyCalculator, settings: Settings, job: float) -> tuple[Outcome, str | None]:
        """Return the result of a job, and why it is not to be trusted if it is not."""

    def cells(self, outcome: Any) -> dict[str, Any]:
        """Return the cells of the table, by column."""


class HypotestToys:
    """CLs of every mu by toys."""

    needs: tuple[str, ...] = ("mu",)
    columns: tuple[str, ...] = (
        "cls", "cls_error", "cls_upper", "clsb", "clsb_error", "clb", "clb_error", "q_obs", "mu_hat", "p0", "p0_error",
        "expected_m2", "expected_m1", "expected_median", "expected_p1", "expected_p2", "expected_median_error",
        "expected_median_upper", "n_toys_b", "n_toys_sb", "failed",
    )  # fmt: skip

    def jobs(self, settings: Settings) -> tuple[float, ...]:
        """Return the values of mu."""
        values: tuple[float, ...] = settings["mu"]
        return values

    def n_toys(self, settings: Settings) -> int:
        """Return the toys of both ensembles; a stopping rule may ask for more."""
        return 2 * int(settings["n_toys"])

    def checked(self, model: Model, settings: Settings, job: float) -> TestStatistic:
        """Return the test statistic of a mu that can be tested."""
        names = ("n_toys", "seed", "test_stat", "aux")
        return checked_options(model, mu=job, **{name: settings[name] for name in names})

    def outcome(self, calculator: ToyCalculator, settings: Settings, job: float) -> tuple[ToyTestResult, str | None]:
        """Return the test of one mu, without its toys: those of a whole study would fill the memory."""
        result = calculator.at(job, settings["n_toys"], expected=settings["expected_set"], rule=stopping_rule(settings))
        return replace(result, ensembles={}), untrusted(result)

    def cells(self, outcome: ToyTestResult) -> dict[str, Any]:
        """Return the cells of one mu."""
        same = ("cls", "cls_error", "cls_upper", "clsb", "clsb_error", "clb", "clb_error", "q_obs", "mu_hat", "p0",
                "p0_error")  # fmt: skip
        cells: dict[str, Any] = {name: getattr(outcome, name) for name in same}
        if outcome.expected_set is not None:
            # Its order is that of rising CLs: a background fluctuated downward comes first.
            edges = ("m2", "m1", "median", "p1", "p2")
            cells |= {f"expected_{edge}": x for edge, x in zip(edges, outcome.expected_set.cls, strict=True)}
            middle = edges.index("median")
            cells["expected_median_error"] = outcome.expected_set.cls_error[middle]
            cells["expected_median_upper"] = outcome.expected_set.cls_upper[middle]
        failed = sum(outcome.n_nonconverged.values()) + sum(outcome.n_error.values())
        return {**cells, "n_toys_b": outcome.n_toys["b"], "n_toys_sb": outcome.n_toys["sb"], "failed": failed}


class UpperLimit:
    """Upper limits by toys: one job, at no mu in particular."""

    needs: tuple[str, ...] = ()
    columns: tuple[str, ...] = (
        "cl", "limit", "limit_error", "limit_beyond", "mu_hat", "expected_m2", "expected_m1", "expected_median",
        "expected_p1", "expected_p2", "expected_median_error", "n_mu", "n_toys_b", "n_toys_sb", "failed",
    )  # fmt: skip

    def jobs(self, settings: Settings) -> tuple[float, ...]:
        """Return the one job; mu is what it looks for."""
        return (math.nan,)

    def n_toys(self, settings: Settings) -> int:
        """Return about as many toys as the search takes."""
        return 2 * int(settings["n_toys"]) * TYPICAL_SEARCH

    def checked(self, model: Model, settings: Settings, job: float) -> TestStatistic:
        """Return the test statistic of a limit that can be set."""
        names = ("n_toys", "seed", "test_stat", "aux")
        checked_level(settings["cl"])
        statistic = checked_options(model, mu=0.0, **{name: settings[name] for name in names})
        checked_statistic(statistic)
        return statistic

    def outcome(self, calculator: ToyCalculator, settings: Settings, job: float) -> tuple[ToyLimitResult, str | None]:
        """Return the limits, without their toys."""
        result = limits_by_toys(calculator, settings["n_toys"], cl=settings["cl"])
        reasons = [reason for point in result.points if (reason := untrusted(point)) is not None]
        points = tuple(replace(point, ensembles={}) for point in result.points)
        return replace(result, points=points), reasons[0] if reasons else None

    def cells(self, outcome: ToyLimitResult) -> dict[str, Any]:
        """Return the cells of the limits."""
        edges = zip(("m2", "m1", "median", "p1", "p2"), outcome.expected, strict=True)
        failed = sum(sum(p.n_nonconverged.values()) + sum(p.n_error.values()) for p in outcome.points)
        return {
            "cl": outcome.cl, "limit": outcome.observed.mu, "limit_error": outcome.observed.error,
            "limit_beyond": outcome.observed.beyond, "mu_hat": outcome.points[0].mu_hat,
            **{f"expected_{edge}": crossing.mu for edge, crossing in edges},
            "expected_median_error": outcome.expected[2].error, "n_mu": len(outcome.points),
            "n_toys_b": sum(p.n_toys["b"] for p in outcome.points),
            "n_toys_sb": sum(p.n_toys["sb"] for p in outcome.points), "failed": failed,
        }  # fmt: skip


def stopping_rule(settings: Settings) -> StoppingRule | None:
    """Return the rule that a point's keys mean; None for a given number of toys.

    Raises
    ------
    OptionError
        Out of range.
    """
    return StoppingRule.of(
        settings["cls_error"], settings["decide"], n_sigma=settings["sigmas"], n_toys=settings["n_toys"],
        max_toys=settings["max_toys"],
    )  # fmt: skip


TASKS: dict[str, Task] = {"hypotest-toys": HypotestToys(), "upper-limit": UpperLimit()}
"""Name of the task in a study file -> what does it."""
