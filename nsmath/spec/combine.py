"""Two workspaces joined into one; the joins are those of pyhf's ``Workspace.combine``.

The *first* workspace of a join has the say: the left one, but the right one in a right outer join.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nsmath.errors import OptionError, WorkspaceError
from nsmath.spec.edit import Document, Edited, Spec, each_modifier, edited, plain
from nsmath.spec.modifiers import MODIFIERS
from nsmath.spec.wording import listed, nearest

__all__ = ["JOINS", "combined"]

JOINS: dict[str, str] = {
    "none": "all names must differ",
    "outer": "parts of the same name must be the same",
    "left outer": "of parts of the same name the left one is kept",
    "right outer": "of parts of the same name the right one is kept",
}


def combined(left: Spec, right: Spec, *, join: str = "none", merge_channels: bool = False) -> Edited:
    """The workspace of two workspaces: modifiers of the same name in both share their parameter.

    Parameters
    ----------
    left, right : Workspace or mapping
    join : {'none', 'outer', 'left outer', 'right outer'}
        What happens to channels, observations and measurements that both have: see `JOINS`. An outer join makes one
        measurement of two of the same name and POI, if their configurations agree.
    merge_channels : bool
        Samples of the second workspace are added to the channel of the same name in the first. The observations must
        be the same in an outer join, and are those of the first otherwise.

    Raises
    ------
    OptionError
        If there is no such join, or ``merge_channels`` comes without an outer one.
    WorkspaceError
        If the two contradict each other, or the result itself.

    Notes
    -----
    pyhf drops a sample without a word where channels are merged and both have one of that name. Here an outer join
    refuses two that differ; the other joins drop the second one, as everything that they drop, with a note.
    """
    if join not in JOINS:
        raise OptionError(f"there is no join '{join}'; expected {listed(JOINS)}.{nearest(join, JOINS)}")
    if merge_channels and join == "none":
        raise OptionError("channels are merged by name, so a join is needed: 'outer', 'left outer' or 'right outer'.")
    first, second = plain(left), plain(right)
    if join == "right outer":
        first, second = second, first
    notes: list[str] = []
    document = {
        "channels": _channels(first["channels"], second["channels"], join, merge_channels, notes),
        "observations": _joined(first["observations"], second["observations"], join, "observation", notes),
        "measurements": _measurements(first["measurements"], second["measurements"], join, notes),
        "version": first["version"],
    }
    shared = _shareable(first) & _shareable(second)
    if shared:
        notes.append(f"modifiers that both have, so correlated: {listed(sorted(shared))}")
    return edited(document, notes, "combining")


def _shareable(document: Document) -> set[str]:
    """Names of modifiers whose parameters reach beyond a channel."""
    return {
        modifier["name"] for modifier in each_modifier(document) if MODIFIERS[modifier["type"]].shared == "everywhere"
    }


def _joined(
    first: Sequence[Document], second: Sequence[Document], join: str, what: str, notes: list[str]
) -> list[Document]:
    """The parts of the first, then those of the second that it has not."""
    found = {part["name"]: part for part in first}
    added: list[Document] = []
    for part in second:
        name = part["name"]
        if name not in found:
            added.append(part)
        elif join == "none":
            raise WorkspaceError(
                f"both workspaces have the {what} '{name}'. Rename one (`nsmath rename`), or choose another join: "
                f"{listed(key for key in JOINS if key != 'none')}."
            )
        elif part != found[name]:
            if join == "outer":
                raise WorkspaceError(
                    f"{what} '{name}' is not the same in both workspaces ({_difference(found[name], part)}). "
                    "Rename one, or choose the join 'left outer' or 'right outer' to keep one of the two."
                )
            notes.append(f"{what} '{name}' of the {_side(join)} workspace dropped: the other one is kept")
    return [*first, *added]


def _side(join: str) -> str:
    return "left" if join == "right outer" else "right"


def _difference(one: Document, other: Document) -> str:
    """Which entries of two parts differ, in words."""
    differing = [key for key in dict.fromkeys([*one, *other]) if one.get(key) != other.get(key)]
    return f"they differ in {listed(differing)}"


def _channels(
    first: Sequence[Document], second: Sequence[Document], join: str, merge: bool, notes: list[str]
) -> list[Document]:
    if not merge:
        return _joined(first, second, join, "channel", notes)
    theirs = {channel["name"]: channel for channel in second}
    merged = []
    for channel in first:
        name = channel["name"]
        if name in theirs:
            what = f"channel '{name}': sample"
            samples = _joined(channel["samples"], theirs[name]["samples"], join, what, notes)
            n_added = len(samples) - len(channel["samples"])
            notes.append(f"channel '{name}' merged: {n_added} samples of the {_side(join)} workspace added")
            channel = {**channel, "samples": samples}
        merged.append(channel)
    names = {channel["name"] for channel in first}
    return [*merged, *(channel for channel in second if channel["name"] not in names)]


def _measurements(first: Sequence[Document], second: Sequence[Document], join: str, notes: list[str]) -> list[Document]:
    if join != "outer":
        return _joined(first, second, join, "measurement", notes)
    theirs = {measurement["name"]: measurement for measurement in second}
    found: list[Document] = []
    for measurement in first:
        name, config = measurement["name"], measurement["config"]
        if name in theirs:
            other: dict[str, Any] = theirs[name]["config"]
            if config["poi"] != other["poi"]:
                raise WorkspaceError(
                    f"measurement '{name}' has the POI '{config['poi']}' in the left and '{other['poi']}' in the "
                    "right workspace. Rename one of the measurements, or make the POIs the same."
                )
            what = f"measurement '{name}': configuration of"
            parameters = _joined(config["parameters"], other["parameters"], join, what, notes)
            config = {**config, "parameters": parameters}
        found.append({**measurement, "config": config})
    names = {measurement["name"] for measurement in first}
    return [*found, *(measurement for measurement in second if measurement["name"] not in names)]
