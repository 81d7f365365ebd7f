"""New workspaces from old ones: parts removed, renamed, put in order, observations replaced.

All work on the JSON document, so that numbers stay as they were written and digests stay comparable. What goes in and
what comes out has passed the checks of the load. The meaning of each edit is that of pyhf's operation of that name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nsmath.errors import OptionError, WorkspaceError
from nsmath.spec.operations import copied
from nsmath.spec.wording import counted, listed, nearest
from nsmath.spec.workspace import Workspace

__all__ = ["Edited", "Spec", "edited", "ordered", "plain", "pruned", "renamed", "with_configs", "with_observations"]

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Edited:
    """A new workspace and what was done to get it.

    Attributes
    ----------
    document : dict
        The workspace, which has passed the checks of the load.
    notes : tuple of str
        What was removed, replaced or joined, one sentence each.
    """

    document: Document
    notes: tuple[str, ...]

    @property
    def workspace(self) -> Workspace:
        """The workspace of the document."""
        return Workspace.from_dict(self.document)

    def to_dict(self) -> Document:
        """Return the document."""
        return self.document

    def __repr__(self) -> str:
        return f"<Edited: {self.workspace!r}, {len(self.notes)} notes>"


Spec = Workspace | Mapping[str, Any] | Edited
"""What can be edited: a workspace, its parsed document, or the result of another edit."""


def plain(spec: Spec) -> Document:
    """A copy of the document of a workspace, after the checks of the load.

    Raises
    ------
    WorkspaceError
        If the document is malformed or contradicts itself.
    """
    if isinstance(spec, Workspace):
        return spec.to_dict()
    if not isinstance(spec, Edited):
        Workspace.from_dict(spec)
    document: Any = copied(spec.document if isinstance(spec, Edited) else spec)
    return dict(document)


def edited(document: Document, notes: Iterable[str], what: str) -> Edited:
    """The document with its notes, if it has remained a workspace; ``what`` was done to it.

    Raises
    ------
    WorkspaceError
        If it is none any more.
    """
    try:
        Workspace.from_dict(document)
    except WorkspaceError as problem:
        message = f"{problem.message} (This is the workspace after {what}.)"
        raise WorkspaceError(message, problem.path, problem.names) from None
    return Edited(document, tuple(notes))


def known(asked: Iterable[str], names: Collection[str], what: str) -> None:
    """Refuse names that the workspace does not have.

    Raises
    ------
    OptionError
        With the nearest name.
    """
    for name in asked:
        if name not in names:
            raise OptionError(
                f"the workspace has no {what} '{name}'; it has {listed(names)}.{nearest(name, names)} "
                "Nothing was changed."
            )


def each_sample(document: Document) -> Iterator[Document]:
    """Every sample of every channel, in file order."""
    for channel in document["channels"]:
        yield from channel["samples"]


def each_modifier(document: Document) -> Iterator[Document]:
    """Every modifier of every sample, in file order."""
    for sample in each_sample(document):
        yield from sample["modifiers"]


def _check_names(
    document: Document,
    channels: Iterable[str],
    samples: Iterable[str],
    modifiers: Iterable[str],
    measurements: Iterable[str],
) -> None:
    """Refuse channels, samples, modifiers and measurements that are not there."""
    known(channels, [channel["name"] for channel in document["channels"]], "channel")
    known(samples, list(dict.fromkeys(sample["name"] for sample in each_sample(document))), "sample")
    known(modifiers, list(dict.fromkeys(m["name"] for m in each_modifier(document))), "modifier")
    known(measurements, [measurement["name"] for measurement in document["measurements"]], "measurement")


def pruned(
    spec: Spec,
    *,
    channels: Collection[str] = (),
    samples: Collection[str] = (),
    modifiers: Collection[str] = (),
    modifier_types: Collection[str] = (),
    measurements: Collection[str] = (),
) -> Edited:
    """The workspace without some of its parts.

    Parameters
    ----------
    channels : names; their observations go too.
    samples : names; they go from every channel.
    modifiers : names; they go from every sample, and so do their configurations.
    modifier_types : such as ``histosys``; configurations stay, since other types may use them.
    measurements : names.

    Raises
    ------
    OptionError
        If there is no such name or type, or a channel would be left without samples.
    WorkspaceError
        If what is left is no workspace.
    """
    document = plain(spec)
    _check_names(document, channels, samples, modifiers, measurements)
    types = list(dict.fromkeys(m["type"] for m in each_modifier(document)))
    known(modifier_types, types, "modifier of type")
    notes = [f"channel '{name}' removed, with its observation" for name in channels]
    document["channels"] = [channel for channel in document["channels"] if channel["name"] not in channels]
    document["observations"] = [seen for seen in document["observations"] if seen["name"] not in channels]
    notes += _without_samples(document, samples)
    notes += _without_modifiers(document, modifiers, modifier_types)
    notes += [f"measurement '{name}' removed" for name in measurements]
    document["measurements"] = [m for m in document["measurements"] if m["name"] not in measurements]
    for measurement in document["measurements"]:
        config = measurement["config"]
        config["parameters"] = [entry for entry in config["parameters"] if entry["name"] not in modifiers]
    return edited(document, notes, "pruning")


def _without_samples(document: Document, samples: Collection[str]) -> Iterator[str]:
    where: dict[str, int] = dict.fromkeys(samples, 0)
    for channel in document["channels"]:
        for sample in channel["samples"]:
            if sample["name"] in samples:
                where[sample["name"]] += 1
        channel["samples"] = [sample for sample in channel["samples"] if sample["name"] not in samples]
        if not channel["samples"]:
            raise OptionError(
                f"channel '{channel['name']}' would be left without samples. Prune the channel as well, or keep one "
                "of its samples. Nothing was changed."
            )
    for name, n_channels in where.items():
        yield f"sample '{name}' removed from {counted(n_channels, 'channel')}"


def _without_modifiers(document: Document, names: Collection[str], types: Collection[str]) -> Iterator[str]:
    removed: dict[tuple[str, str], int] = {}
    for sample in each_sample(document):
        kept = []
        for modifier in sample["modifiers"]:
            if modifier["name"] in names or modifier["type"] in types:
                key = modifier["name"], modifier["type"]
                removed[key] = removed.get(key, 0) + 1
            else:
                kept.append(modifier)
        sample["modifiers"] = kept
    for (name, kind), n_samples in removed.items():
        yield f"{kind} '{name}' removed from {counted(n_samples, 'sample')}"


def renamed(
    spec: Spec,
    *,
    channels: Mapping[str, str] | None = None,
    samples: Mapping[str, str] | None = None,
    modifiers: Mapping[str, str] | None = None,
    measurements: Mapping[str, str] | None = None,
) -> Edited:
    """The workspace with other names, all changed at once; each mapping is from old to new.

    Parameters
    ----------
    channels : observations follow.
    modifiers : configurations and POIs follow. A name that is in use already makes two modifiers share a parameter,
        where the format allows that: a note says so.

    Raises
    ------
    OptionError
        If there is no such name.
    WorkspaceError
        If two parts that must differ would have the same name.
    """
    document = plain(spec)
    channels, samples, modifiers, measurements = (names or {} for names in (channels, samples, modifiers, measurements))
    _check_names(document, channels, samples, modifiers, measurements)
    in_use = {m["name"] for m in each_modifier(document)} - modifiers.keys()
    notes = []
    for what, names in (
        ("channel", channels),
        ("sample", samples),
        ("modifier", modifiers),
        ("measurement", measurements),
    ):
        notes += [f"{what} '{old}' is now '{new}'" for old, new in names.items()]
    targets = list(modifiers.values())
    for old, new in modifiers.items():
        if new in in_use or targets.count(new) > 1:
            notes.append(f"modifier '{old}' now shares the parameter '{new}' with others: they are correlated")
    for sample in each_sample(document):
        sample["name"] = samples.get(sample["name"], sample["name"])
    for modifier in each_modifier(document):
        modifier["name"] = modifiers.get(modifier["name"], modifier["name"])
    for part in (*document["channels"], *document["observations"]):
        part["name"] = channels.get(part["name"], part["name"])
    for measurement in document["measurements"]:
        measurement["name"] = measurements.get(measurement["name"], measurement["name"])
        config = measurement["config"]
        config["poi"] = modifiers.get(config["poi"], config["poi"])
        for entry in config["parameters"]:
            entry["name"] = modifiers.get(entry["name"], entry["name"])
    return edited(document, notes, "renaming")


def ordered(spec: Spec) -> Edited:
    """The workspace with channels, samples, modifiers, observations, measurements and configurations sorted by name.

    Workspaces that differ in order alone become the same, and have the same digest.
    """
    document = plain(spec)
    for channel in document["channels"]:
        channel["samples"].sort(key=_name)
    for sample in each_sample(document):
        sample["modifiers"].sort(key=lambda modifier: (modifier["name"], modifier["type"]))
    for measurement in document["measurements"]:
        measurement["config"]["parameters"].sort(key=_name)
    for key in ("channels", "observations", "measurements"):
        document[key].sort(key=_name)
    return edited(document, (), "sorting")


def _name(part: Document) -> str:
    name: str = part["name"]
    return name


def with_observations(spec: Spec, observed: Mapping[str, Sequence[float]]) -> Edited:
    """The workspace with other observations of some channels, each of shape (B,).

    Raises
    ------
    OptionError
        If there is no such channel.
    WorkspaceError
        If a number of bins is wrong, or a number of events negative.
    """
    document = plain(spec)
    known(observed, [channel["name"] for channel in document["channels"]], "channel")
    for seen in document["observations"]:
        if seen["name"] in observed:
            seen["data"] = [float(events) for events in observed[seen["name"]]]
    notes = [f"observation of channel '{name}' replaced" for name in observed]
    return edited(document, notes, "replacing observations")


def with_configs(spec: Spec, measurement: str, configs: Mapping[str, Mapping[str, Any]]) -> Edited:
    """The workspace with entries of parameter configurations set in one measurement; other entries stay.

    Raises
    ------
    OptionError
        If there is no such measurement.
    WorkspaceError
        If an entry has no meaning for its parameter.
    """
    document = plain(spec)
    known([measurement], [each["name"] for each in document["measurements"]], "measurement")
    (chosen,) = [each for each in document["measurements"] if each["name"] == measurement]
    entries = {entry["name"]: entry for entry in chosen["config"]["parameters"]}
    for name, config in configs.items():
        if name not in entries:
            entries[name] = {"name": name}
            chosen["config"]["parameters"].append(entries[name])
        entries[name].update(config)
    notes = [f"measurement '{measurement}': {', '.join(config)} of '{name}' set" for name, config in configs.items()]
    return edited(document, notes, "setting parameter configurations")
