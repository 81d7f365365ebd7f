"""`ToyRecord`, where a study keeps its toys, and the one that forgets them with the process."""

from __future__ import annotations

from typing import Any, Protocol

from nsmath.store.ensemble import Ensemble
from nsmath.store.ranges import Range, merged

Key = tuple[float, str]
"""(tested mu, hypothesis), the hypothesis ``b`` or ``sb``."""


class ToyRecord(Protocol):
    """Toys by (tested mu, hypothesis)."""

    def held(self) -> list[Key]:
        """Return every (mu, hypothesis) that has toys."""

    def there(self, key: Key) -> list[Range]:
        """Return the ranges of toys on record."""

    def add(self, key: Key, toys: Ensemble) -> None:
        """Take in toys that are not on record yet."""

    def flush(self) -> None:
        """Make everything that was added safe."""

    def toys(self, key: Key, wanted: Range) -> Ensemble:
        """Return the toys on record within ``wanted``, by index."""

    def note_observed(self, mu: float, observed: dict[str, Any]) -> None:
        """Keep what the observed data give at ``mu``: ``q_obs``, ``mu_hat``."""


class MemoryRecord:
    """Toys of this process."""

    def __init__(self) -> None:
        self._parts: dict[Key, list[Ensemble]] = {}

    def held(self) -> list[Key]:
        """Return every (mu, hypothesis) that has toys."""
        return sorted(self._parts)

    def there(self, key: Key) -> list[Range]:
        """Return the ranges of toys on record."""
        return merged((int(part.index[0]), int(part.index[-1]) + 1) for part in self._parts.get(key, []))

    def add(self, key: Key, toys: Ensemble) -> None:
        """Take in toys, contiguous in index."""
        self._parts.setdefault(key, []).append(toys)

    def flush(self) -> None:
        """Do nothing: memory is as safe as it gets."""

    def toys(self, key: Key, wanted: Range) -> Ensemble:
        """Return the toys on record within ``wanted``, by index."""
        parts = self._parts.get(key, [])
        if len(parts) > 1:
            parts[:] = [Ensemble.joined(parts)]
        return parts[0].between(*wanted) if parts else Ensemble.joined([])

    def note_observed(self, mu: float, observed: dict[str, Any]) -> None:
        """Do nothing: who asked for it has it."""
