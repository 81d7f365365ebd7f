"""A workspace: what a pyhf JSON file says, checked when it is loaded and frozen from then on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nsmath.errors import ModelError, WorkspaceError
from nsmath.spec.check import check_workspace
from nsmath.spec.check_poi import poi_problem
from nsmath.spec.parse import VERSION, parse_workspace
from nsmath.spec.patch import Patch, apply_patches
from nsmath.spec.read import parse_json, read_bytes
from nsmath.spec.records import (
    Channel,
    LoadWarning,
    LoHi,
    LoHiData,
    Measurement,
    Modifier,
    ModifierData,
    Observation,
    ParameterConfig,
    Sample,
)
from nsmath.spec.warn import load_warnings
from nsmath.spec.wording import listed, names_along, nearest

__all__ = [
    "Channel",
    "LoHi",
    "LoHiData",
    "LoadWarning",
    "Measurement",
    "Modifier",
    "ModifierData",
    "Observation",
    "ParameterConfig",
    "Sample",
    "Workspace",
]


@dataclass(frozen=True, slots=True)
class Workspace:
    """What the file says: channels, observations and measurements, all in file order.

    Make one with `from_file`, `from_json` or `from_dict`: these check, the plain constructor does not.

    Attributes
    ----------
    channels : tuple of Channel
    observations : tuple of Observation
        Match them to channels by name (`observed`): their order is their own.
    measurements : tuple of Measurement
    version : str
        The version of the format, '1.0.0'.
    warnings : tuple of LoadWarning
        Everything legal that may still not be meant. Warnings never change what is computed.
    """

    channels: tuple[Channel, ...]
    observations: tuple[Observation, ...]
    measurements: tuple[Measurement, ...]
    version: str = VERSION
    warnings: tuple[LoadWarning, ...] = ()

    def __repr__(self) -> str:
        n_samples = sum(len(channel.samples) for channel in self.channels)
        n_bins = sum(channel.n_bins for channel in self.channels)
        return (
            f"<Workspace: {len(self.channels)} channels, {n_bins} bins, {n_samples} samples, "
            f"measurements {listed(self.measurement_names)}, {len(self.warnings)} warnings>"
        )

    @classmethod
    def from_dict(cls, spec: object, *, patches: Sequence[Patch] = ()) -> Workspace:
        """The workspace of a parsed document.

        Parameters
        ----------
        spec : mapping
            The document; a ``pyhf.Workspace`` is one. It is not changed.
        patches : sequence
            Applied in this order, see `nsmath.spec.apply_patches`.

        Raises
        ------
        WorkspaceError
            If the document is malformed or contradicts itself.
        PatchError
            If a patch cannot be applied.
        """
        if not patches or not isinstance(spec, Mapping):  # what is no object is refused before patching
            return cls._checked(spec)
        patched = apply_patches(spec, patches)
        try:
            return cls._checked(patched)
        except WorkspaceError as problem:
            number = f"{len(patches)} patches" if len(patches) > 1 else "the patch"
            message = f"{problem.message} (This is the workspace after {number}.)"
            raise WorkspaceError(message, problem.path, problem.names) from None

    @classmethod
    def _checked(cls, spec: object) -> Workspace:
        try:
            channels, observations, measurements = parse_workspace(spec)
            uses = check_workspace(channels, observations, measurements)
        except WorkspaceError as problem:
            names = names_along(spec, problem.path)
            raise WorkspaceError(problem.message, problem.path, names) from None
        warnings = load_warnings(channels, observations, measurements, uses)
        return cls(channels, observations, measurements, VERSION, warnings)

    @classmethod
    def from_json(cls, raw: bytes | str, *, patches: Sequence[Patch] = ()) -> Workspace:
        """The workspace of a JSON document in memory; the rest as `from_dict`."""
        return cls.from_dict(parse_json(raw, "the workspace"), patches=patches)

    @classmethod
    def from_file(cls, path: str | Path, *, patches: Sequence[Patch] = ()) -> Workspace:
        """The workspace of a JSON file; the rest as `from_dict`."""
        return cls.from_dict(parse_json(read_bytes(path), f"'{path}'"), patches=patches)

    @property
    def measurement_names(self) -> tuple[str, ...]:
        """Names of the measurements, in file order."""
        return tuple(measurement.name for measurement in self.measurements)

    def measurement(self, name: str | None = None, *, poi: str | None = None) -> Measurement:
        """The measurement of that name, by default the first, with a POI that exists.

        Parameters
        ----------
        name : str or None
            None takes the first measurement of the file.
        poi : str or None
            Replaces the measurement's POI; the empty string means no POI.

        Raises
        ------
        ModelError
            If there is no such measurement, or if its POI is no scalar parameter of the model.
        """
        chosen = self.measurements[0] if name is None else self._find(name)
        if poi is not None:
            chosen = replace(chosen, poi=poi)
        problem = poi_problem(chosen, self.channels)
        if problem is not None:
            raise ModelError(f"measurement '{chosen.name}': {problem[1]}")
        return chosen

    def _find(self, name: str) -> Measurement:
        for measurement in self.measurements:
            if measurement.name == name:
                return measurement
        known = self.measurement_names
        raise ModelError(f"there is no measurement '{name}'; the file has {listed(known)}.{nearest(name, known)}")

    def observed(self, channel: str) -> tuple[float, ...]:
        """Observed events per bin of the channel of that name, shape (B,).

        Raises
        ------
        ModelError
            If there is no observation of that name.
        """
        for observation in self.observations:
            if observation.name == channel:
                return observation.data
        known = [observation.name for observation in self.observations]
        raise ModelError(
            f"there is no observation of channel '{channel}'; the file has {listed(known)}.{nearest(channel, known)}"
        )

    def warning_summary(self) -> list[str]:
        """One line per kind of warning, by first appearance: ``12 x no-effect: <the first message>``."""
        by_kind: dict[str, list[LoadWarning]] = {}
        for warning in self.warnings:
            by_kind.setdefault(warning.kind, []).append(warning)
        return [f"{len(found)} x {kind}: {found[0].message}" for kind, found in by_kind.items()]

    def to_dict(self) -> dict[str, object]:
        """The document as pyhf reads it: everything the file said, numbers as floats, warnings left out."""
        from nsmath.spec.unparse import unparse

        return unparse(self.channels, self.observations, self.measurements, self.version)
