"""JSON patches (RFC 6902): a list of operations on a document, applied all or not at all."""

from collections.abc import Mapping, Sequence
from typing import Any

from nsmath.errors import PatchError
from nsmath.spec.wording import json_type, listed, nearest, shown

__all__ = ["apply_operations", "checked_operations"]

# What each operation needs beside "op" and "path".
_OPERATIONS: dict[str, str | None] = {
    "add": "value",
    "replace": "value",
    "test": "value",
    "remove": None,
    "move": "from",
    "copy": "from",
}


def checked_operations(value: object, where: str) -> list[dict[str, object]]:
    """The operations, if they have the form of a JSON patch.

    Parameters
    ----------
    value : list of mappings
    where : str
        What to call the patch in messages.

    Raises
    ------
    PatchError
        If an operation is unknown or lacks a part.
    """
    if not isinstance(value, list | tuple):
        raise PatchError(f"{where}: got {json_type(value)}, expected an array of JSON patch operations.")
    return [_checked(operation, f"{where}, operation {index}") for index, operation in enumerate(value)]


def _checked(operation: object, where: str) -> dict[str, object]:
    if not isinstance(operation, Mapping):
        raise PatchError(f"{where}: got {json_type(operation)}, expected an object with 'op' and 'path'.")
    name = operation.get("op")
    if not isinstance(name, str) or name not in _OPERATIONS:
        hint = nearest(name, _OPERATIONS) if isinstance(name, str) else ""
        raise PatchError(f"{where}: 'op' is {shown(name)}, expected one of {listed(_OPERATIONS)}.{hint}")
    needed = _OPERATIONS[name]
    if needed is not None and needed not in operation:
        raise PatchError(f"{where}: '{name}' needs '{needed}'; it has {listed(map(str, operation))}.")
    for key in ("path", "from"):
        pointer = operation.get(key)
        if (key == "path" or needed == key) and not _is_pointer(pointer):
            raise PatchError(
                f"{where}: '{key}' is {shown(pointer)}, expected a JSON pointer such as '/channels/0/name'."
            )
    return dict(operation)


def _is_pointer(value: object) -> bool:
    return isinstance(value, str) and (not value or value.startswith("/"))


def apply_operations(
    spec: Mapping[str, object], operations: Sequence[Mapping[str, object]], where: str
) -> dict[str, object]:
    """A new document: the patch applied to a copy of the given one.

    Parameters
    ----------
    spec : mapping
        Not changed, whether the patch applies or not.
    operations : sequence
        As `checked_operations` returns.
    where : str
        What to call the patch in messages.

    Raises
    ------
    PatchError
        For the first operation that cannot be applied, with its number and path.
    """
    document = copied(spec)
    for index, operation in enumerate(operations):
        # One at a time, to know which failed; the copy keeps later operations from changing the patch.
        document = _applied(document, copied(operation), f"{where}, operation {index}")
    if not isinstance(document, dict):
        raise PatchError(f"{where} leaves {json_type(document)} in the place of the workspace.")
    return document


def _applied(document: Any, operation: Any, where: str) -> object:
    import jsonpatch  # here, since most runs have no patch and every run would pay for the import

    what = f"{operation['op']} '{operation['path']}'"
    try:
        return jsonpatch.apply_patch(document, [operation], in_place=True)
    except jsonpatch.JsonPatchTestFailed as problem:
        raise PatchError(
            f"{where}: {what} failed, {shown(str(problem))}. The workspace is not the one that the patch was "
            "made for. Nothing was applied."
        ) from None
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, LookupError, TypeError) as problem:
        source = f" from '{operation['from']}'" if "from" in operation else ""
        raise PatchError(
            f"{where}: cannot {what}{source}: {shown(str(problem))}. The workspace has no such place: check "
            "the index and the order of the patches. Nothing was applied."
        ) from None


def copied(value: object) -> object:
    """A copy of a JSON document: plain dicts and lists all the way down."""
    if isinstance(value, Mapping):
        return {key: copied(entry) for key, entry in value.items()}
    return [copied(entry) for entry in value] if isinstance(value, list | tuple) else value
