"""Which parameters the modifiers ask for: one entry per name, with its types and number of values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nsmath.spec.modifiers import MODIFIERS, ModifierType
from nsmath.spec.records import Channel, Modifier, Sample

__all__ = ["ParameterUse", "Spot", "each_modifier", "parameter_uses", "path_of"]

# Where a modifier is: the indices of its channel, of its sample there, and of itself.
Spot = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class ParameterUse:
    """One parameter name, as the modifiers of a workspace use it.

    Attributes
    ----------
    name : str
    types : tuple of str
        The modifier types that use it, in order of first use.
    n_values : int
        Number of values: 1 for a scalar, else one per bin. A shapefactor has as many as its longest
        channel has bins; a staterror has those of its channels one after the other, in file order.
    """

    name: str
    types: tuple[str, ...]
    n_values: int

    @property
    def row(self) -> ModifierType:
        """The row of the first type; types that may share a name agree on everything about the parameter."""
        return MODIFIERS[self.types[0]]


def path_of(spot: Spot) -> str:
    """The JSON path of a modifier."""
    return "channels[{}].samples[{}].modifiers[{}]".format(*spot)


def each_modifier(channels: tuple[Channel, ...]) -> Iterator[tuple[Spot, Channel, Sample, Modifier]]:
    """Place, channel, sample and modifier of every modifier, in file order."""
    for c, channel in enumerate(channels):
        for s, sample in enumerate(channel.samples):
            for m, modifier in enumerate(sample.modifiers):
                yield (c, s, m), channel, sample, modifier


def parameter_uses(channels: tuple[Channel, ...]) -> dict[str, ParameterUse]:
    """All parameters by name, in order of first use."""
    types: dict[str, dict[str, None]] = {}
    bins: dict[str, dict[str, int]] = {}
    for channel in channels:
        n_bins = channel.n_bins
        for sample in channel.samples:
            for modifier in sample.modifiers:
                types.setdefault(modifier.name, {})[modifier.type] = None
                if MODIFIERS[modifier.type].per_bin:
                    bins.setdefault(modifier.name, {})[channel.name] = n_bins
    return {name: ParameterUse(name, tuple(found), _n_values(found, bins.get(name))) for name, found in types.items()}


def _n_values(types: dict[str, None], bins_by_channel: dict[str, int] | None) -> int:
    if bins_by_channel is None:
        return 1
    bins = bins_by_channel.values()
    return sum(bins) if MODIFIERS[next(iter(types))].shared == "channel" else max(bins)
