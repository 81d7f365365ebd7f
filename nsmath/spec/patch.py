"""Patches as a user names them, FILE or FILE:NAME, applied to a workspace in order."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from nsmath.errors import PatchError
from nsmath.spec.operations import apply_operations, checked_operations
from nsmath.spec.patchset import PatchSet
from nsmath.spec.read import parse_json, read_bytes
from nsmath.spec.wording import json_type, listed

__all__ = ["Patch", "PatchSet", "apply_patches", "split_name"]

Patch = str | Path | Sequence[Mapping[str, object]] | Mapping[str, object] | PatchSet

_DRIVE = re.compile(r"[A-Za-z]")


def apply_patches(spec: Mapping[str, object], patches: Sequence[Patch]) -> dict[str, object]:
    """A new document: the workspace with all patches applied, in order; the given one is not changed.

    Parameters
    ----------
    spec : mapping
        The parsed workspace.
    patches : sequence
        Each is one of: ``'FILE'``, a file that holds a JSON patch, or a patch set of exactly one patch;
        ``'FILE:NAME'``, the patch of that name in a patch set; a list of JSON patch operations; a parsed
        patch set of exactly one patch; one entry of a patch set (``metadata`` and ``patch``).

    Raises
    ------
    PatchError
        For the first patch that is malformed, does not belong to the workspace, or cannot be applied.

    Notes
    -----
    The digests of a patch set are held against the workspace as it was given and, if that fails, as the
    patches before have left it: either may be the one that the set was made for.
    """
    if isinstance(patches, str | Path | Mapping):
        raise PatchError(f"patches is {json_type(patches)}, expected a list of patches. Write [patch].")
    document: dict[str, object] = dict(spec)
    for index, patch in enumerate(patches):
        operations, chosen_from, where = _resolved(patch, f"patches[{index}]")
        if chosen_from is not None:
            _verify(chosen_from, spec, document, where)
        document = apply_operations(document, operations, where)
    return document


def _verify(patch_set: PatchSet, given: Mapping[str, object], current: dict[str, object], where: str) -> None:
    try:
        patch_set.verify(given)
    except PatchError as problem:
        try:
            patch_set.verify(current)
        except PatchError:
            raise PatchError(f"{where}: {problem}") from None


def _resolved(patch: Patch, where: str) -> tuple[list[dict[str, object]], PatchSet | None, str]:
    """The operations, the patch set that they come from if there is one, and a name for messages."""
    if isinstance(patch, str | Path):
        file, name = split_name(patch)
        document = parse_json(read_bytes(file, PatchError), f"'{file}'", PatchError)
        return _chosen(document, name, f"'{patch}'")
    return _chosen(patch, None, where)


def _chosen(document: object, name: str | None, where: str) -> tuple[list[dict[str, object]], PatchSet | None, str]:
    if isinstance(document, Mapping) and {"patch", "metadata"} == document.keys():
        document = document["patch"]
    if isinstance(document, Mapping):
        if "channels" in document:
            raise PatchError(f"{where} is a workspace, no patch. Give it as the workspace.")
        document = PatchSet.from_dict(document, where)
    if isinstance(document, PatchSet):
        return _from_set(document, name, where), document, where
    if name is not None:
        raise PatchError(f"{where}: the file is one plain JSON patch, without names. Leave ':{name}' away.")
    return checked_operations(document, where), None, where


def _from_set(patch_set: PatchSet, name: str | None, where: str) -> list[dict[str, object]]:
    if name is None:
        if len(patch_set.names) != 1:
            raise PatchError(
                f"{where} is a set of {len(patch_set.names)} patches; choose one as FILE:NAME. "
                f"The names are {listed(patch_set.names)}."
            )
        name = patch_set.names[0]
    try:
        return patch_set.patch(name)
    except PatchError as problem:
        raise PatchError(f"{where}: {problem}") from None


def split_name(patch: str | Path) -> tuple[str, str | None]:
    """File and patch name of ``'FILE'`` or ``'FILE:NAME'``.

    The last colon splits, unless a file of the whole name exists. A colon before a path separator, or after
    a single letter that is no file, belongs to a path (a Windows drive).

    Raises
    ------
    PatchError
        If there is no such file.
    """
    text = str(patch)
    if isinstance(patch, Path) or Path(text).is_file():
        return text, None
    file, colon, name = text.rpartition(":")
    in_path = "/" in name or "\\" in name or (_DRIVE.fullmatch(file) is not None and not Path(file).is_file())
    if not colon or in_path:
        return text, None
    if not Path(file).is_file():
        raise PatchError(f"there is no file '{file}' (nor '{text}') for the patch '{text}'. Check the path.")
    if not name:
        raise PatchError(f"'{text}': the name of the patch is missing after the colon.")
    return file, name
