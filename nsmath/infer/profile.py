"""Conditional fits around one best fit: any parameters held at any values, every fit a column of one batch.

Scans, intervals and impacts are all questions to these fits.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from nsmath._typing import Array, BoolArray, IntArray
from nsmath.errors import FitError, ModelError, OptionError
from nsmath.fitting.batch import Setup, best_fit, fit_columns, nominal_start, setup, theta_of, z_index
from nsmath.fitting.fit import FIT_TOLERANCES, FitResult, fit
from nsmath.fitting.minimiser import Columns, FitStatus, Tolerances
from nsmath.model.likelihood import nll_constant
from nsmath.model.model import Model
from nsmath.plan.plan import Plan, Worker

logger = logging.getLogger("nsmath.profile")

TOLERANCES = Tolerances(decrement=1e-11, scaled=1e-4)
"""2 delta NLL is right to 1e-9 or so: a step of a scan near the minimum is itself small."""
LOWER = 1e-7
"""A conditional fit this far (in NLL) below the free one shows that the free one is not the minimum."""
LEAST_COLUMNS = 8
"""Fewer columns than this are not worth another thread."""
SINGLE_WIDTH = 256
"""Columns of the plan that is made for one call."""


@dataclass(frozen=True, slots=True)
class ConditionalFits:
    """N fits with some parameters held.

    Attributes
    ----------
    theta : (N, P) all parameters. twice_delta_nll : (N,) rise of -2 ln L above the best fit.
    status : (N,) `FitStatus` numbers.
    """

    theta: Array
    twice_delta_nll: Array
    status: IntArray

    @property
    def converged(self) -> BoolArray:
        """(N,) which fits can be trusted."""
        converged: BoolArray = self.status == int(FitStatus.CONVERGED)
        return converged


class ProfileLikelihood:
    """The best fit of a model to its observed data, and conditional fits around it.

    Parameters
    ----------
    plan : of the model.
    held : names of the parameters that conditional fits will hold; where one of them is profiled in closed form, all
        fits are made with every parameter minimised.

    Attributes
    ----------
    best : the free fit, with the exact Hessian's covariance.
    theta : (P,) its parameters, or those of a lower minimum that a conditional fit has led to (`refit`).
    is_refitted : whether it has.

    Raises
    ------
    ModelError
        Unknown name.
    OptionError
        A parameter that is fixed in the measurement.
    FitError
        The free fit does not converge.
    """

    def __init__(self, plan: Plan, held: Iterable[str]) -> None:
        model = plan.model
        indices = [model.index_of(name) for name in held]
        for index in indices:
            checked_free(model, index)
        self.best: FitResult = fit(model, plan=plan)
        if self.best.status != FitStatus.CONVERGED:
            raise FitError(
                f"the free fit to the observed data failed: {self.best.status.message}. `nsmath fit` shows more."
            )
        self.model, self.theta, self.is_refitted = model, self.best.values.copy(), False
        minimised = set(model.tensors.parameter.tolist())
        self.plan = plan if minimised.issuperset(indices) else plan.unprofiled
        t = self.plan.model.tensors
        self._parameter = t.parameter
        self._constant = float(nll_constant(t, t.observed[None], t.aux_observed[None])[0])
        self.nll = self.best.nll - self._constant
        self._start, self._mask = nominal_start(self.plan.model)
        self._shared: dict[bytes, Setup] = {}

    def position(self, index: int) -> int:
        """Return the position of a parameter (of P) among the minimised ones."""
        return z_index(self.plan.model, index)

    def conditional(self, held: IntArray, values: Array, starts: Array | None = None) -> ConditionalFits:
        """Return the fits with parameters held, all at once on all threads of the plan.

        Parameters
        ----------
        held : (K,) or (N, K) positions (of P) of the held parameters, the same ones or others in every fit.
        values : (N, K) where they are held, within their bounds.
        starts : (N, P) where the fits start; on the line on which the Hessian expects the minimum if not given.
        """
        values = np.asarray(values, dtype=float)
        n = len(values)
        each = np.broadcast_to(np.atleast_2d(held), (n, values.shape[1]))
        theta = self.expected(each, values) if starts is None else starts.copy()
        np.put_along_axis(theta, each, values, axis=1)
        mask = np.zeros((n, len(self.theta)), dtype=bool)
        np.put_along_axis(mask, each, True, axis=1)
        fixed = mask[:, self._parameter].T | self._mask[:, None]
        z = np.ascontiguousarray(theta[:, self._parameter].T)
        shared = self._setup(fixed[:, 0] if (fixed == fixed[:, :1]).all() else self._mask)
        columns = self._fitted(shared, z, fixed)
        nll = np.where(np.isfinite(columns.nll), columns.nll, np.nan)
        return ConditionalFits(theta_of(self.plan.model, columns), 2.0 * (nll - self.nll), columns.status)

    def expected(self, held: IntArray, values: Array) -> Array:
        """Return (N, P) where the Hessian at the best fit expects the conditional minima, within the bounds."""
        covariance = np.nan_to_num(self.best.covariance)
        theta = np.repeat(self.theta[None], len(values), axis=0)
        for i, (index, value) in enumerate(zip(held, values, strict=True)):
            block = covariance[np.ix_(index, index)]
            # A parameter at its bound has no covariance: the others start where they are.
            if (np.diag(block) > 0.0).all():
                theta[i] += covariance[:, index] @ np.linalg.lstsq(block, value - self.theta[index], rcond=None)[0]
        lower, upper = self.model.bounds
        return np.clip(theta, lower, upper)

    def refit(self, fits: ConditionalFits) -> bool:
        """Start the free fit again from the lowest conditional one, if that lies lower; return whether it did.

        Warns then, because the model has several minima; rises of fits that were made before count from the old one.
        """
        rise = np.where(fits.converged, fits.twice_delta_nll, np.inf)
        lowest = int(np.argmin(rise))
        if not rise[lowest] < -2.0 * LOWER:
            return False
        m = self.plan.model
        z = fits.theta[lowest, self._parameter]
        columns = best_fit(
            self.plan.worker, m, z, self._mask, m.tensors.observed, m.tensors.aux_observed, FIT_TOLERANCES
        )
        if columns.status[0] != FitStatus.CONVERGED or not columns.nll[0] < self.nll:
            return False
        logger.warning(
            "a conditional fit lies %.3g (in NLL) below the free fit, which was started again there: the likelihood "
            "has several minima", self.nll - float(columns.nll[0]),
        )  # fmt: skip
        self.theta, self.nll, self.is_refitted = theta_of(m, columns)[0], float(columns.nll[0]), True
        return True

    def _setup(self, fixed: BoolArray) -> Setup:
        """Return what fits with this mask share: the inverse information at the best fit; computed once for each."""
        key = fixed.tobytes()
        if key not in self._shared:
            t = self.plan.model.tensors
            self._shared[key] = setup(
                self.plan.worker, self.plan.model, self.theta[self._parameter], fixed, t.observed, t.aux_observed,
                tolerances=TOLERANCES,
            )  # fmt: skip
        return self._shared[key]

    def _fitted(self, shared: Setup, z: Array, fixed: BoolArray) -> Columns:
        """Return the fits of all columns (Z, N), shared out among the plan's threads."""
        t, n = self.plan.model.tensors, z.shape[1]
        size = min(self.plan.tuned.width, max(LEAST_COLUMNS, -(-n // self.plan.threads)))
        chunks = [slice(first, min(first + size, n)) for first in range(0, n, size)]

        def run(worker: Worker, chunk: slice) -> tuple[int, Columns]:
            part = Setup(
                shared.starts, np.ascontiguousarray(fixed[:, chunk]), shared.matrix, shared.poi, shared.tolerances,
                shared.kinks,
            )  # fmt: skip
            ones = np.ones(chunk.stop - chunk.start)
            data, aux = np.outer(t.observed, ones), np.outer(t.aux_observed, ones)
            return chunk.start, fit_columns(worker, part, data, aux, np.ascontiguousarray(z[:, chunk]))

        return Columns.joined([columns for _, columns in sorted(self.plan.each(run, chunks), key=lambda part: part[0])])


def checked_free(model: Model, index: int) -> None:
    """Check that a parameter is fitted at all.

    Raises
    ------
    OptionError
        It is fixed in the measurement.
    """
    parameter = model.parameters[index]
    if parameter.is_fixed:
        raise OptionError(
            f"parameter {parameter.name!r} is fixed at {parameter.init:g} in measurement {model.measurement!r}; "
            "expected one that is fitted. Remove 'fixed' from its configuration, or choose another parameter."
        )


@contextmanager
def plan_for(model: Model, plan: Plan | None) -> Iterator[Plan]:
    """Yield ``plan``, or one that is made for the call.

    Raises
    ------
    ModelError
        A plan of another model.
    """
    if plan is None:
        with Plan(model, tune=False, width=SINGLE_WIDTH) as own:
            yield own
        return
    if plan.model.digest != model.digest:
        raise ModelError("the plan was made for another model; make one with Plan(model).")
    yield plan
