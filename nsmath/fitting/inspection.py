"""`inspection`: what a workspace means for one measurement, as one record: model, parameters, yields before and after.

Also what a fit says about a workspace that no look at the file can: pulls, bounds, failures (`fit_warnings`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from nsmath._typing import Array
from nsmath.fitting.fit import FitResult
from nsmath.fitting.minimiser import FitStatus
from nsmath.model.model import Model
from nsmath.model.yields import ChannelYields, expected_yields, prefit_uncertainties
from nsmath.spec.modifiers import MODIFIERS
from nsmath.spec.uses import each_modifier, path_of
from nsmath.spec.workspace import LoadWarning, Workspace
from nsmath.summary import Result, Summary, with_error


@dataclass(frozen=True, slots=True, repr=False)
class ModifierSummary(Result):
    """One modifier name: its types, constraint, number of parameters, and the channels and samples that it acts on."""

    name: str
    types: tuple[str, ...]
    constraint: str
    n_parameters: int
    channels: tuple[str, ...]
    samples: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        return {
            "name": self.name,
            "types": list(self.types),
            "constraint": self.constraint,
            "n_parameters": self.n_parameters,
            "channels": list(self.channels),
            "samples": list(self.samples),
        }

    def summary(self) -> Summary:
        """Return type, constraint and where it acts."""
        facts = (("type", ", ".join(self.types)), ("constraint", self.constraint),
                 ("parameters", str(self.n_parameters)), ("channels", ", ".join(self.channels)),
                 ("samples", ", ".join(self.samples)))  # fmt: skip
        return Summary(f"modifier '{self.name}'", facts)


@dataclass(frozen=True, repr=False)
class Inspection(Result):
    """What a workspace means for one measurement.

    Attributes
    ----------
    workspace, model : what was looked at.
    modifiers : one `ModifierSummary` for each name, in the order of the model's parameters.
    nominal : yields at the start values, with the widths of the constraints as uncertainties.
    fit : the best fit of the observed data, or None; postfit : yields there, with its covariance.
    """

    workspace: Workspace
    model: Model
    modifiers: tuple[ModifierSummary, ...]
    nominal: tuple[ChannelYields, ...]
    fit: FitResult | None = None
    postfit: tuple[ChannelYields, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        model, fit = self.model, self.fit
        return {
            "measurement": model.measurement,
            "poi": model.poi or None,
            "measurements": [{"name": each.name, "poi": each.poi or None} for each in self.workspace.measurements],
            "interpolation": model.interp.to_dict(),
            "channels": [
                {"name": channel.name, "n_bins": channel.n_bins, "samples": [s.name for s in channel.samples]}
                for channel in model.source.channels
            ],
            "modifiers": [modifier.to_dict() for modifier in self.modifiers],
            "parameters": self._parameters(),
            "yields": {
                "nominal": [channel.to_dict() for channel in self.nominal],
                "fit": None if self.postfit is None else [channel.to_dict() for channel in self.postfit],
            },
            "fit": None
            if fit is None
            else {"status": fit.status.name.lower(), "status_message": fit.status.message, "nll": fit.nll},
            "warnings": [{"kind": w.kind, "path": w.path, "message": w.message} for w in self.workspace.warnings],
            "model_digest": model.digest,
        }

    def _parameters(self) -> list[dict[str, Any]]:
        owner = {p: m for m in self.modifiers for p in _positions(self.model, m.name)}
        found = []
        for p, parameter in enumerate(self.model.parameters):
            entry: dict[str, Any] = {
                "name": parameter.name,
                "modifier": owner[p].name,
                "types": list(owner[p].types),
                "init": parameter.init,
                "bounds": [parameter.lower, parameter.upper],
                "fixed": parameter.is_fixed,
                "constraint": parameter.constraint,
                "auxdata": parameter.auxdata if parameter.constraint != "none" else None,
                "sigma": parameter.scale if parameter.constraint == "normal" else None,
                "tau": parameter.scale if parameter.constraint == "poisson" else None,
                "is_poi": p == self.model.poi_index,
            }
            if self.fit is not None:
                error = float(self.fit.uncertainties[p])
                entry["value"] = float(self.fit.values[p])
                entry["uncertainty"] = error if np.isfinite(error) else None
            found.append(entry)
        return found

    def summary(self) -> Summary:
        """Return sizes, and observed and expected events of every channel."""
        model = self.model
        facts = (("POI", model.poi or "none"), ("parameters", str(len(model.names))),
                 ("modifiers", str(len(self.modifiers))), ("warnings", str(len(self.workspace.warnings))),
                 ("fit", "none" if self.fit is None else self.fit.status.message))  # fmt: skip
        yields = [self.nominal] if self.postfit is None else [self.nominal, self.postfit]
        rows = tuple(
            (found[0].name, str(len(found[0].observed)), f"{found[0].observed.sum():.6g}",
             *(with_error(each.all.total, each.all.total_uncertainty) for each in found))
            for found in zip(*yields, strict=True)
        )  # fmt: skip
        columns = ("channel", "bins", "observed", "nominal", "fitted")
        return Summary(f"inspection of '{model.measurement}'", facts, columns[: 3 + len(yields)], rows)


def inspection(workspace: Workspace, model: Model, fit: FitResult | None = None) -> Inspection:
    """Return what ``workspace`` means for the measurement of ``model``.

    Parameters
    ----------
    model : made of ``workspace``.
    fit : its best fit, for the yields after the fit.
    """
    nominal = expected_yields(model, model.init, np.diag(prefit_uncertainties(model) ** 2))
    postfit = None
    if fit is not None:
        # Parameters at a bound have no variance: they are held there.
        known = np.isfinite(fit.covariance).all()
        postfit = expected_yields(model, fit.values, fit.covariance if known else None)
    return Inspection(workspace, model, tuple(_modifiers(model)), nominal, fit, postfit)


def _positions(model: Model, name: str) -> range:
    """Return where the parameters of a modifier name are."""
    block = model.source.blocks[name]
    return range(block.start, block.start + block.size)


def _modifiers(model: Model) -> Iterator[ModifierSummary]:
    types: dict[str, dict[str, None]] = {}
    channels: dict[str, dict[str, None]] = {}
    samples: dict[str, dict[str, None]] = {}
    for _, channel, sample, modifier in each_modifier(model.source.channels):
        types.setdefault(modifier.name, {})[modifier.type] = None
        channels.setdefault(modifier.name, {})[channel.name] = None
        samples.setdefault(modifier.name, {})[sample.name] = None
    for name, found in types.items():
        constraint = MODIFIERS[next(iter(found))].constraint
        n_parameters = len(_positions(model, name))
        yield ModifierSummary(name, tuple(found), constraint, n_parameters, tuple(channels[name]), tuple(samples[name]))


def pulls(model: Model, theta: Array) -> Array:
    """Return how far parameters are from their auxiliary measurements, in units of the constraint's width, (P,).

    NaN for fixed and unconstrained parameters.
    """
    found = np.full(len(model.parameters), np.nan)
    widths = prefit_uncertainties(model)
    for p, parameter in enumerate(model.parameters):
        if widths[p] > 0.0:
            centre = parameter.auxdata / (parameter.scale if parameter.constraint == "poisson" else 1.0)
            found[p] = (theta[p] - centre) / widths[p]
    return found


def fit_warnings(workspace: Workspace, model: Model, fit: FitResult, max_pull: float) -> Iterator[LoadWarning]:
    """What the best fit of the observed data says about a workspace.

    Parameters
    ----------
    max_pull : a parameter further from its auxiliary measurement than this many widths is a warning.
    """
    if fit.status != FitStatus.CONVERGED:
        yield LoadWarning("fit-not-converged", "", f"the fit of the observed data ended with: {fit.status.message}")
    elif not np.isfinite(fit.covariance).all():
        message = "the Hessian at the best fit is not positive definite: the data do not determine all parameters."
        yield LoadWarning("degenerate-fit", "", message)
    first: dict[str, str] = {}
    for spot, _, _, modifier in each_modifier(workspace.channels):
        first.setdefault(modifier.name, path_of(spot))
    pull = pulls(model, fit.values)
    for name in model.source.blocks:
        for p in _positions(model, name):
            parameter, value = model.parameters[p], float(fit.values[p])
            if abs(pull[p]) > max_pull:
                message = (
                    f"parameter '{parameter.name}' is pulled to {value:.4g}, {pull[p]:+.2f} widths from its "
                    "auxiliary measurement."
                )
                yield LoadWarning("large-pull", first[name], message)
            if parameter.name in fit.at_bound:
                message = (
                    f"parameter '{parameter.name}' ends on its bound at {value:.4g} (bounds {parameter.lower:g} to "
                    f"{parameter.upper:g})."
                )
                yield LoadWarning("at-bound", first[name], message)
