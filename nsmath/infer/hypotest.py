"""`hypotest_toys`: CLs (or a discovery p-value) of one value of the parameter of interest, by toys."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

from nsmath.errors import ModelError, OptionError
from nsmath.fitting.minimiser import FitStatus
from nsmath.infer.observed import checked_mu, observed_fits, studies
from nsmath.infer.pvalues import NSIGMA_ORDER, Tail, expected_band, ratio, tail
from nsmath.infer.teststats import TestStatistic, test_statistic
from nsmath.infer.toys import Ensemble, run_ensembles
from nsmath.model.model import Model
from nsmath.plan.plan import Plan

logger = logging.getLogger("nsmath.toys")

AUX_CHOICES = ("random", "fixed")
MAX_TOYS = 2**48


@dataclass(frozen=True, slots=True)
class ExpectedSet:
    """The band that background alone would give: an entry for each of ``nsigma_order``; see `expected_band`."""

    nsigma_order: tuple[int, ...]
    cls: tuple[float | None, ...]
    cls_error: tuple[float | None, ...]
    cls_upper: tuple[float | None, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        return {name: list(getattr(self, name)) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class ToyTestResult:
    """Outcome of a toy-based test; numbers that toys cannot give are None, with a bound beside them.

    Attributes
    ----------
    clsb, clb, cls : p-values of the tested and of the background hypothesis, and their ratio; for ``q0`` clsb is
        the p-value of mu = 0, clb that of the alternative, and cls is None.
    clsb_error, clb_error, cls_error : statistical standard errors; None where a tail is empty or full.
    clsb_upper, cls_upper : one-sided 95 % C.L. upper limits where the s+b tail is empty.
    bracket : (lowest, highest) cls with failed toys counted either way; None without failures.
    ensembles : q, mu_hat and statuses by toy, keys ``b`` and ``sb``.
    """

    mu_test: float
    mu_hat: float
    q_obs: float
    clsb: float | None
    clb: float | None
    cls: float | None
    clsb_error: float | None
    clb_error: float | None
    cls_error: float | None
    clsb_upper: float | None
    cls_upper: float | None
    bracket: tuple[float | None, float | None] | None
    expected_set: ExpectedSet | None
    p0: float | None
    p0_error: float | None
    p0_upper: float | None
    z0: float | None
    n_toys: dict[str, int]
    n_nonconverged: dict[str, int]
    n_error: dict[str, int]
    seed: int
    test_stat: str
    aux: str
    poi: str
    measurement: str
    interpolation: dict[str, str]
    model_digest: str
    versions: dict[str, str]
    backend: str
    threads: int
    tile_width: int
    timing: dict[str, float]
    fits: dict[str, dict[str, int]]
    ensembles: dict[str, Ensemble] = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON, without the toys themselves."""
        names = [name for name in self.__slots__ if name not in ("ensembles", "expected_set", "bracket")]
        result: dict[str, Any] = {name: getattr(self, name) for name in names}
        result["expected_set"] = self.expected_set.to_dict() if self.expected_set else None
        result["cls_bracket"] = list(self.bracket) if self.bracket else None
        return result

    def __repr__(self) -> str:
        def shown(value: float | None, error: float | None) -> str:
            return "undefined" if value is None else f"{value:.4g}" + (f" +- {error:.2g}" if error else "")

        return (
            f"ToyTestResult({self.poi}={self.mu_test:g}, CLs={shown(self.cls, self.cls_error)}, "
            f"q_obs={self.q_obs:.6g}, toys {self.n_toys['b']} + {self.n_toys['sb']})"
        )


def checked_options(model: Model, *, mu: float, n_toys: int, seed: int, test_stat: str, aux: str) -> TestStatistic:
    """Return the test statistic of options that all make sense.

    Raises
    ------
    OptionError, ModelError
        What is wrong, and what was expected.
    """
    statistic = test_statistic(test_stat)
    if aux not in AUX_CHOICES:
        raise OptionError(f"aux is {aux!r}; expected one of {', '.join(AUX_CHOICES)}.")
    if isinstance(n_toys, bool) or int(n_toys) != n_toys or not 1 <= n_toys < MAX_TOYS:
        raise OptionError(f"n_toys is {n_toys!r}; expected a whole number from 1 on.")
    if isinstance(seed, bool) or int(seed) != seed or not 0 <= seed < 2**64:
        raise OptionError(f"seed is {seed!r}; expected a whole number from 0 to 2^64 - 1.")
    checked_mu(model, mu)
    return statistic


