"""Expected events of every sample in every bin at given parameters, with the uncertainty that a covariance gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nsmath._typing import Array, IntArray
from nsmath.model.model import Model
from nsmath.model.rates import RateTable, rate_table, row_rates
from nsmath.summary import Result, Summary, with_error

_COLUMNS = 32
"""Parameter points evaluated at once: keeps the factors of large models in memory."""


@dataclass(frozen=True, slots=True, repr=False)
class Yield(Result):
    """Expected events of one sample, or of all together, in one channel.

    Attributes
    ----------
    events : per bin, shape (B,); uncertainty : of each, shape (B,), or None where there is no covariance.
    total : their sum; total_uncertainty : of the sum, with the correlations between bins.
    """

    events: Array
    uncertainty: Array | None
    total: float
    total_uncertainty: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        return {
            "total": self.total,
            "total_uncertainty": self.total_uncertainty,
            "events": self.events.tolist(),
            "uncertainty": None if self.uncertainty is None else self.uncertainty.tolist(),
        }

    def summary(self) -> Summary:
        """Return the sum, and the events of every bin."""
        errors = [None] * len(self.events) if self.uncertainty is None else self.uncertainty.tolist()
        bins = zip(self.events.tolist(), errors, strict=True)
        rows = tuple((str(b), with_error(events, error)) for b, (events, error) in enumerate(bins))
        return Summary(
            "expected events", (("all", with_error(self.total, self.total_uncertainty)),), ("bin", "events"), rows
        )


@dataclass(frozen=True, slots=True, repr=False)
class ChannelYields(Result):
    """Observed and expected events of one channel; ``samples`` in file order."""

    name: str
    observed: Array
    all: Yield
    samples: dict[str, Yield]

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        samples = [{"name": name, **found.to_dict()} for name, found in self.samples.items()]
        return {
            "name": self.name,
            "observed": self.observed.tolist(),
            "observed_total": float(self.observed.sum()),
            **self.all.to_dict(),
            "samples": samples,
        }

    def summary(self) -> Summary:
        """Return observed and expected events, and those of every sample."""
        facts = (("observed", f"{self.observed.sum():.6g}"),
                 ("expected", with_error(self.all.total, self.all.total_uncertainty)))  # fmt: skip
        rows = tuple((name, with_error(y.total, y.total_uncertainty)) for name, y in self.samples.items())
        return Summary(
            f"events in channel '{self.name}', {len(self.observed)} bins", facts, ("sample", "expected"), rows
        )


def prefit_uncertainties(model: Model) -> Array:
    """Return the width of each parameter's constraint, shape (P,); 0 for fixed and unconstrained parameters.

    The sigma of a normal constraint; 1 / sqrt(tau) of a Poisson one, the width of its likelihood at 1.
    """
    widths = np.zeros(len(model.parameters))
    for p, parameter in enumerate(model.parameters):
        if parameter.constraint != "none" and not parameter.is_fixed:
            widths[p] = parameter.scale if parameter.constraint == "normal" else parameter.scale**-0.5
    return widths


def expected_yields(model: Model, theta: Array, covariance: Array | None = None) -> tuple[ChannelYields, ...]:
    """Return the expected events at ``theta``, channel by channel.

    Parameters
    ----------
    theta : (P,).
    covariance : (P, P) of the parameters; None for no uncertainties.

    Notes
    -----
    Uncertainties are propagated linearly, with the slope of each yield lambda along a parameter p of standard
    deviation sigma_p taken over the interval that matters, so that kinks of the interpolation are averaged:
    ``delta_p = (lambda(theta + sigma_p e_p) - lambda(theta - sigma_p e_p)) / 2``, and the variance is
    ``sum_pq delta_p rho_pq delta_q`` with the correlations rho of the covariance.
    """
    # Factors that stay 1 in fits are kept: `theta` may say otherwise.
    table = rate_table(model.unprofiled.tensors)
    rows = row_rates(table, theta[None])[0]
    correlation, deltas = None, None
    if covariance is not None:
        sigma = np.sqrt(np.diag(covariance))
        moving = np.flatnonzero(sigma > 0.0)
        correlation = covariance[np.ix_(moving, moving)] / np.outer(sigma[moving], sigma[moving])
        deltas = _half_differences(table, theta, moving, sigma[moving])
    found, row, bin_ = [], 0, 0
    for channel in model.source.channels:
        shape = (len(channel.samples), channel.n_bins)
        end = row + shape[0] * shape[1]
        # Rows run over the bins of a sample first, then over the samples of a channel.
        cells = rows[row:end].reshape(shape)
        moves = None if deltas is None else deltas[:, row:end].reshape(-1, *shape)
        samples = {
            sample.name: _yield(cells[s], None if moves is None else moves[:, s], correlation)
            for s, sample in enumerate(channel.samples)
        }
        together = _yield(cells.sum(axis=0), None if moves is None else moves.sum(axis=1), correlation)
        found.append(ChannelYields(channel.name, model.data[bin_ : bin_ + shape[1]], together, samples))
        row, bin_ = end, bin_ + shape[1]
    return tuple(found)


def _half_differences(table: RateTable, theta: Array, moving: IntArray, sigma: Array) -> Array:
    """Return, for each moving parameter, half of what every row changes between -sigma and +sigma: (Q, R)."""
    deltas = np.zeros((len(moving), table.tensors.n_rows))
    for first in range(0, len(moving), _COLUMNS):
        part = moving[first : first + _COLUMNS]
        step = np.zeros((len(part), len(theta)))
        step[np.arange(len(part)), part] = sigma[first : first + _COLUMNS]
        up, down = row_rates(table, theta + step), row_rates(table, theta - step)
        deltas[first : first + len(part)] = (up - down) / 2.0
    return deltas


def _yield(events: Array, deltas: Array | None, correlation: Array | None) -> Yield:
    """Return the yield of events (B,) that move by ``deltas`` (Q, B)."""
    if deltas is None or correlation is None:
        return Yield(events, None, float(events.sum()), None)
    variance = np.einsum("pb,pq,qb->b", deltas, correlation, deltas, optimize=True)
    total = deltas.sum(axis=1)
    # Rounding of a variance that is 0 may go below it.
    uncertainty, total_uncertainty = np.sqrt(np.maximum(variance, 0.0)), np.sqrt(max(total @ correlation @ total, 0.0))
    return Yield(events, uncertainty, float(events.sum()), float(total_uncertainty))
