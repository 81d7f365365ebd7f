"""Shapes and values of templates, uncertainties and observations.

The number of bins of a channel is that of its first sample; the rest of the channel is held against it.
"""

from collections.abc import Iterator

from nsmath.errors import WorkspaceError
from nsmath.spec.records import Channel, LoHi, LoHiData, Modifier, Observation, Sample
from nsmath.spec.uses import Spot, each_modifier, path_of
from nsmath.spec.wording import counted, listed, nearest

__all__ = ["check_observed", "check_samples"]


def check_samples(channels: tuple[Channel, ...]) -> Iterator[WorkspaceError]:
    """What is wrong with values: templates of unequal length, normsys factors or uncertainties below 0."""
    for c, channel in enumerate(channels):
        for s, sample in enumerate(channel.samples):
            if len(sample.data) != channel.n_bins:
                yield WorkspaceError(
                    f"the sample has {counted(len(sample.data), 'bin')}, but the channel's first sample "
                    f"'{channel.samples[0].name}' has {channel.n_bins}. "
                    "Give all samples of a channel the same bins.",
                    f"channels[{c}].samples[{s}].data",
                )
    for spot, _, sample, modifier in each_modifier(channels):
        data = modifier.data
        if isinstance(data, LoHi):
            if data.lo <= 0 or data.hi <= 0:
                yield _refused_factors(modifier, data, spot)
        elif isinstance(data, LoHiData):
            if not len(data.lo_data) == len(data.hi_data) == len(sample.data):
                lengths = {"lo_data": len(data.lo_data), "hi_data": len(data.hi_data)}
                yield _refused_lengths(modifier, sample, lengths, spot)
        elif data is not None:
            if len(data) != len(sample.data):
                yield _refused_lengths(modifier, sample, {"": len(data)}, spot)
            if min(data) < 0:
                yield _refused_uncertainty(modifier, data, spot)


def _refused_factors(modifier: Modifier, data: LoHi, spot: Spot) -> WorkspaceError:
    # Codes 1 and 4 interpolate in the logarithm of the factors, so both must be positive.
    key, factor = ("lo", data.lo) if data.lo <= 0 else ("hi", data.hi)
    return WorkspaceError(
        f"{modifier.type} '{modifier.name}' has {key} = {factor:g}; its interpolation needs lo > 0 and "
        "hi > 0. Use histosys for a yield that vanishes or changes sign.",
        f"{path_of(spot)}.data.{key}",
    )


def _refused_lengths(modifier: Modifier, sample: Sample, lengths: dict[str, int], spot: Spot) -> WorkspaceError:
    key, length = next((key, length) for key, length in lengths.items() if length != len(sample.data))
    return WorkspaceError(
        f"{modifier.type} '{modifier.name}' has {counted(length, 'value')}, but sample '{sample.name}' has "
        f"{counted(len(sample.data), 'bin')}. Give one value per bin.",
        f"{path_of(spot)}.data{'.' if key else ''}{key}",
    )


def _refused_uncertainty(modifier: Modifier, data: tuple[float, ...], spot: Spot) -> WorkspaceError:
    b = next(b for b, uncertainty in enumerate(data) if uncertainty < 0)
    return WorkspaceError(
        f"{modifier.type} '{modifier.name}' has the uncertainty {data[b]:g} in bin {b}; expected an absolute "
        "uncertainty of at least 0. Use its magnitude, or 0 for none.",
        f"{path_of(spot)}.data[{b}]",
    )


def check_observed(channels: tuple[Channel, ...], observations: tuple[Observation, ...]) -> Iterator[WorkspaceError]:
    """What is wrong with observations: one is missing or of another length, or has negative numbers of events."""
    by_name = {observation.name: (index, observation) for index, observation in enumerate(observations)}
    for c, channel in enumerate(channels):
        if channel.name not in by_name:
            yield WorkspaceError(
                f"channel '{channel.name}' has no observation; there are observations of {listed(by_name)}."
                f"{nearest(channel.name, by_name)} Add one of {counted(channel.n_bins, 'bin')}.",
                f"channels[{c}]",
            )
            continue
        index, observation = by_name[channel.name]
        if len(observation.data) != channel.n_bins:
            yield WorkspaceError(
                f"the observation has {counted(len(observation.data), 'bin')}, but channel '{channel.name}' "
                f"has {channel.n_bins}. Give one number of events per bin.",
                f"observations[{index}].data",
            )
    for index, observation in enumerate(observations):
        for b, n_events in enumerate(observation.data):
            if n_events < 0:
                yield WorkspaceError(
                    f"{n_events:g} events are observed in bin {b}; expected at least 0 (fractions are fine).",
                    f"observations[{index}].data[{b}]",
                )
