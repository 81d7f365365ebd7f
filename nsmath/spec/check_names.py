"""Names: what may occur once only, and what one name may mean."""

from collections.abc import Iterable, Iterator

from nsmath.errors import WorkspaceError
from nsmath.spec.modifiers import MODIFIERS
from nsmath.spec.records import Channel, Measurement, Modifier, Observation
from nsmath.spec.uses import Spot, path_of

__all__ = ["check_names", "check_sharing"]


def check_names(
    channels: tuple[Channel, ...],
    observations: tuple[Observation, ...],
    measurements: tuple[Measurement, ...],
) -> Iterator[WorkspaceError]:
    """What is wrong with names: two channels, samples of a channel, observations or configurations of one."""
    yield from _once([channel.name for channel in channels], "channel", "channels")
    for index, channel in enumerate(channels):
        yield from _once([sample.name for sample in channel.samples], "sample", f"channels[{index}].samples")
    yield from _once([observation.name for observation in observations], "observation", "observations")
    yield from _once([measurement.name for measurement in measurements], "measurement", "measurements")
    for index, measurement in enumerate(measurements):
        names = [config.name for config in measurement.parameters]
        yield from _once(names, "configuration of the parameter", f"measurements[{index}].config.parameters")


def _once(names: Iterable[str], what: str, path: str) -> Iterator[WorkspaceError]:
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        if name in first:
            yield WorkspaceError(
                f"a second {what} '{name}'; the first is {path}[{first[name]}]. Rename or remove one.",
                f"{path}[{index}]",
            )
        first.setdefault(name, index)


def check_sharing(channels: tuple[Channel, ...]) -> Iterator[WorkspaceError]:
    """What is wrong with shared names: a type used twice on a sample, uses that cannot share a parameter.

    Which can, the rows of `MODIFIERS` say.
    """
    first_uses: dict[str, dict[str, Spot]] = {}  # parameter name -> type -> first use
    for c, channel in enumerate(channels):
        for s, sample in enumerate(channel.samples):
            here: set[tuple[str, str]] = set()
            for m, modifier in enumerate(sample.modifiers):
                key = (modifier.name, modifier.type)
                if key in here:
                    yield WorkspaceError(
                        f"a second {modifier.type} '{modifier.name}' on the same sample. Tools differ in "
                        "what that means: combine the two into one, or give them different names.",
                        path_of((c, s, m)),
                    )
                    continue
                here.add(key)
                uses = first_uses.setdefault(modifier.name, {})
                if len(uses) != 1 or modifier.type not in uses or MODIFIERS[modifier.type].shared == "nowhere":
                    yield from _check_new_use(modifier, uses, (c, s, m), channels)
                    uses.setdefault(modifier.type, (c, s, m))


def _check_new_use(
    modifier: Modifier, uses: dict[str, Spot], spot: Spot, channels: tuple[Channel, ...]
) -> Iterator[WorkspaceError]:
    row = MODIFIERS[modifier.type]
    if row.name in uses and row.shared == "nowhere":
        yield WorkspaceError(
            f"{row.name} '{modifier.name}' is used before, at {_where(uses[row.name], channels)}. Its "
            "parameters belong to one sample only: give each use a name of its own (staterror is the type "
            "whose parameters are shared by samples).",
            path_of(spot),
        )
    for other, first in uses.items():
        if other != row.name and other not in row.shares_with:
            yield WorkspaceError(
                f"{row.name} '{modifier.name}' has the name of a {other}, at {_where(first, channels)}. Only "
                "normsys and histosys can share a parameter: rename one of the two.",
                path_of(spot),
            )


def _where(spot: Spot, channels: tuple[Channel, ...]) -> str:
    channel = channels[spot[0]]
    return f"{path_of(spot)} (channel '{channel.name}', sample '{channel.samples[spot[1]].name}')"
