"""Ensembles of toys: sample, fit twice, q; a tile of toys at a time, on all threads of a plan."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np

from nsmath._typing import Array, IntArray
from nsmath.backends.transfers import phase
from nsmath.fitting.batch import PILOT, Setup, fit_columns, nominal_start, setup, with_pilot, z_index
from nsmath.fitting.minimiser import Columns, FitStatus, minimise
from nsmath.infer.sampling import ToySampler
from nsmath.infer.teststats import TestStatistic
from nsmath.plan.plan import Plan, Worker
from nsmath.store.ensemble import Ensemble, Work

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
        setting = setup(plan.exact.worker, model, at, mask, rates, aux, other_starts=(other,))
        settings.append(with_pilot(worker, setting, data, aux_toys, plan.tuned.newton_cost))
    logger.info(
        "ensemble %d: hand-over to exact Newton after %d (free) and %d (conditional) iterations",
        sampler.hypothesis, settings[0].tolerances.cheap, settings[1].tolerances.cheap,
    )  # fmt: skip
    return ToyStudy(sampler, statistic, mu, seed, settings[0], settings[1], poi)


def run_toys(plan: Plan, study: ToyStudy, toys: IntArray, known: Ensemble | None = None) -> tuple[Ensemble, Work]:
    """Return the results of the toys with these indices (ascending), one tile at most, on this thread.

    ``known`` are the same toys tested at another mu: their free fits are taken over.
    """
    worker = plan.worker
    with phase("sampling"):
        data, aux = study.sampler.draw(plan.backend_model, toys, study.seed)
    with phase("free fits"):
        free = fit_columns(worker, study.free, data, aux) if known is None else _free_fits_of(known, study)
    mu_hat = free.z[study.poi].copy()
    # Where q is 0 whatever the conditional fit gives, it is not made.
    is_zero = study.statistic.is_zero(mu_hat, study.mu) & (free.status == FitStatus.CONVERGED)
    need = np.flatnonzero(~is_zero)
    conditional_nll = np.full(len(toys), np.nan)
    conditional_status, conditional_iterations = np.zeros((2, len(toys)), dtype=np.int64)
    counts = [free] if known is None else []
    if len(need):
        with phase("conditional fits"):
            conditional = fit_columns(worker, study.conditional, data[:, need], aux[:, need])
        counts.append(conditional)
        with phase("free fits"):
            counts += _refit_free(worker, study, data, aux, free, conditional, need)
        mu_hat[need] = free.z[study.poi, need]
        conditional_nll[need] = conditional.nll
        conditional_status[need] = conditional.status
        conditional_iterations[need] = conditional.n_iterations
    bad = (free.status != FitStatus.CONVERGED) | (conditional_status != FitStatus.CONVERGED)
    q = study.statistic.q(mu_hat, free.nll, conditional_nll, study.mu)
    ensemble = Ensemble(
        index=toys, q=np.where(bad, np.nan, q), mu_hat=mu_hat, free_nll=free.nll, conditional_nll=conditional_nll,
        free_status=free.status, conditional_status=conditional_status, free_iterations=free.n_iterations,
        conditional_iterations=conditional_iterations,
    )  # fmt: skip
    work = Work(
        sum(len(c.nll) for c in counts), sum(c.n_robust for c in counts), sum(c.n_retried for c in counts),
        sum(c.n_evaluations for c in counts),
    )  # fmt: skip
    return ensemble, work


def _free_fits_of(known: Ensemble, study: ToyStudy) -> Columns:
    """Return the free fits of toys on record; of their parameters only the POI is known, and only that is needed."""
    columns = Columns.empty(len(study.free.fixed), 0, len(known))
    columns.z[:] = 0.0
    columns.z[study.poi], columns.nll[:] = known.mu_hat, known.free_nll
    columns.status[:], columns.n_iterations[:] = known.free_status, known.free_iterations
    return columns


def _refit_free(
    worker: Worker, study: ToyStudy, data: Any, aux: Any, free: Columns, conditional: Columns, need: IntArray
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
