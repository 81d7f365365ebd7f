"""A pyhf patch set: named JSON patches of one background-only workspace, which their digests identify."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from nsmath.errors import PatchError
from nsmath.spec.operations import apply_operations, checked_operations
from nsmath.spec.read import parse_json, read_bytes
from nsmath.spec.wording import counted, json_type, listed, nearest, shown

__all__ = ["PatchSet", "digest", "extracted"]

_VERSION = "1.0.0"
_ALGORITHMS = ("md5", "sha256")

PatchValue = float | int | str


def digest(spec: object, algorithm: str = "sha256") -> str:
    """The hexadecimal digest by which a patch set knows its workspace.

    Parameters
    ----------
    spec : JSON document
        The parsed workspace, as the file holds it.
    algorithm : {'sha256', 'md5'}
        Taken of the document as pyhf writes it: JSON with sorted keys, not restricted to ASCII, in UTF-8.

    Raises
    ------
    PatchError
        If the document holds values that JSON has not.
    """
    import hashlib  # loads a cryptography library, which runs without a patch set do not need

    try:
        text = json.dumps(spec, sort_keys=True, ensure_ascii=False)
    except TypeError as problem:
        raise PatchError(f"the workspace has no digest: {problem}. Convert it to plain JSON values.") from None
    # Unpaired surrogates are legal in JSON, though not in UTF-8. The digest identifies and does not protect:
    # hosts that forbid MD5 for security still allow this.
    raw = text.encode("utf-8", "surrogatepass")
    return hashlib.new(algorithm, raw, usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True)
class PatchSet:
    """Named patches of one workspace.

    Attributes
    ----------
    names : tuple of str
        Names of the patches, in file order.
    values : tuple of tuples
        For each patch its point in the plane that `labels` span.
    labels : tuple of str
        What the values mean, such as masses.
    digests : dict of str to str
        Digest of the workspace by algorithm, 'md5' or 'sha256'.
    operations : tuple of lists
        For each patch its JSON patch operations (RFC 6902).
    """

    names: tuple[str, ...]
    values: tuple[tuple[PatchValue, ...], ...]
    labels: tuple[str, ...]
    digests: dict[str, str]
    operations: tuple[list[dict[str, object]], ...]

    def __repr__(self) -> str:
        return f"<PatchSet: {len(self.names)} patches {listed(self.names)} over {listed(self.labels)}>"

    @classmethod
    def from_file(cls, path: str | Path) -> PatchSet:
        """The patch set of a JSON file."""
        return cls.from_dict(parse_json(read_bytes(path, PatchError), f"'{path}'", PatchError), f"'{path}'")

    @classmethod
    def from_dict(cls, document: object, source: str = "the patch set") -> PatchSet:
        """The patch set of a parsed document.

        Parameters
        ----------
        document : mapping
            The document. Its prose (``description``, ``references``) is not looked at.
        source : str
            What to call it in messages.

        Raises
        ------
        PatchError
            If an entry is missing or of the wrong type, the number of values is not that of the labels,
            or two patches have the same name or the same values.
        """
        top = _object(document, source, ("metadata", "patches", "version"), only=True)
        if top["version"] != _VERSION:
            raise PatchError(f"{source}: version is {json_type(top['version'])}, expected the string '{_VERSION}'.")
        metadata = _object(top["metadata"], f"{source}: metadata", ("digests", "labels"))
        labels = _strings(metadata["labels"], f"{source}: metadata.labels")
        digests = _digests(metadata["digests"], f"{source}: metadata.digests")
        names: list[str] = []
        values: list[tuple[PatchValue, ...]] = []
        operations: list[list[dict[str, object]]] = []
        for index, entry in enumerate(_array(top["patches"], f"{source}: patches")):
            where = f"{source}: patches[{index}]"
            name, point, patch = _entry(entry, where, labels)
            if name in names:
                raise PatchError(
                    f"{where}: a second patch '{name}'; the first is patches[{names.index(name)}]. Rename one."
                )
            if point in values:
                first = values.index(point)
                raise PatchError(
                    f"{where}: patch '{name}' has the values {list(point)} of patch '{names[first]}', "
                    f"patches[{first}]. Each patch needs a point of its own."
                )
            names.append(name)
            values.append(point)
            operations.append(patch)
        return cls(tuple(names), tuple(values), labels, digests, tuple(operations))

    def chosen(self, names: Iterable[str], where: str) -> list[PatchSet]:
        """The patches with these names, or that match these patterns, each as a set of its own; in file order.

        Parameters
        ----------
        names : iterable of str
            Names, or patterns with ``*``, ``?`` and ``[...]``.
        where : str
            What to call the set in messages.

        Raises
        ------
        PatchError
            For a name or pattern that no patch has.
        """
        wanted: set[str] = set()
        for word in names:
            found = [name for name in self.names if name == word] or [n for n in self.names if fnmatchcase(n, word)]
            if not found:
                raise PatchError(
                    f"'{word}' is no patch of {where}; it has {listed(self.names)}.{nearest(word, self.names)}"
                )
            wanted.update(found)
        rows = zip(self.names, self.values, self.operations, strict=True)
        return [
            PatchSet((name,), (values,), self.labels, self.digests, (operations,))
            for name, values, operations in rows
            if name in wanted
        ]

    def patch(self, name: str) -> list[dict[str, object]]:
        """The operations of the patch of that name.

        Raises
        ------
        PatchError
            If there is none; the message lists the names and proposes the nearest.
        """
        if name not in self.names:
            raise PatchError(
                f"the patch set has no patch '{name}'; it has {listed(self.names)}.{nearest(name, self.names)}"
            )
        return self.operations[self.names.index(name)]

    def verify(self, spec: object) -> None:
        """Refuse a workspace that is not the one this patch set was made for.

        Raises
        ------
        PatchError
            If a digest differs; the message gives both.
        """
        for algorithm, expected in self.digests.items():
            got = digest(spec, algorithm)
            if got != expected.lower():
                raise PatchError(
                    f"the patch set was made for another workspace: the {algorithm} digest of this one is "
                    f"{got}, expected {expected}. Take the unchanged background-only workspace that was "
                    "published with it."
                )

    def apply(self, spec: Mapping[str, object], name: str) -> dict[str, object]:
        """A new document: the workspace with the patch of that name, after verifying the digests.

        Raises
        ------
        PatchError
            If the workspace is another, there is no such patch, or it cannot be applied.
        """
        operations = self.patch(name)
        self.verify(spec)
        return apply_operations(spec, operations, f"patch '{name}'")


def extracted(
    document: object, name: str, *, with_metadata: bool = False, source: str = "the patch set"
) -> list[dict[str, object]] | dict[str, object]:
    """One patch of a parsed patch set, as a JSON document of its own.

    Parameters
    ----------
    document : mapping
        The patch set.
    name : str
    with_metadata : bool
        The operations in an object with the metadata of the patch and of the set, instead of alone.
    source : str
        What to call the patch set in messages.

    Raises
    ------
    PatchError
        If the document is no patch set, or has no such patch.
    """
    patch_set = PatchSet.from_dict(document, source)
    operations = patch_set.patch(name)
    if not with_metadata:
        return operations
    top = _object(document, source, ())
    entry = _object(_array(top["patches"], source)[patch_set.names.index(name)], source, ())
    own, common = _object(entry["metadata"], source, ()), _object(top["metadata"], source, ())
    return {"metadata": {**own, **common}, "patch": operations}


def _entry(
    value: object, where: str, labels: tuple[str, ...]
) -> tuple[str, tuple[PatchValue, ...], list[dict[str, object]]]:
    entry = _object(value, where, ("metadata", "patch"), only=True)
    metadata = _object(entry["metadata"], f"{where}.metadata", ("name", "values"))
    name = metadata["name"]
    if not isinstance(name, str) or not name:
        raise PatchError(f"{where}.metadata.name: got {json_type(name)}, expected a name.")
    values = _array(metadata["values"], f"{where}.metadata.values", least=0)
    for index, number in enumerate(values):
        if isinstance(number, bool) or not isinstance(number, int | float | str):
            raise PatchError(f"{where}.metadata.values[{index}]: got {json_type(number)}, expected a number or string.")
    if len(values) != len(labels):
        raise PatchError(
            f"{where}: patch '{name}' has {counted(len(values), 'value')}, expected {len(labels)}, one for "
            f"each of the labels {listed(labels)}."
        )
    return name, tuple(values), checked_operations(entry["patch"], f"{where} '{name}'")


def _digests(value: object, where: str) -> dict[str, str]:
    found = _object(value, where, ())
    for algorithm, text in found.items():
        if algorithm not in _ALGORITHMS:
            raise PatchError(f"{where}: unknown algorithm {shown(algorithm)}, expected {listed(_ALGORITHMS)}.")
        if not isinstance(text, str):
            raise PatchError(f"{where}.{algorithm}: got {json_type(text)}, expected a string.")
    if not found:
        raise PatchError(f"{where}: it is empty. Give the sha256 digest of the workspace.")
    return {str(algorithm): str(text) for algorithm, text in found.items()}


def _object(value: object, where: str, required: tuple[str, ...], only: bool = False) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise PatchError(f"{where}: got {json_type(value)}, expected an object.")
    for key in required:
        if key not in value:
            raise PatchError(f"{where}: the key '{key}' is missing; it has {listed(map(str, value))}.")
    for key in value:
        if only and key not in required:
            raise PatchError(f"{where}: unknown key {shown(key)}; expected {listed(required)}. Remove it.")
    return value


def _array(value: object, where: str, least: int = 1) -> list[PatchValue]:
    if not isinstance(value, list | tuple):
        raise PatchError(f"{where}: got {json_type(value)}, expected an array.")
    if len(value) < least:
        raise PatchError(f"{where}: the array is empty; expected at least one entry.")
    return list(value)


def _strings(value: object, where: str) -> tuple[str, ...]:
    found = _array(value, where)
    for index, text in enumerate(found):
        if not isinstance(text, str):
            raise PatchError(f"{where}[{index}]: got {json_type(text)}, expected a string.")
    return tuple(str(text) for text in found)
