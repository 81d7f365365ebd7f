"""One toy, drawn again and fitted, with everything one wants to know of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nsmath._typing import Array
from nsmath.errors import OptionError
from nsmath.fitting.batch import fit_columns, theta_of
from nsmath.fitting.minimiser import FitStatus
from nsmath.infer.observed import observed_fits, studies
from nsmath.infer.sampling import HYPOTHESES
from nsmath.infer.teststats import TestStatistic
from nsmath.infer.toys import run_toys
from nsmath.plan.plan import Plan
from nsmath.summary import Result, Summary


@dataclass(frozen=True, slots=True, repr=False)
class ToyFit(Result):
    """A fit of the toy: ``values`` (P,), ``nll`` relative to the saturated model."""

    values: Array
    nll: float
    status: FitStatus
    n_iterations: int
    exact_newton: bool

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        return {
            "values": [float(v) for v in self.values], "nll": self.nll, "status": self.status.name.lower(),
            "status_message": self.status.message, "n_iterations": self.n_iterations,
            "exact_newton": self.exact_newton,
        }  # fmt: skip

    def summary(self) -> Summary:
        """Return NLL and how the fit ended."""
        facts = (("status", self.status.message), ("NLL, saturated", f"{self.nll:.6g}"),
                 ("iterations", f"{self.n_iterations}{', exact Newton' if self.exact_newton else ''}"))  # fmt: skip
        return Summary("fit of a toy", facts)


@dataclass(frozen=True, slots=True, repr=False)
class SingleToy(Result):
    """Toy ``index`` of one hypothesis.

    Attributes
    ----------
    data, auxdata : (B,), (A,) drawn; expected_data, expected_auxdata : what they were drawn from.
    q : as the study has it, after all retries; None where it failed.
    free, conditional : plain fits from the study's start, without what the study does next for those that fail.
    """

    index: int
    hypothesis: str
    mu_test: float
    seed: int
    test_stat: str
    q: float | None
    mu_hat: float
    names: tuple[str, ...]
    channels: dict[str, int]
    data: Array
    auxdata: Array
    expected_data: Array
    expected_auxdata: Array
    free: ToyFit
    conditional: ToyFit

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        plain = ("index", "hypothesis", "mu_test", "seed", "test_stat", "q", "mu_hat")
        arrays = ("data", "auxdata", "expected_data", "expected_auxdata")
        return {
            **{name: getattr(self, name) for name in plain}, "names": list(self.names), "channels": self.channels,
            **{name: getattr(self, name).tolist() for name in arrays},
            "free": self.free.to_dict(), "conditional": self.conditional.to_dict(),
        }  # fmt: skip

    def summary(self) -> Summary:
        """Return q and how the fits ended, and a table of both fits."""
        facts = (
            ("q", "failed" if self.q is None else f"{self.q:.6g}"),
            ("best fit", f"{self.mu_hat:.5g}"),
            ("free fit", self.free.status.message),
            ("conditional fit", self.conditional.status.message),
        )
        pairs = zip(self.names, self.free.values, self.conditional.values, strict=True)
        rows = tuple((name, f"{free:.5g}", f"{held:.5g}") for name, free, held in pairs)
        title = f"toy {self.index} of hypothesis {self.hypothesis}, seed {self.seed}, mu = {self.mu_test:g}"
        return Summary(title, facts, ("parameter", "free fit", "conditional fit"), rows)


def single_toy(
    plan: Plan, statistic: TestStatistic, mu: float, *, hypothesis: str, index: int, seed: int, aux: str = "random"
) -> SingleToy:
    """Return toy ``index`` of ``hypothesis`` (see `HYPOTHESES`): the one that `hypotest_toys` throws there.

    Raises
    ------
    OptionError
        Unknown hypothesis, negative index.
    FitError
        An observed fit does not converge.
    """
    if hypothesis not in HYPOTHESES:
        raise OptionError(f"hypothesis is {hypothesis!r}; expected one of {', '.join(HYPOTHESES)}.")
    if index < 0:
        raise OptionError(f"index is {index}; expected a whole number from 0 on.")
    used = plan if statistic.poi_above is None else plan.with_poi_above(statistic.poi_above)
    recipe = studies(
        used,
        observed_fits(used, statistic, mu),
        statistic,
        mu,
        seed=seed,
        fluctuates=aux == "random",
        nominal=hypothesis.endswith("nominal"),
    )
    study = recipe[hypothesis]
    toys = np.array([index])
    result, _ = run_toys(used, study, toys)
    data, auxdata = study.sampler.draw(used.backend_model, toys, seed)

    def fitted(which: str) -> ToyFit:
        columns = fit_columns(used.worker, getattr(study, which), data, auxdata)
        return ToyFit(
            theta_of(used.model, columns)[0], float(columns.nll[0]), FitStatus(int(columns.status[0])),
            int(columns.n_iterations[0]), bool(columns.is_robust[0]),
        )  # fmt: skip

    return SingleToy(
        index=index, hypothesis=hypothesis, mu_test=mu, seed=seed, test_stat=statistic.name,
        q=None if result.failed[0] else float(result.q[0]), mu_hat=float(result.mu_hat[0]), names=plan.model.names,
        channels=dict(plan.model.channels), data=data[:, 0], auxdata=auxdata[:, 0],
        expected_data=study.sampler.rates, expected_auxdata=study.sampler.aux, free=fitted("free"),
        conditional=fitted("conditional"),
    )  # fmt: skip
