"""Parameters: what the modifiers of a workspace need, with the measurement's configuration applied."""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass, replace
from typing import Literal

from nsmath.errors import ModelError
from nsmath.spec.modifiers import MODIFIERS
from nsmath.spec.workspace import Channel, Measurement, Modifier, ParameterConfig, Workspace

Constraint = Literal["none", "normal", "poisson"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One scalar parameter of the model.

    Attributes
    ----------
    name : as in the workspace; bin parameters carry their index, ``name[3]``.
    init, lower, upper : start value and bounds.
    is_fixed : never fitted, keeps ``init``.
    constraint : ``none``; ``normal``: auxdata ~ N(theta, scale); ``poisson``: auxdata ~ Pois(theta scale).
    scale : sigma of the normal, tau of the Poisson constraint.
    auxdata : observed value of the auxiliary measurement.
    """

    name: str
    init: float
    lower: float
    upper: float
    is_fixed: bool
    constraint: Constraint
    scale: float
    auxdata: float


@dataclass(frozen=True, slots=True)
class ParameterBlock:
    """Where the parameters of one modifier name lie, and what their bins are.

    ``offset`` maps a channel to its first element: staterror appends a channel's gammas after those of the
    channels before it; every other type starts at 0 in every channel.
    """

    start: int
    size: int
    offset: dict[str, int]


def _block_sizes(channels: tuple[Channel, ...]) -> dict[str, tuple[str, int, dict[str, int]]]:
    """Return name -> (type, number of parameters, channel offsets), in order of first appearance."""
    blocks: dict[str, tuple[str, int, dict[str, int]]] = {}
    for channel in channels:
        n_bins = len(channel.samples[0].data)
        for sample in channel.samples:
            for modifier in sample.modifiers:
                kind = MODIFIERS[modifier.type]
                known, size, offset = blocks.get(modifier.name, (modifier.type, 0, {}))
                if channel.name not in offset:
                    if kind.constraint == "normal" and kind.per_bin:
                        offset[channel.name] = size
                        size += n_bins
                    else:
                        offset[channel.name] = 0
                        size = max(size, n_bins if kind.per_bin else 1)
                blocks[modifier.name] = (known, size, offset)
    return blocks


def _by_bin(modifier: Modifier) -> tuple[float, ...]:
    """Return the data of a modifier that has one number per bin; the load check has seen to it."""
    assert isinstance(modifier.data, tuple)
    return modifier.data


def _staterror_scales(channels: tuple[Channel, ...], name: str) -> list[float]:
    """Return the relative errors of one staterror, channel by channel; 0 where nothing can vary.

    sigma_b = sqrt(sum_s delta_sb^2) / sum_s nominal_sb over the samples s that carry the modifier
    (HistFactory, CERN-OPEN-2012-016, section 4.2.2, in the light form that pyhf uses).
    """
    scales: list[float] = []
    for channel in channels:
        carriers = [(s, m) for s in channel.samples for m in s.modifiers if m.name == name]
        if not carriers:
            continue
        for b in range(len(channel.samples[0].data)):
            total = sum(sample.data[b] for sample, _ in carriers)
            error = math.sqrt(sum(_by_bin(modifier)[b] ** 2 for _, modifier in carriers))
            scales.append(error / total if total > 0.0 else 0.0)
    return scales


def _shapesys_scales(channels: tuple[Channel, ...], name: str, size: int) -> list[float]:
    """Return tau = (nominal / error)^2 of one shapesys; 0 where nothing can vary."""
    scales = [0.0] * size
    for channel in channels:
        for sample in channel.samples:
            for modifier in sample.modifiers:
                if modifier.name == name:
                    for b, (nominal, error) in enumerate(zip(sample.data, _by_bin(modifier), strict=True)):
                        if nominal > 0.0 and error > 0.0:
                            scales[b] = (nominal / error) ** 2
    return scales


def _scales(channels: tuple[Channel, ...], name: str, type_name: str, size: int) -> list[float]:
    kind = MODIFIERS[type_name]
    if kind.constraint == "poisson":
        return _shapesys_scales(channels, name, size)
    if kind.constraint == "normal" and kind.per_bin:
        return _staterror_scales(channels, name)
    return [1.0] * size


def _block_parameters(
    name: str, type_name: str, scales: list[float], config: ParameterConfig | None
) -> list[Parameter]:
    """Return the parameters of one modifier name with its configuration applied.

    An entry of ``scales`` that is 0 cannot vary: its gamma stays at 1 whatever the configuration says, with
    the inert constraint that pyhf gives it (a constant in the likelihood).
    """
    kind = MODIFIERS[type_name]
    size = len(scales)

    def configured(values: tuple[float, ...] | None, default: list[float]) -> list[float]:
        return default if values is None else [float(v) for v in values]

    is_inert = [scale == 0.0 for scale in scales]
    scales = [1.0 if inert else scale for scale, inert in zip(scales, is_inert, strict=True)]
    auxdata = list(scales) if kind.constraint == "poisson" else [kind.init] * size
    fixed = False
    if config is not None:
        auxdata = configured(config.auxdata, auxdata)
    init, default_bounds = kind.start(auxdata[0])
    inits, bounds = [init] * size, [default_bounds] * size
    if config is not None:
        inits = configured(config.inits, inits)
        if kind.constraint == "normal":
            scales = configured(config.sigmas, scales)
        bounds = [(float(lo), float(hi)) for lo, hi in config.bounds] if config.bounds else bounds
        fixed = bool(config.fixed)
    parameters = []
    for i in range(size):
        inert = is_inert[i]
        parameters.append(
            Parameter(
                name=f"{name}[{i}]" if kind.per_bin else name,
                init=1.0 if inert else inits[i],
                lower=bounds[i][0],
                upper=bounds[i][1],
                is_fixed=fixed or inert,
                constraint=kind.constraint,
                scale=scales[i],
                auxdata=auxdata[i],
            )
        )
    return parameters


def model_parameters(
    workspace: Workspace, channels: tuple[Channel, ...], measurement: Measurement
) -> tuple[list[Parameter], dict[str, ParameterBlock]]:
    """Return all parameters in order of first appearance, and the block of each modifier name."""
    configs = {config.name: config for config in measurement.parameters}
    parameters: list[Parameter] = []
    blocks: dict[str, ParameterBlock] = {}
    for name, (type_name, size, offset) in _block_sizes(channels).items():
        blocks[name] = ParameterBlock(len(parameters), size, offset)
        scales = _scales(channels, name, type_name, size)
        parameters += _block_parameters(name, type_name, scales, configs.get(name))
    return parameters, blocks


def poi_index(poi: str, parameters: list[Parameter], blocks: dict[str, ParameterBlock]) -> int | None:
    """Return the position of the parameter of interest; None when ``poi`` is empty.

    Raises
    ------
    ModelError
        No such parameter, or one with several elements named without an index.
    """
    if poi == "":
        return None
    names = [parameter.name for parameter in parameters]
    if poi in names:
        return names.index(poi)
    if poi in blocks:
        block = blocks[poi]
        if block.size == 1:
            return block.start
        raise ModelError(
            f"the parameter of interest {poi!r} has {block.size} elements; name one of them, "
            f"{names[block.start]!r} for instance."
        )
    near = difflib.get_close_matches(poi, names, 1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ModelError(
        f"no modifier makes the parameter of interest {poi!r}.{hint} Parameters: {', '.join(names[:20])}"
        + (", ..." if len(names) > 20 else ".")
    )


def widened(parameters: list[Parameter], poi: int | None, poi_max: float, measurement: str) -> list[Parameter]:
    """Return the parameters with ``poi_max`` as upper bound of the parameter of interest, at position ``poi``.

    Raises
    ------
    ModelError
        There is none, or the bound would not be finite or would be narrower than that of the measurement.
    """
    if poi is None:
        raise ModelError(
            f"poi_max is {poi_max:g}, but measurement {measurement!r} has no parameter of interest to widen. Name one "
            "(poi=NAME, --poi NAME)."
        )
    known = parameters[poi]
    if not known.upper <= poi_max < math.inf:
        raise ModelError(
            f"poi_max is {poi_max:g}; expected a finite number from {known.upper:g} on, the upper bound of "
            f"{known.name!r} in measurement {measurement!r}, which it widens. Narrow a bound in its configuration."
        )
    return [replace(known, upper=float(poi_max)) if i == poi else other for i, other in enumerate(parameters)]
