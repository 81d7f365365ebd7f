"""`scan`: the profile likelihood on a grid of one or two parameters, all points as columns of one batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from nsmath._typing import Array, IntArray
from nsmath.errors import OptionError
from nsmath.fitting.minimiser import FitStatus
from nsmath.infer.profile import ProfileLikelihood, plan_for
from nsmath.model.model import Model
from nsmath.plan.plan import Plan
from nsmath.summary import Result, Summary, with_error

SCAN_SIGMAS = 3.0
"""Half width of a range that is not given, in standard deviations of the Hessian."""
DEFAULT_POINTS = {1: (31,), 2: (30, 30)}
LEVELS = (0.6827, 0.9545)
MAX_POINTS = 1_000_000

Range = tuple[float, float]


def chi2_quantile(level: float, n_parameters: int) -> float:
    """Return how far -2 ln L rises at the edge of a region of this confidence level, for one or two parameters.

    Wilks' theorem: the quantile of a chi2 with as many degrees of freedom as parameters.
    """
    if n_parameters == 1:
        return NormalDist().inv_cdf(0.5 * (1.0 + level)) ** 2
    return -2.0 * math.log1p(-level)


@dataclass(frozen=True, slots=True, repr=False)
class ScanResult(Result):
    """The profile likelihood on a grid.

    Attributes
    ----------
    parameters : one name or two. values : their grid points, (N,) for each.
    twice_delta_nll : (N,) or (N, M) rise of -2 ln L above the best fit; NaN where a fit failed.
    status : the same shape, `FitStatus` numbers.
    theta : (N, P) or (N, M, P) all parameters at every point, in the order of ``names``.
    best, uncertainties : best-fit values of the scanned parameters, and their errors by the Hessian (NaN at a bound).
    cut : for each parameter, whether a range that was not given ends at its bounds.
    levels : confidence level -> rise at the edge of the region for so many parameters.
    is_refitted : a point lay lower than the free fit, which was started again there.
    """

    measurement: str
    parameters: tuple[str, ...]
    values: tuple[Array, ...]
    twice_delta_nll: Array
    status: IntArray
    theta: Array
    names: tuple[str, ...]
    best: tuple[float, ...]
    uncertainties: tuple[float, ...]
    cut: tuple[bool, ...]
    levels: dict[float, float]
    is_refitted: bool
    interpolation: dict[str, str]
    model_digest: str
    backend: str
    dtype: str
    device: str

    @property
    def n_failed(self) -> int:
        """Points whose fit failed."""
        return int((self.status != int(FitStatus.CONVERGED)).sum())

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON: undefined numbers are None; all parameters at every point are left out."""
        return {
            "measurement": self.measurement,
            "parameters": [
                {"name": name, "values": values.tolist(), "best": best, "uncertainty": _number(error), "cut": cut}
                for name, values, best, error, cut in zip(
                    self.parameters, self.values, self.best, self.uncertainties, self.cut, strict=True
                )
            ],
            "twice_delta_nll": _nested(self.twice_delta_nll),
            "status": _statuses(self.status),
            "n_failed": self.n_failed,
            "levels": [{"level": level, "twice_delta_nll": rise} for level, rise in self.levels.items()],
            "is_refitted": self.is_refitted,
            "interpolation": self.interpolation,
            "model_digest": self.model_digest,
            "backend": self.backend,
            "dtype": self.dtype,
            "device": self.device,
        }

    def summary(self) -> Summary:
        """Return grid and best fit; for one parameter a table of the rise."""
        grid = " x ".join(str(len(values)) for values in self.values)
        pairs = zip(self.parameters, self.best, self.uncertainties, strict=True)
        facts = [(name, with_error(best, error)) for name, best, error in pairs]
        facts += [("points", f"{grid}, {self.n_failed} failed")]
        facts += [(f"{100.0 * level:.4g} % C.L. below", f"{rise:.4g}") for level, rise in self.levels.items()]
        title = f"profile likelihood of {', '.join(self.parameters)}, '{self.measurement}'"
        if len(self.parameters) > 1:
            return Summary(title, tuple(facts))
        rises = zip(self.values[0], self.twice_delta_nll, strict=True)
        rows = tuple((f"{x:.5g}", f"{rise:.5g}" if math.isfinite(rise) else "failed") for x, rise in rises)
        return Summary(title, tuple(facts), (self.parameters[0], "2 delta NLL"), rows)


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _nested(values: Array) -> Any:
    return [_nested(row) for row in values] if values.ndim > 1 else [_number(float(v)) for v in values]


def _statuses(status: IntArray) -> Any:
    if status.ndim > 1:
        return [_statuses(row) for row in status]
    return [FitStatus(int(s)).name.lower() for s in status]


