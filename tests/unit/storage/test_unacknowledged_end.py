"""Which records of a log wait for a sync?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from headrace.log.ports import Appended
from headrace.records.record import ProducerStamp
from tests.support.stores import NOW_MS, SMALL, append, batch, open_log, open_store, producer_batch, sync


def test_what_reaches_the_count_waits_until_it_is_durable(tmp_path: Path) -> None:
    """The count begins anew with each sync, also on the quick way of plain batches."""
    config = replace(SMALL, flush_messages=3, segment_bytes=1 << 20)
    log = open_log(open_store(tmp_path, config), config)
    seen = []
    for number in range(8):
        done = append(log, batch(b"v"))
        seen.append((done.waits_for_sync, log.acknowledged_end_offset))
        if number == 3:
            sync(log)
            seen.append((False, log.acknowledged_end_offset))
    assert seen == [
        (False, 1), (False, 2), (True, 2), (True, 2), (False, 4), (False, 5), (False, 6), (True, 6), (True, 6),
    ]  # fmt: skip


def test_what_comes_while_a_sync_runs_waits_for_the_next(tmp_path: Path) -> None:
    """It reached the count when it was appended."""
    config = replace(SMALL, flush_messages=1)
    log = open_log(open_store(tmp_path, config), config)
    append(log, batch(b"a"))
    job = log.prepare_flush()
    assert job is not None
    append(log, batch(b"b"))
    job.run()
    log.flushed(job.upto)
    assert (log.acknowledged_end_offset, log.log_end_offset) == (1, 2)
    sync(log)
    assert log.acknowledged_end_offset == 2


def test_what_is_cut_waits_no_more(tmp_path: Path) -> None:
    """Records that come in its place count for themselves."""
    config = replace(SMALL, flush_messages=2)
    log = open_log(open_store(tmp_path, config), config)
    append(log, batch(b"a"))
    append(log, batch(b"b"))
    assert log.acknowledged_end_offset == 1
    log.truncate_to(1)
    log.update_config(SMALL)
    assert not append(log, batch(b"b")).waits_for_sync
    assert log.acknowledged_end_offset == 2


def test_a_repeated_batch_waits_for_the_first(tmp_path: Path) -> None:
    """E2: the answer to a repeat is an acknowledgement, too."""
    config = replace(SMALL, flush_messages=1)
    log = open_log(open_store(tmp_path, config), config)
    first = ProducerStamp(7, 0, 0)
    append(log, producer_batch(first, b"a"))
    again = log.append_as_leader(producer_batch(first, b"a"), leader_epoch=0, now_ms=NOW_MS)
    assert isinstance(again, Appended)
    assert (again.is_duplicate, again.waits_for_sync) == (True, True)
    sync(log)
    again = log.append_as_leader(producer_batch(first, b"a"), leader_epoch=0, now_ms=NOW_MS)
    assert isinstance(again, Appended)
    assert (again.is_duplicate, again.waits_for_sync) == (True, False)
