"""Workspaces with other data: Asimov data sets, and channels whose observations are hidden behind the expectation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal

from nsmath._typing import Array
from nsmath.errors import FitError, ModelError, OptionError
from nsmath.fitting.fit import fit
from nsmath.fitting.minimiser import FitStatus
from nsmath.formulas.interpolation import Interpolation
from nsmath.model.model import Model
from nsmath.model.yields import expected_yields
from nsmath.spec.edit import Edited, Spec, known, plain, pruned, with_configs, with_observations
from nsmath.spec.modifiers import MODIFIERS
from nsmath.spec.uses import parameter_uses
from nsmath.spec.wording import listed
from nsmath.spec.workspace import Workspace

Interp = str | Interpolation | dict[str, str]


def asimov(
    spec: Spec,
    *,
    values: Mapping[str, float] | None = None,
    fitted: bool = False,
    aux: Literal["expected", "observed"] = "expected",
    measurement: str | None = None,
    poi: str | None = None,
    interp: Interp = "root",
) -> Edited:
    """Return the workspace with the Asimov data set of one point in the place of its data.

    In the Asimov data set every main and every auxiliary measurement is what is expected at the point, so a fit of the
    result ends there (arXiv:1007.1727, section 3.2).

    Parameters
    ----------
    spec : Workspace or mapping
    values : parameters by name; they are held in the fit. All others are at their start values.
    fitted : all others at the best fit of the observed data instead.
    aux : ``observed`` leaves the auxiliary data as they are; a fit then ends where those pull it.
    measurement, poi, interp : as for `Model.from_workspace`. Auxiliary data are those of this measurement.

    Raises
    ------
    ModelError, OptionError
        Unknown name, a value outside its bounds, or a negative expectation.
    FitError
        The fit does not converge.
    """
    document = plain(spec)
    workspace = Workspace.from_dict(document)
    model = _model(workspace, measurement, poi, interp)
    held = model.with_fixed(values or {})
    theta = _converged(held, "the fit of the observed data") if fitted else held.init
    where = _described(values or {}, "the best fit" if fitted else "the start values")
    result = with_observations(document, _expected(model, theta, model.channels))
    notes = [f"observations of all channels replaced by what is expected at {where}"]
    if aux == "expected":
        configs = _aux_configs(workspace, model, theta)
        result = with_configs(result.document, model.measurement, configs)
        others = [name for name in workspace.measurement_names if name != model.measurement]
        if configs:
            notes.append(f"auxiliary data of {listed(configs)} set to what is expected there")
        if configs and others:
            notes.append(f"auxiliary data of other measurements ({listed(others)}) left as observed")
    return Edited(result.document, tuple(notes))


def blinded(
    spec: Spec,
    channels: Collection[str],
    *,
    values: Mapping[str, float] | None = None,
    fitted: bool = False,
    measurement: str | None = None,
    poi: str | None = None,
    interp: Interp = "root",
) -> Edited:
    """Return the workspace with the observations of some channels replaced by the background expectation.

    The parameter of interest is 0, if the workspace has it; auxiliary data stay as observed.

    Parameters
    ----------
    channels : names of the channels to blind.
    values : parameters by name, also the parameter of interest. All others are at their start values.
    fitted : all others at the best fit of the channels that are not blinded; parameters that act in blinded channels
        alone are at their start values.
    measurement, poi, interp : as for `Model.from_workspace`.

    Raises
    ------
    OptionError, ModelError
        Unknown names, no channel that is left to fit, a value outside its bounds, or a negative expectation.
    FitError
        The fit does not converge.
    """
    document = plain(spec)
    workspace = Workspace.from_dict(document)
    known(channels, [channel.name for channel in workspace.channels], "channel")
    if not channels:
        raise OptionError("no channel was given to blind. Name at least one.")
    model = _model(workspace, measurement, poi, interp)
    at = {model.poi: 0.0} if model.poi else {}
    at |= values or {}
    held = model.with_fixed(at)
    theta = held.init
    if fitted:
        theta = _side_band_fit(document, channels, held, at, interp)
    replaced = _expected(model, theta, channels)
    where = _described(at, "the best fit of the other channels" if fitted else "the start values")
    notes = [
        f"observation of channel '{name}' replaced by {sum(events):.6g} events, expected at {where}"
        for name, events in replaced.items()
    ]
    return Edited(with_observations(document, replaced).document, tuple(notes))


def _model(workspace: Workspace, measurement: str | None, poi: str | None, interp: Interp) -> Model:
    """Return the model; without POI where the measurement names one that the workspace has not (background only)."""
    if poi is None:
        name = workspace.measurement(measurement, poi="").name
        named = next(each.poi for each in workspace.measurements if each.name == name)
        poi = named if named in parameter_uses(workspace.channels) else ""
    return Model.from_workspace(workspace, measurement=measurement, poi=poi, interp=interp)


def _described(values: Mapping[str, float], rest: str) -> str:
    """Return a point in words: the given values, and where the rest comes from."""
    given = ", ".join(f"{name} = {value:g}" for name, value in values.items())
    return f"{given} and {rest}" if given else rest


def _converged(model: Model, what: str) -> Array:
    """Return the best fit (P,) of the observed data."""
    result = fit(model)
    if result.status != FitStatus.CONVERGED:
        raise FitError(f"{what} did not converge: {result.status.message} Nothing was written.")
    return result.values


def _expected(model: Model, theta: Array, channels: Iterable[str]) -> dict[str, list[float]]:
    """Return the expected events of some channels at ``theta``, by bin."""
    found = {}
    for channel in expected_yields(model, theta):
        events = channel.all.events.tolist()
        if channel.name in channels:
            negative = [b for b, n in enumerate(events) if n < 0.0]
            if negative:
                raise ModelError(
                    f"channel '{channel.name}', bin {negative[0]}: {events[negative[0]]:g} events are expected there, "
                    "and a number of events cannot be negative. Choose other parameter values."
                )
            found[channel.name] = events
    return found


def _aux_configs(workspace: Workspace, model: Model, theta: Array) -> dict[str, dict[str, Any]]:
    """Return the configurations that make the auxiliary data those expected at ``theta``; none where they are."""
    configs: dict[str, dict[str, Any]] = {}
    configured = {config.name: config for config in workspace.measurement(model.measurement, poi="").parameters}
    uses = parameter_uses(workspace.channels)
    for name, block in model.source.blocks.items():
        positions = range(block.start, block.start + block.size)
        parameters = [model.parameters[p] for p in positions]
        if parameters[0].constraint == "none":
            continue
        expected = [
            float(theta[p]) * (parameter.scale if parameter.constraint == "poisson" else 1.0)
            for p, parameter in zip(positions, parameters, strict=True)
        ]
        if expected == [parameter.auxdata for parameter in parameters]:
            continue
        configs[name] = {"auxdata": expected}
        if uses[name].row.requires:
            # The auxiliary value of such a parameter is also what its default start and bounds come from.
            own = configured[name]
            if own.inits is None:
                configs[name]["inits"] = [parameter.init for parameter in parameters]
            if own.bounds is None:
                configs[name]["bounds"] = [[parameter.lower, parameter.upper] for parameter in parameters]
    return configs


def _side_band_fit(
    document: dict[str, Any], channels: Collection[str], model: Model, at: Mapping[str, float], interp: Interp
) -> Array:
    """Return the parameters (P,) of ``model`` with those of the best fit of all channels but ``channels``."""
    left = [name for name in model.channels if name not in channels]
    if not left:
        raise OptionError("all channels are to be blinded, so none is left to fit. Blind without a fit.")
    rest = pruned(document, channels=channels).workspace
    side = Model.from_workspace(rest, measurement=model.measurement, poi="", interp=interp)
    side = side.with_fixed({name: value for name, value in at.items() if name in side.names})
    best = _converged(side, f"the fit of the channels {listed(left)}")
    theta = model.init.copy()
    for name, block in side.source.blocks.items():
        whole = model.source.blocks[name]
        per_channel = any(MODIFIERS[kind].shared == "channel" for kind in parameter_uses(rest.channels)[name].types)
        if not per_channel:
            theta[whole.start : whole.start + block.size] = best[block.start : block.start + block.size]
            continue
        for channel, offset in block.offset.items():
            n_bins, start = side.channels[channel], whole.start + whole.offset[channel]
            theta[start : start + n_bins] = best[block.start + offset : block.start + offset + n_bins]
    for name, value in at.items():
        theta[model.index_of(name)] = value
    return theta
