"""Bytes to Python objects: JSON as strict as a likelihood deserves.

The standard library's reader is used because it can be asked about repeated keys, which a faster one
drops without a word.
"""

import json
from pathlib import Path

from nsmath.errors import NsmathError, WorkspaceError

__all__ = ["parse_json", "read_bytes"]


class _RefusedError(ValueError):
    """Something that JSON readers accept and a likelihood does not."""


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for index, key in enumerate(keys) if key in keys[:index])
        name = found.get("name")
        named = f" of the object named '{name}'" if isinstance(name, str) and repeated != "name" else ""
        raise _RefusedError(
            f"the key '{repeated}' occurs twice in one object{named} (keys: {', '.join(keys)}). "
            "Only one of the two values could be used: remove the other."
        )
    return found


def _no_constant(text: str) -> object:
    raise _RefusedError(f"{text} is no JSON number. Every number must be finite: replace it.")


def parse_json(raw: bytes | str, source: str, error: type[NsmathError] = WorkspaceError) -> object:
    """The parsed document.

    Parameters
    ----------
    raw : bytes or str
        The document; bytes in UTF-8, UTF-16 or UTF-32, with or without a byte order mark.
    source : str
        What to call it in messages: the file's name.
    error : type of NsmathError
        The error to raise for a document that is no JSON, repeats a key, or holds NaN or Infinity.
    """
    try:
        return json.loads(raw, object_pairs_hook=_object, parse_constant=_no_constant)
    except json.JSONDecodeError as problem:
        place = f"line {problem.lineno}, column {problem.colno}"
        raise error(f"{source} is not valid JSON: {problem.msg} at {place}.{_hint(raw)}") from None
    except _RefusedError as problem:
        raise error(f"{source}: {problem}") from None
    except UnicodeDecodeError:
        raise error(f"{source} is no text file in UTF-8, so no JSON document.{_hint(raw)}") from None
    except RecursionError:
        raise error(f"{source} is nested too deeply to be a workspace or patch.") from None
    except ValueError as problem:  # Python refuses to convert integers of thousands of digits
        raise error(f"{source} holds a number that cannot be read: {problem}") from None


def _hint(raw: bytes | str) -> str:
    head = raw[:200].encode("utf-8", "replace") if isinstance(raw, str) else raw[:200]
    if not head.strip():
        return " It is empty."
    if head.startswith(b"root"):
        return " It looks like a ROOT file; convert the HistFactory model to pyhf JSON first."
    if head.startswith(b"\x1f\x8b"):
        return " It is gzip-compressed; unpack it first."
    if head.lstrip().startswith(b"<"):
        return " It looks like XML; convert it with `pyhf xml2json` first."
    return ""


def read_bytes(path: str | Path, error: type[NsmathError] = WorkspaceError) -> bytes:
    """The content of a file, with a plain message where it cannot be read."""
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise error(f"there is no file '{path}'. Check the path; it is relative to '{Path.cwd()}'.") from None
    except IsADirectoryError:
        raise error(f"'{path}' is a folder. Name the JSON file in it.") from None
    except OSError as problem:
        raise error(f"'{path}' cannot be read: {problem.strerror or problem}.") from None
