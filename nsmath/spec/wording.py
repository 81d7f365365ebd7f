"""Pieces of messages: values cut short, lists of names, the nearest name, places in words."""

import re
from collections.abc import Iterable, Mapping, Sequence

__all__ = ["counted", "json_type", "listed", "names_along", "nearest", "shown"]

_LONGEST_VALUE = 60
_MOST_NAMES = 10
_STEP = re.compile(r"(\w+)\[(\d+)\]")
_ROLE = {
    "channels": "channel",
    "samples": "sample",
    "modifiers": "modifier",
    "observations": "observation",
    "measurements": "measurement",
    "parameters": "parameter",
}


def shown(value: object) -> str:
    """The value as Python writes it, cut to one short line."""
    try:
        text = repr(value)
    except ValueError:  # Python refuses to write integers of thousands of digits
        text = f"{type(value).__name__} of too many digits"
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


def counted(number: int, noun: str) -> str:
    """The number with its noun: ``1 bin``, ``2 bins``."""
    plural = {"entry": "entries"}.get(noun, f"{noun}s")
    return f"{number} {noun if number == 1 else plural}"


def json_type(value: object) -> str:
    """What the value is in the words of JSON, with the value where that is short."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return f"an array of {len(value)}"
    if isinstance(value, str):
        return f"the string {shown(value)}"
    if isinstance(value, int | float):
        return f"the number {shown(value)}"
    return f"a Python {type(value).__name__}"


def listed(names: Iterable[str]) -> str:
    """The names in quotes, at most ten of them; 'none' if there are none."""
    names = list(names)
    text = ", ".join(f"'{name}'" for name in names[:_MOST_NAMES]) or "none"
    left = len(names) - _MOST_NAMES
    return f"{text} and {left} more" if left > 0 else text


def nearest(name: str, names: Iterable[str]) -> str:
    """A sentence that proposes the nearest of the names, with a leading blank; empty if none is near."""
    import difflib  # only needed once something is wrong

    by_folded = {known.casefold(): known for known in names}
    found = difflib.get_close_matches(name.casefold(), by_folded, n=1)
    return f" Did you mean '{by_folded[found[0]]}'?" if found else ""


def names_along(spec: object, path: str) -> str:
    """The named objects along a JSON path: ``channel 'SR', sample 'ttbar', modifier 'jes'``.

    Works on documents that are not valid: it stops where the path stops to make sense.
    """
    words: list[str] = []
    for key, index in _STEP.findall(path):
        spec = spec.get("config", spec) if isinstance(spec, Mapping) and key == "parameters" else spec
        items = spec.get(key) if isinstance(spec, Mapping) else None
        if not isinstance(items, Sequence) or isinstance(items, str) or int(index) >= len(items):
            break
        spec = items[int(index)]
        name = spec.get("name") if isinstance(spec, Mapping) else None
        if key in _ROLE and isinstance(name, str):
            words.append(f"{_ROLE[key]} '{name}'")
    return ", ".join(words)
