"""Everything in a workspace that is legal and may still not be what its author meant.

A warning never changes what is computed. `channels`, `samples` and so on are named in each message, since
the display of warnings may leave the JSON path out.
"""

from collections.abc import Iterator
from math import hypot

from nsmath.spec.check_poi import poi_problem_among
from nsmath.spec.modifiers import MODIFIERS
from nsmath.spec.records import (
    Channel,
    LoadWarning,
    LoHi,
    LoHiData,
    Measurement,
    Modifier,
    Observation,
    Sample,
)
from nsmath.spec.uses import ParameterUse, Spot, each_modifier, path_of
from nsmath.spec.wording import listed, nearest

__all__ = ["load_warnings"]


def load_warnings(
    channels: tuple[Channel, ...],
    observations: tuple[Observation, ...],
    measurements: tuple[Measurement, ...],
    uses: dict[str, ParameterUse],
) -> tuple[LoadWarning, ...]:
    """The warnings of a workspace that has passed `check_workspace`, in file order within each group."""
    return (
        *_of_observations(channels, observations),
        *_of_measurements(measurements, uses),
        *_of_variations(channels),
        *_of_uncertainties(channels),
        *_of_sharing(channels),
    )


def _of_observations(channels: tuple[Channel, ...], observations: tuple[Observation, ...]) -> Iterator[LoadWarning]:
    names = [channel.name for channel in channels]
    for index, observation in enumerate(observations):
        if observation.name not in names:
            yield LoadWarning(
                "unused-observation",
                f"observations[{index}]",
                f"observation '{observation.name}' belongs to no channel and is not used; the channels are "
                f"{listed(names)}.{nearest(observation.name, names)}",
            )


def _of_measurements(measurements: tuple[Measurement, ...], uses: dict[str, ParameterUse]) -> Iterator[LoadWarning]:
    for m, measurement in enumerate(measurements):
        path = f"measurements[{m}].config"
        for p, config in enumerate(measurement.parameters):
            if config.name not in uses:
                yield LoadWarning(
                    "unused-config",
                    f"{path}.parameters[{p}]",
                    f"measurement '{measurement.name}' configures '{config.name}', which no modifier uses."
                    f"{nearest(config.name, uses)}",
                )
        yield from _of_poi(measurement, uses, f"{path}.poi")


def _of_poi(measurement: Measurement, uses: dict[str, ParameterUse], path: str) -> Iterator[LoadWarning]:
    poi, where = measurement.poi, f"measurement '{measurement.name}'"
    problem = poi_problem_among(poi, uses)
    if problem is not None:
        kind, message = problem
        yield LoadWarning(kind, path, f"{where}: {message}")
    elif poi:
        if uses[poi].row.constraint != "none":
            yield LoadWarning(
                "constrained-poi",
                path,
                f"{where}: the POI '{poi}' is a {uses[poi].types[0]}, a constrained nuisance parameter.",
            )
        if any(config.fixed for config in measurement.parameters if config.name == poi):
            yield LoadWarning("fixed-poi", path, f"{where}: the POI '{poi}' is configured as fixed.")


def _of_variations(channels: tuple[Channel, ...]) -> Iterator[LoadWarning]:
    for spot, channel, sample, modifier in each_modifier(channels):
        data = modifier.data
        if isinstance(data, LoHi):
            same_lo, same_hi = data.lo == 1.0, data.hi == 1.0
        elif isinstance(data, LoHiData):
            same_lo, same_hi = data.lo_data == sample.data, data.hi_data == sample.data
        else:
            continue
        if (same_lo or same_hi) and any(sample.data):
            # A sample without events anywhere is a legal placeholder: nothing on it can have an effect.
            place = _place(channel, sample, modifier)
            if same_lo and same_hi:
                message = f"{place}: both variations equal the nominal, so it has no effect here."
                yield LoadWarning("no-effect", path_of(spot), message)
            else:
                side = "lower" if same_lo else "upper"
                message = f"{place}: the {side} variation equals the nominal, the other does not."
                yield LoadWarning("one-sided", path_of(spot), message)


Users = list[tuple[Spot, Sample, Modifier]]


def _of_uncertainties(channels: tuple[Channel, ...]) -> Iterator[LoadWarning]:
    # A name on several samples of a channel has one relative uncertainty for all of them together.
    joint: dict[tuple[int, str], Users] = {}
    for spot, _, sample, modifier in each_modifier(channels):
        if isinstance(modifier.data, tuple):
            joint.setdefault((spot[0], modifier.name), []).append((spot, sample, modifier))
    for (c, _), users in joint.items():
        yield from _of_gammas(channels[c], users)


def _of_gammas(channel: Channel, users: Users) -> Iterator[LoadWarning]:
    """Warnings about one set of per-bin parameters in one channel."""
    totals = [sum(bins) for bins in zip(*(sample.data for _, sample, _ in users), strict=True)]
    errors = [hypot(*bins) for bins in zip(*(_per_bin(modifier) for *_, modifier in users), strict=True)]
    large = [b for b, (error, total) in enumerate(zip(errors, totals, strict=True)) if error > total > 0]
    if large:
        spot, sample, modifier = users[0]
        message = f"the uncertainty is larger than the yield in {_bins(large)}."
        yield LoadWarning("large-uncertainty", path_of(spot), f"{_place(channel, sample, modifier)}: {message}")
    for spot, sample, modifier in users:
        per_bin = enumerate(zip(_per_bin(modifier), sample.data, strict=True))
        empty = [b for b, (error, events) in per_bin if error > 0 and events <= 0]
        inert = [b for b in empty if totals[b] <= 0]
        counted = [b for b in empty if totals[b] > 0]
        place = f"{_place(channel, sample, modifier)}: an uncertainty on a yield that is not positive in"
        if inert:
            message = f"{place} {_bins(inert)}; its parameter is fixed at 1 there."
            yield LoadWarning("uncertainty-on-zero", path_of(spot), message)
        if counted:
            message = (
                f"{place} {_bins(counted)}; it counts in the joint relative uncertainty of the samples "
                "with this modifier."
            )
            yield LoadWarning("uncertainty-on-zero", path_of(spot), message)


def _of_sharing(channels: tuple[Channel, ...]) -> Iterator[LoadWarning]:
    users: dict[str, dict[str, tuple[Spot, str]]] = {}
    for spot, channel, _, modifier in each_modifier(channels):
        if MODIFIERS[modifier.type].shared == "channel":
            users.setdefault(modifier.name, {}).setdefault(channel.name, (spot, modifier.type))
    for name, by_channel in users.items():
        if len(by_channel) > 1:
            spot, kind = list(by_channel.values())[1]
            yield LoadWarning(
                "uncorrelated-staterror",
                path_of(spot),
                f"{kind} '{name}' is used in the channels {listed(by_channel)}; each has parameters of its "
                "own, so it does not correlate the channels.",
            )


def _per_bin(modifier: Modifier) -> tuple[float, ...]:
    assert isinstance(modifier.data, tuple)  # by the row of its type
    return modifier.data


def _place(channel: Channel, sample: Sample, modifier: Modifier) -> str:
    return f"channel '{channel.name}', sample '{sample.name}', {modifier.type} '{modifier.name}'"


def _bins(indices: list[int]) -> str:
    return f"bin{'s' if len(indices) > 1 else ''} {', '.join(map(str, indices))}"
