"""Griffe extension: docstrings of this project, with entries like ``name : what it is``, for the reader of the site.

Types stand in the signatures, so what follows the colon is the description; numpydoc has that on a line of its own.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

SECTIONS = {"Parameters", "Attributes", "Returns"}
ENTRY = re.compile(r"^([*\w][\w*, ]*?) : (.*)$")


def as_numpydoc(text: str) -> str:
    """Return a docstring with the entries of its sections in two lines each."""
    lines, found, section = text.splitlines(), [], ""
    for k, line in enumerate(lines):
        if k + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[k + 1].strip()):
            section = line.strip()
        elif not line.strip() and k + 1 < len(lines) and not ENTRY.match(lines[k + 1]):
            section = "" if not lines[k + 1].startswith(" ") else section
        entry = ENTRY.match(line) if section in SECTIONS else None
        found += [entry.group(1), f"    {entry.group(2)}"] if entry else [line]
    return "\n".join(found)


class ProjectDocstrings(griffe.Extension):
    """Rewrites every docstring once the package is loaded."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Rewrite the docstrings of a package."""
        self._rewrite(pkg)

    def _rewrite(self, thing: Any) -> None:
        if thing.is_alias:
            return
        if thing.docstring is not None:
            thing.docstring.value = as_numpydoc(thing.docstring.value)
        for member in thing.members.values():
            self._rewrite(member)
