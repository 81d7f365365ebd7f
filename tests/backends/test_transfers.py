"""The ledger of copies: what it holds, what it says, and what it refuses."""

from __future__ import annotations

import logging
import threading

import pytest

from nsmath.backends.transfers import RESIDENT_PHASES, SETUP, TO_DEVICE, TO_HOST, Ledger, phase
from nsmath.errors import TransferError


def test_copies_of_one_kind_are_one_row_with_their_count_and_bytes():
    ledger = Ledger()
    for n_bytes in (8, 16):
        ledger.record(TO_HOST, n_bytes, operation="results", reason="fitted parameters")
    with phase("q"):
        ledger.record(TO_HOST, 4, operation="results", reason="fitted parameters")
    rows = ledger.rows()
    assert [(row.phase, row.count, row.n_bytes) for row in rows] == [(SETUP, 2, 24), ("q", 1, 4)]
    assert ledger.to_dict()["to_host"] == {"count": 3, "n_bytes": 28}
    assert ledger.to_dict()["to_device"] == {"count": 0, "n_bytes": 0}


def test_every_copy_is_logged_with_phase_operation_bytes_and_reason(caplog):
    with caplog.at_level(logging.INFO, logger="nsmath.transfer"), phase("sampling"):
        Ledger().record(TO_DEVICE, 4096, operation="load", reason="toys made on the host", event_data=True)
    (message,) = caplog.messages
    for part in ("sampling", "load", "to device", "4096 bytes", "toys made on the host", "event data"):
        assert part in message


@pytest.mark.parametrize("where", RESIDENT_PHASES)
def test_resident_ledger_names_the_culprit_that_moves_event_data(where):
    ledger = Ledger(assert_resident=True)
    with phase(where):
        ledger.record(TO_HOST, 24, operation="results", reason="fitted parameters")
        with pytest.raises(
            TransferError, match=rf"(?s)4096 bytes .*to device.*'{where}'.*'load'.*toys made on the host"
        ):
            ledger.record(TO_DEVICE, 4096, operation="load", reason="toys made on the host", event_data=True)


def test_resident_ledger_lets_the_observed_data_in_before_the_toys():
    ledger = Ledger(assert_resident=True)
    ledger.record(TO_DEVICE, 64, operation="load", reason="observed data", event_data=True)
    assert ledger.to_dict()["event_data_n_bytes"] == 64


def test_phase_belongs_to_the_thread_that_is_in_it():
    ledger = Ledger()
    with phase("sampling"):
        other = threading.Thread(target=lambda: ledger.record(TO_HOST, 1, operation="a", reason="b"))
        other.start()
        other.join()
    assert ledger.rows()[0].phase == SETUP
