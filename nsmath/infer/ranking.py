"""`ranking`: how nuisance parameters are pulled and constrained, and what they do to the POI; all refits in one batch.

The impact of a parameter is the shift of mu_hat when it is held one standard deviation off its best fit and everything
else is fitted again: by its uncertainty after the fit, and by that of its own auxiliary measurement before it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nsmath.errors import OptionError
from nsmath.fitting.inspection import pulls
from nsmath.infer.profile import ProfileLikelihood, plan_for
from nsmath.model.model import Model
from nsmath.model.yields import prefit_uncertainties
from nsmath.plan.plan import Plan
from nsmath.summary import Result, Summary, with_error

SIDES = (-1.0, 1.0)


@dataclass(frozen=True, slots=True, repr=False)
class Impact(Result):
    """What holding a parameter at ``value`` does to the POI.

    Attributes
    ----------
    value : where it was held. shift : of mu_hat; None where the fit failed.
    is_cut : its bound lies nearer than a standard deviation, and it was held there.
    """

    value: float
    shift: float | None
    is_cut: bool

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        return {"value": self.value, "shift": self.shift, "is_cut": self.is_cut}

    def __str__(self) -> str:
        return "failed" if self.shift is None else f"{self.shift:+.3g}"

    def summary(self) -> Summary:
        """Return the shift."""
        where = f"held at {self.value:.5g}" + (", its bound" if self.is_cut else "")
        return Summary(f"impact of a parameter {where}", (("shift of the POI", str(self)),))


@dataclass(frozen=True, slots=True, repr=False)
class RankedParameter(Result):
    """One nuisance parameter.

    Attributes
    ----------
    value, uncertainty : best fit, and its standard deviation by the Hessian (None at a bound).
    prefit, prefit_uncertainty : centre and width of its auxiliary measurement; None without one.
    pull : (value - prefit) / prefit_uncertainty. constraint : uncertainty / prefit_uncertainty.
    postfit_impact, prefit_impact : down and up; None without that uncertainty.
    """

    name: str
    value: float
    uncertainty: float | None
    prefit: float | None
    prefit_uncertainty: float | None
    pull: float | None
    constraint: float | None
    postfit_impact: tuple[Impact, Impact] | None
    prefit_impact: tuple[Impact, Impact] | None

    @property
    def size(self) -> float:
        """The larger shift after the fit, by which parameters are ranked; 0 where there is none."""
        shifts = [impact.shift for impact in self.postfit_impact or ()]
        return max((abs(shift) for shift in shifts if shift is not None), default=0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        row: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        for name in ("postfit_impact", "prefit_impact"):
            pair = getattr(self, name)
            row[name] = None if pair is None else {"down": pair[0].to_dict(), "up": pair[1].to_dict()}
        return row

    @property
    def impacts(self) -> tuple[str, str]:
        """The impacts after the fit in words, down and up."""
        down, up = self.postfit_impact or ("", "")
        return str(down), str(up)

    def summary(self) -> Summary:
        """Return best fit, pull and impacts."""
        numbers = (("pull", self.pull), ("constraint", self.constraint))
        facts = [("best fit", with_error(self.value, self.uncertainty))]
        facts += [(name, f"{value:.3g}") for name, value in numbers if value is not None]
        for label, pair in (("after", self.postfit_impact), ("before", self.prefit_impact)):
            facts += [(f"impact {label} the fit", f"{pair[0]} {pair[1]}")] if pair is not None else []
        return Summary(f"nuisance parameter {self.name}", tuple(facts))


@dataclass(frozen=True, slots=True, repr=False)
class RankingResult(Result):
    """Nuisance parameters by their impact on the POI, the largest first.

    Attributes
    ----------
    mu_hat, mu_uncertainty : best fit of the POI, and its standard deviation (None at a bound).
    n_failed : refits that failed; their shifts are None.
    """

    measurement: str
    poi: str
    mu_hat: float
    mu_uncertainty: float | None
    parameters: tuple[RankedParameter, ...]
    n_fits: int
    n_failed: int
    interpolation: dict[str, str]
    model_digest: str
    backend: str
    dtype: str
    device: str

    def __getitem__(self, name: str) -> RankedParameter:
        """A parameter by name."""
        return next(row for row in self.parameters if row.name == name)

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        result: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        result["parameters"] = [row.to_dict() for row in self.parameters]
        return result

    def summary(self) -> Summary:
        """Return the POI, and a table of the parameters, those with the largest impact first."""
        facts = ((self.poi, with_error(self.mu_hat, self.mu_uncertainty)), ("refits", str(self.n_fits)),
                 ("refits that failed", str(self.n_failed)))  # fmt: skip
        rows = tuple(
            (row.name, *("" if x is None else f"{x:.3g}" for x in (row.pull, row.constraint)), *row.impacts)
            for row in self.parameters
        )
        columns = ("parameter", "pull", "constraint", "impact down", "impact up")
        return Summary(f"impacts of nuisance parameters on {self.poi}, '{self.measurement}'", facts, columns, rows)


def ranking(model: Model, parameters: Sequence[str] | None = None, *, plan: Plan | None = None) -> RankingResult:
    """Return pulls, constraints and impacts of nuisance parameters.

    Parameters
    ----------
    parameters : names; every fitted parameter but the POI when None.
    plan : a plan of this model; one is made for the call when None.

    Raises
    ------
    ModelError, OptionError
        No POI, unknown names, fixed parameters, the POI itself.
    FitError
        The free fit does not converge.
    """
    poi = model.require_poi()
    everyone = tuple(p.name for p in model.parameters if not p.is_fixed and p.name != model.poi)
    names = everyone if parameters is None else tuple(parameters)
    if model.poi in names:
        raise OptionError(f"{model.poi!r} is the parameter of interest; expected nuisance parameters.")
    if len(set(names)) < len(names):
        raise OptionError("expected different parameters; one is given twice.")
    with plan_for(model, plan) as used:
        profile = ProfileLikelihood(used, (*names, model.poi) if model.parameters[poi].is_fixed else names)
        wanted = _held_values(profile, names)
        held = np.array([[model.index_of(name)] for name, *_ in wanted], dtype=np.int64).reshape(-1, 1)
        values = np.array([value for *_, value, _ in wanted], dtype=float).reshape(-1, 1)
        if len(wanted):
            fits = profile.conditional(held, values)
            shifts = np.where(fits.converged, fits.theta[:, poi] - profile.theta[poi], np.nan)
        else:
            shifts = np.empty(0)
        impacts = {
            (name, kind, side): Impact(value, float(shift) if np.isfinite(shift) else None, is_cut)
            for (name, kind, side, value, is_cut), shift in zip(wanted, shifts, strict=True)
        }
        rows = [_row(profile, name, impacts) for name in names]
        error = float(profile.best.uncertainties[poi])
        return RankingResult(
            measurement=model.measurement,
            poi=model.poi,
            mu_hat=float(profile.theta[poi]),
            mu_uncertainty=error if math.isfinite(error) else None,
            parameters=tuple(sorted(rows, key=lambda row: -row.size)),
            n_fits=len(wanted),
            n_failed=sum(impact.shift is None for impact in impacts.values()),
            interpolation=model.interp.to_dict(),
            model_digest=model.digest,
            **used.origin,
        )


def _held_values(
    profile: ProfileLikelihood, names: tuple[str, ...]
) -> list[tuple[str, str, float, float, bool]]:  # fmt: skip
    """Return (name, kind, side, value, is_cut) of every refit."""
    wanted = []
    prefit = prefit_uncertainties(profile.model)
    for name in names:
        index = profile.model.index_of(name)
        parameter, centre = profile.model.parameters[index], float(profile.theta[index])
        error = float(profile.best.uncertainties[index])
        widths = {"postfit": error if math.isfinite(error) else 0.0, "prefit": float(prefit[index])}
        for kind, width in widths.items():
            for side in SIDES if width > 0.0 else ():
                asked = centre + side * width
                value = min(max(asked, parameter.lower), parameter.upper)
                wanted.append((name, kind, side, value, value != asked))
    return wanted


def _row(profile: ProfileLikelihood, name: str, impacts: dict[tuple[str, str, float], Impact]) -> RankedParameter:
    model = profile.model
    index = model.index_of(name)
    value, error = float(profile.theta[index]), float(profile.best.uncertainties[index])
    width, pull = float(prefit_uncertainties(model)[index]), float(pulls(model, profile.theta)[index])

    def pair(kind: str) -> tuple[Impact, Impact] | None:
        down, up = (impacts.get((name, kind, side)) for side in SIDES)
        return None if down is None or up is None else (down, up)

    has_width = width > 0.0
    return RankedParameter(
        name=name,
        value=value,
        uncertainty=error if math.isfinite(error) else None,
        prefit=value - pull * width if has_width else None,
        prefit_uncertainty=width if has_width else None,
        pull=pull if has_width else None,
        constraint=error / width if has_width and math.isfinite(error) else None,
        postfit_impact=pair("postfit"),
        prefit_impact=pair("prefit"),
    )
