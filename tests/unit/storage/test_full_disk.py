"""A full disk refuses appends and nothing else: whatever else finds no room waits until there is some. Source: inv:D10, fault:S59."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.errors import StorageFault
from headrace.core.ids import TopicPartition, Uuid
from headrace.core.ports import DiskFull
from headrace.log.config import LogConfig
from headrace.log.ports import AppendRefused
from headrace.sim.faulty_disk import SimDisk
from headrace.storage.checkpoints import read_clean_shutdown, read_epochs, read_offsets
from headrace.storage.layout import RECOVERY_POINTS
from headrace.storage.log_store import LogStore
from headrace.storage.stored_log import StoredLog
from tests.support.stores import (
    DIRECTORY_ID,
    NOW_MS,
    PARTITION,
    SMALL,
    TOPIC_ID,
    append,
    batch,
    fill,
    maintain,
    memory_store,
    open_log,
    records_of,
    sync,
)

COMPACT = replace(SMALL, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.1)


def filled(config: LogConfig = SMALL, count: int = 60) -> tuple[SimDisk, LogStore, StoredLog]:
    """A log with several segments, all committed, and a disk that is full now."""
    files = SimDisk()
    store = memory_store(files, config)
    log = open_log(store, config)
    fill(log, count)
    log.advance_high_watermark(log.log_end_offset)
    files.is_full = True
    return files, store, log


def refused(log: StoredLog) -> AppendRefused:
    """One append, which must be refused."""
    done = log.append_as_leader(batch(b"x" * 1000), leader_epoch=0, now_ms=NOW_MS)
    assert isinstance(done, AppendRefused)
    assert done.error is ErrorCode.KAFKA_STORAGE_ERROR
    return done


def test_no_room_to_roll_is_a_refusal() -> None:
    """inv:D10, fault:S59: the log stays as it was, is read, and goes on when there is room."""
    files, store, log = filled()
    expected, segments = records_of(log), len(log.segments)
    for _ in range(3):
        refused(log)
        store.maintain(NOW_MS)
    assert (records_of(log), len(log.segments)) == (expected, segments)
    assert "No space left" in store.take_space_refusal()
    files.is_full = False
    fill(log, 30, seed=2)
    sync(log)
    assert records_of(log)[: len(expected)] == expected
    store.close(clean=True)
    again = memory_store(files).get(PARTITION)
    assert again is not None
    assert len(records_of(again)) == again.log_end_offset


def test_checkpoints_and_epochs_wait_for_room() -> None:
    """inv:D10, fault:S59: the checkpoints and the flush fail nobody's directory; nothing counts as durable that is not."""
    files, store, log = filled()
    store.write_checkpoints()
    assert "No space left" in store.take_space_refusal()
    assert read_offsets(files, "/data", RECOVERY_POINTS) is None
    before = log.durable_end_offset
    job = log.prepare_flush()
    assert job is not None
    job.run()
    log.flushed(job.upto)
    assert log.durable_end_offset == before
    files.is_full = False
    sync(log)
    store.maintain(NOW_MS)
    store.write_checkpoints()
    assert log.durable_end_offset == log.log_end_offset
    assert read_epochs(files, log.path) == log.epochs.entries()
    assert (read_offsets(files, "/data", RECOVERY_POINTS) or {})[PARTITION] == log.recovery_point
    assert store.take_space_refusal() == ""


def test_a_stop_without_room_is_no_clean_one() -> None:
    """inv:D4, inv:D10: there is no mark, and the next start finds everything that is in the log."""
    files, store, log = filled()
    expected = records_of(log)
    with pytest.raises(DiskFull):
        store.close(clean=True)
    files.is_full = False
    again = LogStore(files, {"/data": DIRECTORY_ID})
    assert again.previous_broker_epoch == -1
    again.load(lambda _: SMALL, now_ms=NOW_MS)
    found = again.get(PARTITION)
    assert found is not None
    assert records_of(found) == expected


def test_a_directory_that_fails_at_the_stop_keeps_no_other_from_closing_well() -> None:
    """inv:D4, fault:S66: only its own mark is missing."""
    files = SimDisk()
    ids = {"/data/one": Uuid(b"the first's id.."), "/data/two": Uuid(b"the second's id.")}
    for path in ids:
        files.mkdir(path)
    store = LogStore(files, ids)
    store.load(lambda _: SMALL, now_ms=NOW_MS)
    for number, directory_id in enumerate(ids.values()):
        log = store.create(TopicPartition("topic", number), topic_id=TOPIC_ID, config=SMALL, directory_id=directory_id)
        fill(log, 5)
    files.fail_syncs = 1
    with pytest.raises(StorageFault):
        store.close(clean=True, broker_epoch=3)
    assert [read_clean_shutdown(files, path) for path in ids] == [None, 3]


def test_retention_makes_room_on_a_full_disk() -> None:
    """inv:D10: old segments go though the checkpoint that excludes them finds no room, and the last one stays if no other can begin."""
    config = replace(SMALL, retention_ms=1000)
    files, store, log = filled(config)
    segments = len(log.segments)
    store.maintain(NOW_MS)
    store.maintain(NOW_MS + 100_000)
    assert len(log.segments) == 1 < segments
    store.write_checkpoints()
    maintain(store, NOW_MS + 100_000 + config.file_delete_delay_ms)
    assert len([name for name in files.listdir(log.path) if ".log" in name]) == 1
    assert records_of(log)


def test_compaction_without_room_changes_nothing_and_rests() -> None:
    """inv:D10, inv:D11: no leftovers; it is tried again a minute later, not every second."""
    files = SimDisk()
    store = memory_store(files, COMPACT)
    log = open_log(store, COMPACT)
    for index in range(120):
        append(log, batch(b"%d" % index, key=b"k%d" % (index % 5)))
    log.advance_high_watermark(log.log_end_offset)
    sync(log)
    expected = records_of(log)
    for fills_up_in_finish in (False, True):
        job = store.next_compaction(NOW_MS + 200_000 * fills_up_in_finish)
        assert job is not None
        files.is_full = not fills_up_in_finish
        job.run()
        files.is_full = True
        assert job.finish(NOW_MS) == 0
        assert not [name for name in files.listdir(log.path) if "cleaned" in name or "swap" in name]
        assert records_of(log) == expected
        assert store.next_compaction(NOW_MS + 200_000 * fills_up_in_finish + 1000) is None
        files.is_full = False
    job = store.next_compaction(NOW_MS + 400_000)
    assert job is not None
    job.run()
    assert job.finish(NOW_MS) > 0
    assert store.get(TopicPartition("topic", 0)) is log
