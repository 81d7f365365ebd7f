"""Copies between host and device memory, every one on record.

A backend that copies reports it here: how much, which way, in which phase, for which operation and why. So a
needless copy is found by reading the table (docs/transfers.md), and a study that claims to stay on its device can be
held to it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from nsmath.errors import TransferError

logger = logging.getLogger("nsmath.transfer")

TO_DEVICE, TO_HOST = "to device", "to host"
SETUP = "setup"
RESIDENT_PHASES = ("sampling", "free fits", "conditional fits", "q")
"""From the sampling of a toy to its q; no event data need cross the bus in these."""

_phase: ContextVar[str] = ContextVar("nsmath_phase", default=SETUP)


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Call what this thread does in the block ``name`` in the ledger."""
    token = _phase.set(name)
    try:
        yield
    finally:
        _phase.reset(token)


@dataclass(frozen=True, slots=True)
class Transfers:
    """Copies of one kind: ``count`` of them, ``n_bytes`` together.

    Attributes
    ----------
    direction : ``to device`` or ``to host``.
    phase : what the study was doing. operation : of the backend. reason : why it copied.
    event_data : main counts or auxiliary data of columns, which grow with the number of toys.
    """

    phase: str
    operation: str
    direction: str
    reason: str
    event_data: bool
    count: int
    n_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


class Ledger:
    """All copies of a plan's backends, by kind; threads may write to it at once.

    Parameters
    ----------
    assert_resident : raise where event data cross the bus between the sampling of a toy and its q.
    """

    def __init__(self, *, assert_resident: bool = False) -> None:
        self.assert_resident = assert_resident
        self._lock = threading.Lock()
        self._kinds: dict[tuple[str, str, str, str, bool], list[int]] = {}

    def record(self, direction: str, n_bytes: int, *, operation: str, reason: str, event_data: bool = False) -> None:
        """Put one copy on record; call it before the copy is made.

        Raises
        ------
        TransferError
            Event data cross the bus in a phase of `RESIDENT_PHASES` although they were not to.
        """
        where = _phase.get()
        what = "event data" if event_data else "no event data"
        logger.info("%s: %s %s, %d bytes (%s; %s)", where, operation, direction, n_bytes, reason, what)
        if self.assert_resident and event_data and where in RESIDENT_PHASES:
            raise TransferError(
                f"{n_bytes} bytes of event data go {direction} in phase {where!r}, by operation {operation!r} "
                f"({reason}), although they were to stay on the device (--assert-resident). Sample the toys there "
                "(--gpu-sample-toys), or leave the assertion away and read the table of transfers (--log-transfers)."
            )
        with self._lock:
            kind = self._kinds.setdefault((where, operation, direction, reason, event_data), [0, 0])
            kind[0] += 1
            kind[1] += n_bytes

    def rows(self) -> tuple[Transfers, ...]:
        """Return the copies by kind, the most bytes first."""
        with self._lock:
            kinds = {key: tuple(value) for key, value in self._kinds.items()}
        rows = [
            Transfers(where, operation, direction, reason, event_data, count, n_bytes)
            for (where, operation, direction, reason, event_data), (count, n_bytes) in kinds.items()
        ]
        return tuple(sorted(rows, key=lambda row: (-row.n_bytes, row.phase, row.operation, row.direction)))

    def to_dict(self) -> dict[str, Any]:
        """Return totals and rows for JSON: bytes and copies each way, and how many of the bytes are event data."""
        rows = self.rows()

        def total(direction: str) -> dict[str, int]:
            chosen = [row for row in rows if row.direction == direction]
            return {"count": sum(row.count for row in chosen), "n_bytes": sum(row.n_bytes for row in chosen)}

        return {
            "to_device": total(TO_DEVICE),
            "to_host": total(TO_HOST),
            "event_data_n_bytes": sum(row.n_bytes for row in rows if row.event_data),
            "rows": [row.to_dict() for row in rows],
        }
