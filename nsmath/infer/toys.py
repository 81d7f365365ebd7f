"""Ensembles of toys: sample, fit twice, q; a tile of toys at a time, on all threads of a plan."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from nsmath._typing import Array, BoolArray, IntArray
from nsmath.fitting.batch import PILOT, Setup, fit_columns, nominal_start, setup, with_pilot, z_index
from nsmath.fitting.minimiser import Columns, FitStatus, minimise
from nsmath.infer.sampling import ToySampler
from nsmath.infer.teststats import TestStatistic
from nsmath.plan.plan import Plan, Worker

logger = logging.getLogger("nsmath.toys")

Q_MISMATCH = 1e-6
"""A conditional fit this far (in q) below the free one shows that the free fit sits in another minimum."""


@dataclass(frozen=True, slots=True)
class ToyStudy:
    """The recipe of one ensemble.

    Attributes
    ----------
    sampler : what the toys are drawn from. statistic, mu : the test.
    free, conditional : the two fits of every toy.
    poi : minimised index of the POI.
    """

    sampler: ToySampler
    statistic: TestStatistic
    mu: float
    seed: int
    free: Setup
    conditional: Setup
    poi: int


@dataclass(frozen=True, slots=True)
class Ensemble:
    """Results by toy, each of shape (N,).

    Attributes
    ----------
    q : test statistic, NaN where a fit failed. mu_hat : best-fit POI.
    free_status, conditional_status : `FitStatus` numbers; the conditional fit is not needed where q is 0 whatever
        it gives, and counts as converged there.
    n_robust, n_retried, n_evaluations, n_fits : how much work it was.
    """

    q: Array
    mu_hat: Array
    free_status: IntArray
    conditional_status: IntArray
    n_robust: int
    n_retried: int
    n_evaluations: int
    n_fits: int

    @property
    def failed(self) -> BoolArray:
        """Toys without a trustworthy q."""
        failed: BoolArray = np.isnan(self.q)
        return failed

    def count(self, *statuses: FitStatus) -> int:
        """Return the number of toys of which a fit ended in one of these statuses."""
        numbers = [int(status) for status in statuses]
        return int(np.sum(np.isin(self.free_status, numbers) | np.isin(self.conditional_status, numbers)))

    @classmethod
    def joined(cls, parts: list[Ensemble]) -> Ensemble:
        """Return all parts as one, in their order."""

        def join(name: str) -> Any:
            return np.concatenate([getattr(part, name) for part in parts])

        return cls(
            join("q"), join("mu_hat"), join("free_status"), join("conditional_status"),
            *(sum(getattr(p, name) for p in parts) for name in ("n_robust", "n_retried", "n_evaluations", "n_fits")),
        )  # fmt: skip


def toy_study(
    plan: Plan, sampler: ToySampler, statistic: TestStatistic, mu: float, seed: int, start: Array,
    conditional_start: Array,
) -> ToyStudy:  # fmt: skip
    """Return the study of one ensemble, hand-overs decided by a pilot of its first toys.

    Parameters
    ----------
    start : (Z,) the truth; conditional_start : (Z,) the conditional fit to its Asimov data.
    """
    model, worker = plan.model, plan.worker
    poi = z_index(model, model.require_poi())
    nominal, fixed = nominal_start(model)
    held = fixed.copy()
    held[poi] = True
    nominal_held = nominal.copy()
    nominal_held[poi] = statistic.tested_mu(mu)
    rates, aux = sampler.rates, sampler.aux
    data, aux_toys = sampler.draw(plan.backend_model, np.arange(PILOT), seed)
    settings = []
    for at, mask, other in ((start, fixed, nominal), (conditional_start, held, nominal_held)):
        setting = setup(worker, model, at, mask, rates, aux, other_starts=(other,))
        settings.append(with_pilot(worker, setting, data, aux_toys, plan.tuned.newton_cost))
    logger.info(
        "ensemble %d: hand-over to exact Newton after %d (free) and %d (conditional) iterations",
        sampler.hypothesis, settings[0].tolerances.cheap, settings[1].tolerances.cheap,
    )  # fmt: skip
    return ToyStudy(sampler, statistic, mu, seed, settings[0], settings[1], poi)


def run_toys(plan: Plan, study: ToyStudy, toys: IntArray) -> Ensemble:
    """Return the results of the toys with these indices, on this thread."""
    return _run_tile(plan.worker, plan, study, toys)


def _run_tile(worker: Worker, plan: Plan, study: ToyStudy, toys: IntArray) -> Ensemble:
    data, aux = study.sampler.draw(plan.backend_model, toys, study.seed)
    free = fit_columns(worker, study.free, data, aux)
    mu_hat = free.z[study.poi].copy()
    # Where q is 0 whatever the conditional fit gives, it is not made.
    is_zero = study.statistic.is_zero(mu_hat, study.mu) & (free.status == FitStatus.CONVERGED)
    need = np.flatnonzero(~is_zero)
    conditional_nll = np.full(len(toys), np.nan)
    conditional_status = np.zeros(len(toys), dtype=np.int64)
    counts = [free]
    if len(need):
        conditional = fit_columns(worker, study.conditional, data[:, need], aux[:, need])
        counts.append(conditional)
        counts += _refit_free(worker, study, data, aux, free, conditional, need)
        mu_hat[need] = free.z[study.poi, need]
        conditional_nll[need] = conditional.nll
        conditional_status[need] = conditional.status
    bad = (free.status != FitStatus.CONVERGED) | (conditional_status != FitStatus.CONVERGED)
    q = study.statistic.q(mu_hat, free.nll, conditional_nll, study.mu)
    return Ensemble(
        q=np.where(bad, np.nan, q),
        mu_hat=mu_hat,
        free_status=free.status,
        conditional_status=conditional_status,
        n_robust=sum(c.n_robust for c in counts),
        n_retried=sum(c.n_retried for c in counts),
        n_evaluations=sum(c.n_evaluations for c in counts),
        n_fits=sum(len(c.nll) for c in counts),
    )


def _refit_free(
    worker: Worker, study: ToyStudy, data: Array, aux: Array, free: Columns, conditional: Columns, need: IntArray
) -> list[Columns]:
    """Repeat free fits from the conditional minimum where that lies lower, and take the better one.

    The free fit allows everything that the conditional one does, so this happens only when it has found a local
    minimum or none.
    """
    gain = 2.0 * (free.nll[need] - conditional.nll)
    lower = np.flatnonzero((gain > Q_MISMATCH) | (free.status[need] != FitStatus.CONVERGED))
    lower = lower[conditional.status[lower] == FitStatus.CONVERGED]
    if not len(lower):
        return []
    toys = need[lower]
    again = minimise(
        worker.cheap, worker.robust,
        study.free.problem(data[:, toys], aux[:, toys], np.ascontiguousarray(conditional.z[:, lower])),
    )  # fmt: skip
    better = (again.status == FitStatus.CONVERGED) & (
        (again.nll < free.nll[toys]) | (free.status[toys] != FitStatus.CONVERGED)
    )
    chosen = toys[better]
    free.z[:, chosen], free.nll[chosen] = again.z[:, better], again.nll[better]
    free.status[chosen] = again.status[better]
    again.n_retried += len(lower)
    return [again]


def run_ensembles(
    plan: Plan, studies: dict[str, ToyStudy], n_toys: int, progress: Callable[[int, int, str], None] | None = None
) -> dict[str, Ensemble]:
    """Return the ensembles of ``n_toys`` toys each, all of them spread over the plan's threads.

    Toy i belongs to tile i // width, whatever the number of threads.
    """
    width = plan.tuned.width

    def tasks() -> Iterator[tuple[str, int]]:
        for name in studies:
            for first in range(0, n_toys, width):
                yield name, first

    def run(worker: Worker, task: tuple[str, int]) -> tuple[str, int, Ensemble]:
        name, first = task
        toys = np.arange(first, min(first + width, n_toys))
        return name, first, _run_tile(worker, plan, studies[name], toys)

    parts: dict[str, dict[int, Ensemble]] = {name: {} for name in studies}
    done = 0
    for name, first, part in plan.each(run, tasks()):
        parts[name][first] = part
        done += len(part.q)
        if progress is not None:
            progress(done, n_toys * len(studies), "toys")
    return {name: Ensemble.joined([found[first] for first in sorted(found)]) for name, found in parts.items()}