def scan(
    model: Model, parameters: str | Sequence[str], *, ranges: Sequence[Range | None] | None = None,
    points: int | Sequence[int] | None = None, plan: Plan | None = None,
) -> ScanResult:  # fmt: skip
    """Return the profile likelihood of one or two parameters on a grid.

    Parameters
    ----------
    parameters : one name or two.
    ranges : (from, to) of each; three standard deviations of the Hessian about the best fit where None, cut at bounds.
    points : of each, 31 for one parameter and 30 each for two if not given.
    plan : a plan of this model; one is made for the call when None.

    Raises
    ------
    ModelError, OptionError
        Unknown names, fixed parameters, ranges outside the bounds, too few points.
    FitError
        The free fit does not converge.
    """
    chosen = (parameters,) if isinstance(parameters, str) else tuple(parameters)
    counts = _checked_points(chosen, points)
    given = _checked_ranges(model, chosen, ranges)
    with plan_for(model, plan) as used:
        profile = ProfileLikelihood(used, chosen)
        held = np.array([model.index_of(name) for name in chosen])
        grid, cut = [], []
        for name, index, n, wanted in zip(chosen, held, counts, given, strict=True):
            (low, high), is_cut = (wanted, False) if wanted is not None else _natural_range(profile, name, index)
            grid.append(np.linspace(low, high, n))
            cut.append(is_cut)
        mesh = np.stack([axis.ravel() for axis in np.meshgrid(*grid, indexing="ij")], axis=1)
        fits = profile.conditional(held, mesh)
        before = profile.nll
        profile.refit(fits)
        rise = np.where(fits.converged, fits.twice_delta_nll + 2.0 * (before - profile.nll), np.nan)
        shape = tuple(counts)
        best = profile.best
        return ScanResult(
            measurement=model.measurement,
            parameters=chosen,
            values=tuple(grid),
            twice_delta_nll=rise.reshape(shape),
            status=fits.status.reshape(shape),
            theta=fits.theta.reshape(*shape, -1),
            names=model.names,
            best=tuple(float(profile.theta[index]) for index in held),
            uncertainties=tuple(float(best.uncertainties[index]) for index in held),
            cut=tuple(cut),
            levels={level: chi2_quantile(level, len(chosen)) for level in LEVELS},
            is_refitted=profile.is_refitted,
            interpolation=model.interp.to_dict(),
            model_digest=model.digest,
            **used.origin,
        )


def _checked_points(chosen: tuple[str, ...], points: int | Sequence[int] | None) -> tuple[int, ...]:
    if not 1 <= len(chosen) <= 2 or len(set(chosen)) < len(chosen):
        raise OptionError(f"a scan is over one parameter or two different ones; got {', '.join(chosen) or 'none'}.")
    given = DEFAULT_POINTS[len(chosen)] if points is None else points
    counts = (given,) * len(chosen) if isinstance(given, int) else tuple(given)
    if len(counts) != len(chosen) or any(isinstance(n, bool) or int(n) != n or n < 2 for n in counts):
        raise OptionError(
            f"points are {given!r}; expected a whole number from 2 on for each of {len(chosen)} parameters."
        )
    if math.prod(counts) > MAX_POINTS:
        raise OptionError(f"the grid has {math.prod(counts)} points; expected {MAX_POINTS} at most.")
    return tuple(int(n) for n in counts)


def _checked_ranges(
    model: Model, chosen: tuple[str, ...], ranges: Sequence[Range | None] | None
) -> tuple[Range | None, ...]:
    if ranges is None:
        return (None,) * len(chosen)
    if len(ranges) != len(chosen):
        raise OptionError(f"{len(ranges)} ranges for {len(chosen)} parameters; expected one for each, or none.")
    for name, wanted in zip(chosen, ranges, strict=True):
        if wanted is None:
            continue
        parameter = model.parameters[model.index_of(name)]
        low, high = wanted
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise OptionError(f"range {low:g} to {high:g} of {name!r}: expected two numbers in ascending order.")
        if low < parameter.lower or high > parameter.upper:
            raise OptionError(
                f"range {low:g} to {high:g} of {name!r} leaves its bounds [{parameter.lower:g}, {parameter.upper:g}]. "
                "Scan inside, or widen the bounds in its configuration."
            )
    return tuple(ranges)


def natural_width(profile: ProfileLikelihood, index: int) -> float:
    """Return a standard deviation of a parameter by the Hessian; where it has none, what it can be expected to be.

    That is the width of its constraint, or a tenth of its value or of 1, whichever is larger.
    """
    error = float(profile.best.uncertainties[index])
    if math.isfinite(error) and error > 0.0:
        return error
    parameter = profile.model.parameters[index]
    if parameter.constraint == "normal":
        return parameter.scale
    if parameter.constraint == "poisson":
        return 1.0 / math.sqrt(parameter.scale)
    return 0.1 * max(abs(float(profile.theta[index])), 1.0)


def _natural_range(profile: ProfileLikelihood, name: str, index: int) -> tuple[Range, bool]:
    """Return a range about the best fit, and whether the parameter's bounds cut it."""
    parameter, centre = profile.model.parameters[index], float(profile.theta[index])
    half = SCAN_SIGMAS * natural_width(profile, index)
    low, high = max(centre - half, parameter.lower), min(centre + half, parameter.upper)
    if not low < high:
        raise OptionError(f"parameter {name!r} has no room to be scanned: its bounds are [{low:g}, {high:g}].")
    return (low, high), low > centre - half or high < centre + half
