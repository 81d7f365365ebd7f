"""A study file as YAML: read with the safe loader, and stricter than it, for a study says a lot in few words."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from nsmath.errors import StudyError
from nsmath.spec.read import read_bytes

MERGE = "tag:yaml.org,2002:merge"


class _StrictLoader(yaml.SafeLoader):
    """Refuses a key that stands twice in one mapping; the safe loader takes the last one without a word."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        first: dict[object, int] = {}
        for key_node, _ in node.value:
            if key_node.tag == MERGE or not isinstance(key_node, yaml.ScalarNode):
                continue
            key = self.construct_object(key_node)
            line = key_node.start_mark.line + 1
            if key in first:
                raise StudyError(f"line {line}: the key {key!r} stands in line {first[key]} already. Remove one.")
            first[key] = line
        return super().construct_mapping(node, deep)


def parsed_study(path: Path) -> Any:
    """Return the parsed document; nothing about it is checked but that it is YAML.

    Raises
    ------
    StudyError
        No file, no YAML, several documents in it, or a key that stands twice.
    """
    raw = read_bytes(path, StudyError)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise StudyError(f"'{path}' is no text file in UTF-8, so no study.") from None
    try:
        document = yaml.load(text, _StrictLoader)
    except StudyError as error:
        raise StudyError(f"'{path}': {error}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        # A pattern such as *_700 begins like a reference.
        cure = " Put a text that begins with * in quotes." if "alias" in (error.problem or "") else ""
        raise StudyError(f"'{path}' is not valid YAML: {error.problem or error.context}{place}.{cure}") from None
    except yaml.YAMLError as error:
        raise StudyError(f"'{path}' is not valid YAML: {' '.join(str(error).split())}.") from None
    except RecursionError:
        raise StudyError(f"'{path}' is nested too deeply to be a study.") from None
    except ValueError as error:  # dates that do not exist, integers of thousands of digits
        raise StudyError(f"'{path}' holds a value that cannot be read: {error}.") from None
    if document is None:
        raise StudyError(f"'{path}' is empty. A study names a workspace and values of mu, see docs/studies.md.")
    return document