def hypotest_toys(
    model: Model,
    mu: float = 1.0,
    *,
    n_toys: int = 1000,
    seed: int = 0,
    test_stat: str = "qtilde",
    aux: str = "random",
    expected_set: bool = False,
    threads: int | None = None,
    plan: Plan | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> ToyTestResult:
    """Return the toy-based test of ``mu``.

    Phase A fits the observed data freely, at mu and at 0; phase B throws ``n_toys`` toys at each of the two
    conditional fits and fits every one. Toys depend on (seed, ensemble, index) alone.

    Parameters
    ----------
    test_stat : ``qtilde``, ``q`` (upper limits) or ``q0`` (discovery; mu is then the alternative).
    aux : ``random``: auxiliary data fluctuate with the toys; ``fixed``: they stay as observed.
    expected_set : also the band of CLs expected from background alone.
    plan : a plan of this model; made for the call, tuned or from the cache, when None.
    progress : called with (toys done, toys in all, phase).

    Raises
    ------
    OptionError, ModelError, FitError
        Bad options, no POI, an observed fit that does not converge.
    """
    statistic = checked_options(model, mu=mu, n_toys=n_toys, seed=seed, test_stat=test_stat, aux=aux)
    mu = float(mu)
    if plan is None:
        with Plan(model, threads=threads) as own:
            return hypotest_toys(
                model, mu, n_toys=n_toys, seed=seed, test_stat=test_stat, aux=aux, expected_set=expected_set,
                plan=own, progress=progress,
            )  # fmt: skip
    if plan.model.digest != model.digest:
        raise ModelError("the plan was made for another model; make one with Plan(model).")
    used = plan if statistic.poi_above is None else plan.with_poi_above(statistic.poi_above)
    started = time.perf_counter()
    logger.info("phase A: observed fits of %s = %g, %s (%s)", model.poi, mu, statistic.symbol, statistic.equation)
    observed = observed_fits(used, statistic, mu)
    study = studies(used, observed, statistic, mu, seed=int(seed), fluctuates=aux == "random")
    fitted = time.perf_counter()
    logger.info("phase B: %d toys of each ensemble, seed %d, q_obs = %.9g", n_toys, seed, observed.q)
    ensembles = run_ensembles(used, study, int(n_toys), progress)
    finished = time.perf_counter()
    for name, ensemble in ensembles.items():
        logger.info(
            "ensemble %s: %d fits, %d by exact Newton, %d retried, %d toys failed, %.1f evaluations a fit",
            name, ensemble.n_fits, ensemble.n_robust, ensemble.n_retried, int(ensemble.failed.sum()),
            ensemble.n_evaluations / max(ensemble.n_fits, 1),
        )  # fmt: skip
    timing = {
        "observed_seconds": fitted - started,
        "toys_seconds": finished - fitted,
        "toys_per_second": 2 * n_toys / (finished - fitted),
    }
    return _result(
        plan, statistic, mu, ensembles, expected_set, mu_hat=observed.mu_hat, q_obs=observed.q, seed=int(seed),
        aux=aux, timing=timing,
    )  # fmt: skip


def _result(
    plan: Plan, statistic: TestStatistic, mu: float, ensembles: dict[str, Ensemble], expected: bool, *,
    mu_hat: float, q_obs: float, seed: int, aux: str, timing: dict[str, float],
) -> ToyTestResult:  # fmt: skip
    tested, other = ("b", "sb") if statistic.tests_null else ("sb", "b")
    good = {name: ensemble.q[~ensemble.failed] for name, ensemble in ensembles.items()}
    n_failed = {name: int(ensemble.failed.sum()) for name, ensemble in ensembles.items()}
    clsb, clb = tail(good[tested], q_obs), tail(good[other], q_obs)
    cls, cls_error, cls_upper = (None, None, None) if statistic.tests_null else ratio(clsb, clb)
    bands = None
    if expected and not statistic.tests_null and len(good["b"]) and len(good["sb"]):
        cls_values, errors, uppers = expected_band(good["b"], good["sb"])
        bands = ExpectedSet(NSIGMA_ORDER, tuple(cls_values), tuple(errors), tuple(uppers))
    p0 = clsb if statistic.tests_null else None
    model = plan.model
    return ToyTestResult(
        mu_test=mu,
        mu_hat=mu_hat,
        q_obs=q_obs,
        clsb=_defined(clsb),
        clb=_defined(clb),
        cls=cls,
        clsb_error=clsb.error,
        clb_error=clb.error,
        cls_error=cls_error,
        clsb_upper=clsb.upper,
        cls_upper=cls_upper,
        bracket=_bracket(clsb, clb, n_failed[tested], n_failed[other]) if sum(n_failed.values()) else None,
        expected_set=bands,
        p0=_defined(p0) if p0 else None,
        p0_error=p0.error if p0 else None,
        p0_upper=p0.upper if p0 else None,
        z0=-NormalDist().inv_cdf(p0.p) if p0 and 0 < p0.n_tail < p0.n else None,
        n_toys={name: len(ensembles[name].q) for name in ("b", "sb")},
        n_nonconverged={
            name: ensembles[name].count(FitStatus.MAX_ITERATIONS, FitStatus.NO_DECREASE) for name in ("b", "sb")
        },
        n_error={name: ensembles[name].count(FitStatus.OUT_OF_DOMAIN) for name in ("b", "sb")},
        seed=seed,
        test_stat=statistic.name,
        aux=aux,
        poi=model.poi,
        measurement=model.measurement,
        interpolation=model.interp.to_dict(),
        model_digest=model.digest,
        versions=plan.versions,
        backend=plan.backend,
        threads=plan.threads,
        tile_width=plan.tuned.width,
        timing={name: round(value, 6) for name, value in timing.items()},
        fits={
            name: {
                "fits": e.n_fits, "exact_newton": e.n_robust, "retried": e.n_retried, "evaluations": e.n_evaluations
            }
            for name, e in ensembles.items()
        },
        ensembles=ensembles,
    )  # fmt: skip


def _defined(p: Tail) -> float | None:
    """Return the p-value; None where no toy is left, or the tail is empty (its bound says what is known)."""
    return p.p if p.n and p.n_tail else None


def _bracket(clsb: Tail, clb: Tail, failed_sb: int, failed_b: int) -> tuple[float | None, float | None]:
    """Return the lowest and the highest CLs that failed toys allow: all in a tail, or none of them."""
    n_sb, n_b = clsb.n + failed_sb, clb.n + failed_b
    low = (clsb.n_tail / n_sb) / ((clb.n_tail + failed_b) / n_b) if clb.n_tail + failed_b and n_sb else None
    high = ((clsb.n_tail + failed_sb) / n_sb) / (clb.n_tail / n_b) if clb.n_tail and n_sb else None
    return low, high
