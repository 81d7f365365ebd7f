"""`Study`: what a study file means, its points laid out one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nsmath.errors import NsmathError, OptionError, PatchError, StudyError
from nsmath.formulas.interpolation import interpolation
from nsmath.paths import EXAMPLE, EXAMPLE_WORD
from nsmath.spec.patch import split_name
from nsmath.spec.patchset import PatchSet, PatchValue
from nsmath.study.document import parsed_study
from nsmath.study.keys import DEFAULTS, POINT_KEYS, checked_document
from nsmath.study.tasks import TASKS, Settings, Task, stopping_rule

RULE_KEYS = ("sigmas", "max_toys")
"""Keys that mean something beside a stopping rule only."""


@dataclass(frozen=True, slots=True)
class Point:
    """One model of a study.

    Attributes
    ----------
    name : unique in the study; the store's sub-folder is named after it.
    workspace : its file. patches : of the study file, FILE or FILE:NAME, applied in order.
    patch : a patch of a patch set, applied last. values : its point in the plane of the set, by label.
    settings : every key of `POINT_KEYS` with its value.
    error : why the point cannot be laid out further, such as a patch set that cannot be read.
    """

    name: str
    workspace: Path
    patches: tuple[str, ...]
    patch: PatchSet | None
    values: dict[str, PatchValue]
    settings: Settings
    error: str | None = None

    @property
    def source(self) -> str:
        """The workspace as a study file names it."""
        return EXAMPLE_WORD if self.workspace == EXAMPLE else str(self.workspace)

    @property
    def applied(self) -> list[str]:
        """All patches as FILE or FILE:NAME, in order."""
        last = [] if self.patch is None else [f"{self.settings['patchset']['path']}:{self.patch.names[0]}"]
        return [*self.patches, *last]


@dataclass(frozen=True, slots=True)
class Study:
    """A study with everything that it computes; all paths are complete.

    Attributes
    ----------
    source : the study file; None for a dictionary.
    """

    source: Path | None
    task_name: str
    points: tuple[Point, ...]
    threads: int | None
    backend: str
    gpu: str
    dtype: str | None
    store: Path | None
    output: str | None
    table: str | None

    @property
    def task(self) -> Task:
        """What is computed at every point."""
        return TASKS[self.task_name]

    @property
    def n_toys(self) -> int:
        """Toys of the whole study, as far as they are known before it has begun."""
        return sum(len(self.task.jobs(p.settings)) * self.task.n_toys(p.settings) for p in self.points)

    @property
    def inputs(self) -> list[Path]:
        """Every file that is read."""
        files = {point.workspace for point in self.points}
        for point in self.points:
            files |= {Path(_file_and_name(patch)[0]) for patch in point.patches}
            patchset = point.settings["patchset"]
            files |= {patchset["path"]} if patchset else set()
        return sorted(files | ({self.source} if self.source else set()))


def study_of(
    source: str | Path | Mapping[str, Any], *, folder: str | Path | None = None, **overrides: Any
) -> Study:  # fmt: skip
    """Return the study of a file, or of a dictionary with the same keys.

    Parameters
    ----------
    folder : what paths in a dictionary are relative to; the working folder when None. Those in a file are relative
        to the file's folder.
    overrides : ``store``, ``output``, ``table``, ``threads``, ``backend``, ``gpu``, ``dtype``, ``n_toys``, instead of
        what the study says at any place; None says nothing. Paths are as for the working folder.

    Raises
    ------
    StudyError
        What is wrong, and where; nothing has been computed.
    """
    if isinstance(source, Mapping):
        return _Layout(dict(source), None, Path(folder or "."), overrides).study()
    path = Path(source)
    document = parsed_study(path)
    try:
        return _Layout(document, path, path.parent, overrides).study()
    except StudyError as error:
        raise StudyError(f"{path}: {error}") from None


class _Layout:
    """Lays out the points of one document."""

    def __init__(self, document: object, source: Path | None, folder: Path, overrides: Mapping[str, Any]) -> None:
        self.given = checked_document(document)
        self.source, self.folder, self.overrides = source, folder, overrides
        self.patch_sets: dict[Path, PatchSet | PatchError] = {}

    def study(self) -> Study:
        """Return the study."""
        own = self.given.get("points", ({},))
        places = [f"points[{index}]" for index in range(len(own))] if "points" in self.given else [""]
        points: list[Point] = []
        where: dict[str, str] = {}
        for place, entry in zip(places, own, strict=True):
            for point in self._points(entry, place):
                if point.name in where:
                    raise StudyError(
                        f"{place or 'the study'}: a second point '{point.name}'; the first comes from "
                        f"{where[point.name] or 'the same place'}. Give each a 'name' of its own."
                    )
                where[point.name] = place
                points.append(point)
        self._check_rule_keys(points)
        store = self._path("store")
        return Study(
            source=self.source, task_name=self.given.get("task", DEFAULTS["task"]), points=tuple(points),
            threads=self._value("threads"), backend=self._value("backend"), gpu=self._value("gpu"),
            dtype=self._value("dtype"), store=store,
            output=self._target("output"), table=self._target("table"),
        )  # fmt: skip

    # -- points --------------------------------------------------------------------------------------------

    def _points(self, entry: Mapping[str, Any], place: str) -> list[Point]:
        """Return the points of one entry: every workspace with every patch."""
        settings = self._settings(entry, place)
        workspaces = self._workspaces(entry, place)
        patches = tuple(self._resolved(patch) for patch in settings["patches"] or ())
        sets, error = self._chosen(settings["patchset"], place)
        chosen: list[PatchSet | None] = list(sets) or [None]
        points = []
        for label, workspace in workspaces.items():
            for patch in chosen:
                parts = [entry.get("name")]
                if len(workspaces) > 1 or (parts == [None] and settings["patchset"] is None):
                    parts.append(label)
                if parts[0] is None and "patches" in entry:
                    parts += [name or Path(file).stem for file, name in map(_file_and_name, patches)]
                if patch is not None:
                    parts.append(patch.names[0])
                elif settings["patchset"] is not None:
                    parts.append(settings["patchset"]["path"].stem)
                points.append(Point(
                    name="-".join(part for part in parts if part), workspace=workspace, patches=patches, patch=patch,
                    values={} if patch is None else dict(zip(patch.labels, patch.values[0], strict=True)),
                    settings=settings, error=error,
                ))  # fmt: skip
        return points

    def _settings(self, entry: Mapping[str, Any], place: str) -> dict[str, Any]:
        """Return all keys of a point: its own, else those of the study, else the defaults."""
        dot = f"{place}." if place else ""
        settings = {key.name: entry.get(key.name, self.given.get(key.name, key.default)) for key in POINT_KEYS}
        if self.overrides.get("n_toys") is not None:
            settings["n_toys"] = self.overrides["n_toys"]
        task_name = self.given.get("task", DEFAULTS["task"])
        for name in TASKS[task_name].needs:
            if settings[name] is None:
                kind = next(key.kind for key in POINT_KEYS if key.name == name)
                raise StudyError(
                    f"{dot}{name}: missing; {task_name} needs it: {kind.words}." + (
                        " Give it here, or at the top for all points." if place else ""
                    )
                )  # fmt: skip
        codes = settings["interpolation"]
        if isinstance(codes, Mapping):
            codes = {**interpolation(DEFAULTS["interpolation"]).to_dict(), **codes}
        try:
            settings["interpolation"] = interpolation(codes).to_dict()
        except OptionError as error:
            raise StudyError(f"{dot if 'interpolation' in entry else ''}interpolation: {error}") from None
        try:
            stopping_rule(settings)
        except OptionError as error:
            raise StudyError(f"{place}: {error}" if place else str(error)) from None
        if settings["patchset"] is not None:
            path = Path(self._resolved(settings["patchset"]["file"]))
            settings["patchset"] = {**settings["patchset"], "path": path}
        return settings

    def _check_rule_keys(self, points: list[Point]) -> None:
        """Refuse numbers of a stopping rule where no rule is: they would say nothing."""
        entries = [(f"points[{i}].", entry) for i, entry in enumerate(self.given.get("points", ()))]
        for dot, entry in [("", self.given), *entries]:
            merged = entries if not dot and entries else [(dot, entry)]
            has_rule = any(
                e.get(key, self.given.get(key)) is not None for _, e in merged for key in ("cls_error", "decide")
            )
            for name in RULE_KEYS:
                if name in entry and not has_rule:
                    raise StudyError(f"{dot}{name}: no stopping rule is here; add cls_error or decide, or remove it.")

    def _workspaces(self, entry: Mapping[str, Any], place: str) -> dict[str, Path]:
        """Return the workspaces of an entry, by label."""
        single = entry.get("workspace", self.given.get("workspace"))
        several = self.given.get("workspaces") if "workspace" not in entry else None
        if several is None and single is None:
            dot = f"{place}." if place else ""
            raise StudyError(f"{dot}workspace: missing; expected a file, or 'example' for the one that nsmath ships.")
        if isinstance(several, Mapping):
            return {name: self._workspace(file) for name, file in several.items()}
        files = several or (single,)
        labels = [file if file == EXAMPLE_WORD else Path(file).stem for file in files]
        for index, label in enumerate(labels):
            if label in labels[:index]:
                raise StudyError(
                    f"workspaces[{index}]: a second '{label}'; make workspaces a mapping from names to files."
                )
        return {label: self._workspace(file) for label, file in zip(labels, files, strict=True)}

    # -- patch sets ----------------------------------------------------------------------------------------

    def _chosen(self, patchset: Mapping[str, Any] | None, place: str) -> tuple[list[PatchSet], str | None]:
        """Return the chosen patches, each as a set of its own, and why the set cannot be read if it cannot."""
        if patchset is None:
            return [], None
        whole = self._patch_set(patchset["path"])
        if isinstance(whole, PatchError):
            return [], str(whole)
        asked = patchset.get("names", ("all",))
        at = f"{place}.patchset.names" if "patchset" in (self._entry(place)) else "patchset.names"
        names = ["*" if word == "all" and word not in whole.names else word for word in asked]
        try:
            return whole.chosen(names, str(patchset["path"])), None
        except PatchError as error:
            raise StudyError(f"{at}: {error}") from None

    def _entry(self, place: str) -> Mapping[str, Any]:
        entry: Mapping[str, Any] = self.given["points"][int(place[7:-1])] if place else {}
        return entry

    def _patch_set(self, path: Path) -> PatchSet | PatchError:
        """Return a patch set, parsed once, or what is wrong with it."""
        if path not in self.patch_sets:
            try:
                self.patch_sets[path] = PatchSet.from_file(path)
            except PatchError as error:
                self.patch_sets[path] = error
        return self.patch_sets[path]

    # -- paths ---------------------------------------------------------------------------------------------

    def _resolved(self, text: str) -> str:
        return str(self.folder / text)

    def _workspace(self, text: str) -> Path:
        return EXAMPLE if text == EXAMPLE_WORD else self.folder / text

    def _value(self, name: str) -> Any:
        override = self.overrides.get(name)
        return self.given.get(name, DEFAULTS[name]) if override is None else override

    def _path(self, name: str) -> Path | None:
        if self.overrides.get(name) is not None:
            return Path(self.overrides[name])
        return self.folder / self.given[name] if name in self.given else None

    def _target(self, name: str) -> str | None:
        """Return the path of a file that is written; ``-`` stays what it is."""
        if self.overrides.get(name) is None and self.given.get(name) == "-":
            return "-"
        path = self._path(name)
        return None if path is None else str(path)


def _file_and_name(patch: str) -> tuple[str, str | None]:
    """Return file and name of FILE or FILE:NAME, whether or not the file is there."""
    try:
        return split_name(patch)
    except NsmathError:
        return patch, None
