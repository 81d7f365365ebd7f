"""`ToyCalculator`: toy tests of one model at any mu, with one plan, one record of toys and one engine."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field

from nsmath.infer.engine import Engine, Threads
from nsmath.infer.ensembles import Progress, complete_ensembles
from nsmath.infer.observed import Observed, observed_fits, studies
from nsmath.infer.result import Provenance, ToyTestResult, tails, toy_test_result
from nsmath.infer.stopping import StoppingRule, Verdict
from nsmath.infer.teststats import TestStatistic
from nsmath.infer.toys import ToyStudy
from nsmath.model.model import Model
from nsmath.plan.plan import Plan
from nsmath.store.ensemble import Ensemble, Work
from nsmath.store.memory import MemoryRecord, ToyRecord
from nsmath.store.ranges import Range, shard_range
from nsmath.store.toystore import Identity

logger = logging.getLogger("nsmath.toys")


def study_identity(model: Model, statistic: TestStatistic, *, seed: int, aux: str) -> Identity:
    """Return what all toys of such a study have in common."""
    return Identity(
        model_digest=model.digest, measurement=model.measurement, poi=model.poi, interpolation=model.interp.to_dict(),
        test_stat=statistic.name, aux=aux, seed=seed, poi_max=model.poi_max,
    )  # fmt: skip


@dataclass
class ToyCalculator:
    """Makes the observed fits and the toys that a mu needs, and keeps them for the next.

    Attributes
    ----------
    plan : of the model. statistic, seed, aux : as in `hypotest_toys`.
    expected_from : what expected bands come from, ``data`` or ``nominal``; see `ExpectedSet`.
    record : where toys are kept; in memory when not given.
    engine : who computes them; the plan's threads when not given.
    """

    plan: Plan
    statistic: TestStatistic
    seed: int
    aux: str = "random"
    expected_from: str = "data"
    record: ToyRecord = field(default_factory=MemoryRecord)
    engine: Engine = field(default_factory=Threads)
    progress: Progress | None = None
    _observed: Observed | None = None

    @property
    def mu_hat(self) -> float:
        """Best-fit POI of the observed data."""
        if self._observed is None:
            self._observed = observed_fits(self._used, self.statistic, 0.0)
        return self._observed.mu_hat

    @property
    def _used(self) -> Plan:
        above = self.statistic.poi_above
        return self.plan if above is None else self.plan.with_poi_above(above)

    def at(
        self, mu: float, n_toys: int, *, expected: bool = False, rule: StoppingRule | None = None,
        shard: tuple[int, int] | None = None,
    ) -> ToyTestResult:  # fmt: skip
        """Return the test of ``mu`` with ``n_toys`` toys of each ensemble, or more if ``rule`` asks for them.

        Raises
        ------
        FitError
            An observed fit does not converge; a worker died.
        StoreError
            The record cannot keep the toys.
        """
        started = time.perf_counter()
        used = self._used
        logger.info("observed fits of %s = %g, %s (%s)", self.plan.model.poi, mu, self.statistic.symbol,
                    self.statistic.equation)  # fmt: skip
        self._observed = observed_fits(used, self.statistic, mu, self._observed)
        observed = {"q_obs": self._observed.q(self.statistic, mu), "mu_hat": self._observed.mu_hat}
        self.record.note_observed(mu, {"mu": mu, **observed})
        recipe = studies(
            used, self._observed, self.statistic, mu, seed=self.seed, fluctuates=self.aux == "random",
            nominal=expected and self.expected_from == "nominal",
        )  # fmt: skip
        fitted = time.perf_counter()
        logger.info("toys of each ensemble: %d, seed %d, q_obs = %.9g", n_toys, self.seed, observed["q_obs"])
        wanted = (0, n_toys) if shard is None else shard_range(shard, n_toys)
        work, ensembles, verdict = self._completed(used, recipe, wanted, observed["q_obs"], rule)
        seconds = time.perf_counter() - fitted
        n_fits = sum(part.fits for part in work.values())
        for name, part in work.items():
            logger.info(
                "ensemble %s: %d fits, %d by exact Newton, %d retried, %d toys failed, %.1f evaluations a fit",
                name, part.fits, part.exact_newton, part.retried, ensembles[name].n_failed,
                part.evaluations / max(part.fits, 1),
            )  # fmt: skip
        n_all = sum(len(ensemble) for ensemble in ensembles.values())
        timing = {
            "observed_seconds": fitted - started,
            "toys_seconds": seconds,
            "toys_per_second": n_all / seconds if n_fits else 0.0,
        }
        return toy_test_result(
            self.statistic, mu, observed, ensembles, self.provenance(), expected=expected, work=work, timing=timing,
            stopping=(rule, verdict) if rule is not None and verdict is not None else None, shard=shard,
        )  # fmt: skip

    def _completed(
        self, plan: Plan, recipe: dict[str, ToyStudy], wanted: Range, q_obs: float, rule: StoppingRule | None
    ) -> tuple[dict[str, Work], dict[str, Ensemble], Verdict | None]:
        work = {name: Work() for name in recipe}
        mu = next(iter(recipe.values())).mu
        while True:
            took = complete_ensembles(plan, recipe, wanted, self.record, self.engine, self.progress)
            work = {name: work[name] + took[name] for name in work}
            ensembles = {name: self.record.toys((mu, name), wanted) for name in recipe}
            if rule is None:
                return work, ensembles, None
            clsb, clb = tails(self.statistic, ensembles, q_obs)
            verdict = rule.verdict(clsb, None if self.statistic.tests_null else clb)
            n = wanted[1]
            logger.info("%d toys of each ensemble are there, %.4g are needed: %s", n, verdict.needed, verdict)
            if verdict.reached or n >= rule.max_toys:
                return work, ensembles, verdict
            wanted = (wanted[0], rule.next_toys(verdict, n))

    def provenance(self) -> Provenance:
        """Return where the results come from."""
        plan = self.plan
        return Provenance(
            poi=plan.model.poi, poi_max=plan.model.poi_max, measurement=plan.model.measurement,
            interpolation=plan.model.interp.to_dict(), model_digest=plan.model.digest,
            versions=plan.versions, **plan.origin,
            threads=plan.threads if isinstance(self.engine, Threads) else None, tile_width=plan.tuned.width,
            seed=self.seed, aux=self.aux,
            transfers=plan.ledger.to_dict() if isinstance(self.engine, Threads) else None,
        )  # fmt: skip
