"""Cleaned segments: their indexes, the transactions that ended behind them, and what their swap costs."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from headrace.core.errors import StorageFault
from headrace.core.ids import TopicPartition, Uuid
from headrace.log.config import LogConfig
from headrace.log.ports import Origin
from headrace.records.control import TransactionMarker, build_marker_batch
from headrace.records.record import NewRecord, ProducerStamp, build_batch
from headrace.records.walk import finish
from headrace.sim.disk import LossyFiles, crashed
from headrace.sim.faulty_disk import SimDisk
from headrace.storage.log_store import LogStore
from headrace.storage.stored_log import StoredLog
from tests.support.stores import NOW_MS, PARTITION, SMALL, TOPIC_ID, append, batch, memory_store, records_of, sync

COMPACT = replace(SMALL, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.1)


def filled(files: LossyFiles, config: LogConfig = COMPACT, count: int = 120) -> tuple[LogStore, StoredLog]:
    """A log of keys that return, its times rising."""
    files.mkdir("/data")
    files.fsync_dir("/")
    store = memory_store(files, config)
    log = store.create(PARTITION, topic_id=TOPIC_ID, config=config)
    for index in range(count):
        key = b"k%d" % (index % 40 if index % 3 else index)
        append(log, batch(b"%d" % index, key=key, timestamp=NOW_MS + index))
    log.advance_high_watermark(log.log_end_offset)
    sync(log)
    return store, log


def cleaned(store: LogStore) -> None:
    """One pass."""
    job = store.next_compaction(NOW_MS)
    assert job is not None
    job.run()
    job.finish(NOW_MS)


def test_a_power_cut_after_compaction_changes_no_answer_by_time() -> None:
    """inv:D7, inv:D11, defect:K33: indexes of cleaned segments are on disk before they are used, or they are built anew."""
    files = LossyFiles()
    store, log = filled(files)
    cleaned(store)
    store.write_checkpoints()
    last = NOW_MS + 119
    expected = [finish(log.offset_for_timestamp(at)) for at in range(NOW_MS, last + 1)]
    highest, ages = finish(log.max_timestamp()), [segment.largest_timestamp() for segment in log.segments[:-1]]
    for seed in range(40):
        found = memory_store(crashed(files.ops, len(files.ops), random.Random(seed)), COMPACT).get(PARTITION)
        assert found is not None
        assert [segment.largest_timestamp() for segment in found.segments[:-1]] == ages, f"seed {seed}"
        assert [finish(found.offset_for_timestamp(at)) for at in range(NOW_MS, last + 1)] == expected, f"seed {seed}"
        assert finish(found.max_timestamp()) == highest


def test_a_swap_syncs_its_directory_a_fixed_number_of_times() -> None:
    """inv:M6, inv:D11: however many segments are swapped; the loop waits for each of these syncs."""
    syncs = []
    for count in (200, 800):
        files = LossyFiles()
        store, _ = filled(files, count=count)
        job = store.next_compaction(NOW_MS)
        assert job is not None
        job.run()
        before = len(files.ops)
        assert job.finish(NOW_MS) > 0
        syncs.append(sum(op.kind == "syncdir" for op in files.ops[before:]))
    assert syncs[0] == syncs[1]


def transactional(log: StoredLog, *keys: bytes, sequence: int) -> None:
    """A batch inside a transaction of producer 7."""
    records = [NewRecord(key, b"t" * 30, NOW_MS) for key in keys]
    append(log, memoryview(build_batch(records, producer=ProducerStamp(7, 0, sequence, is_transactional=True))))


def ended(log: StoredLog, *, is_commit: bool) -> None:
    """The marker."""
    marker = TransactionMarker(is_commit=is_commit, coordinator_epoch=1)
    data = build_marker_batch(marker, producer_id=7, producer_epoch=0, timestamp=NOW_MS)
    done = log.append_as_leader(memoryview(data), leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR)
    assert not hasattr(done, "error")
    log.advance_high_watermark(log.log_end_offset)


def test_an_aborted_value_takes_no_committed_one_away() -> None:
    """inv:P19, inv:E8: also when the transaction ended behind the part that is cleaned."""
    store = memory_store(LossyFiles(), COMPACT)
    log = store.create(PARTITION, topic_id=TOPIC_ID, config=COMPACT)
    append(log, batch(b"committed", key=b"a"))
    transactional(log, b"a", sequence=0)
    log.roll(NOW_MS)
    append(log, batch(b"other", key=b"b"))
    ended(log, is_commit=False)
    sync(log)
    cleaned(store)
    assert b"committed" in [record.value for record in records_of(log) if record.key == b"a"]


def test_what_a_producer_commits_after_an_abort_counts() -> None:
    """inv:P19: keys of its later transactions replace older values."""
    store = memory_store(LossyFiles(), COMPACT)
    log = store.create(PARTITION, topic_id=TOPIC_ID, config=COMPACT)
    append(log, batch(b"old", key=b"a"))
    transactional(log, b"x", sequence=0)
    ended(log, is_commit=False)
    transactional(log, b"a", sequence=1)
    ended(log, is_commit=True)
    log.roll(NOW_MS)
    append(log, batch(b"other", key=b"b"))
    log.advance_high_watermark(log.log_end_offset)
    sync(log)
    cleaned(store)
    assert [record.value for record in records_of(log) if record.key == b"a"] == [b"t" * 30]


def test_a_damaged_list_of_aborted_transactions_is_rebuilt() -> None:
    """inv:D7, fault:S61: at the next start, from the log; after a clean stop, too, and for segments below the recovery point."""
    for is_clean in (True, False):
        files = LossyFiles()
        store = memory_store(files)
        log = store.create(PARTITION, topic_id=TOPIC_ID, config=SMALL)
        for round_ in range(3):
            transactional(log, b"a", sequence=round_)
            ended(log, is_commit=False)
            log.roll(NOW_MS)
        append(log, batch(b"other", key=b"b"))
        log.advance_high_watermark(log.log_end_offset)
        sync(log)
        store.write_checkpoints()
        expected = log.aborted_transactions(0, log.log_end_offset)
        assert len(expected) == 3
        damaged = f"{log.path}/{log.segments[1].base_offset:020d}.txnindex"
        if is_clean:
            store.close(clean=True)
        files.open(damaged).pwrite(b"\x40", 1)
        again = memory_store(files).get(PARTITION)
        assert again is not None
        assert again.aborted_transactions(0, again.log_end_offset) == expected
        assert any("aborted transactions" in note for note in again.notes)
        sync(again)
        assert (files.read_file(damaged) or b"")[1] == 0


def test_a_fault_in_one_directory_does_not_end_compaction_in_the_others() -> None:
    """fault:S66: the cleaner is free again, whatever became of its job."""
    files = SimDisk()
    ids = {"/data/one": Uuid(b"the first's id.."), "/data/two": Uuid(b"the second's id.")}
    for path in ids:
        files.mkdir(path)
    store = LogStore(files, ids)
    store.load(lambda _: COMPACT, now_ms=NOW_MS)
    for name, directory_id in zip(("one", "two"), ids.values(), strict=True):
        partition = TopicPartition(name, 0)
        log = store.create(partition, topic_id=TOPIC_ID, config=COMPACT, directory_id=directory_id)
        for index in range(120):
            append(log, batch(b"%d" % index, key=b"k%d" % (index % 5)))
        log.advance_high_watermark(log.log_end_offset)
        sync(log)
    job = store.next_compaction(NOW_MS)
    assert job is not None
    job.run()
    files.fail_syncs = 1
    with pytest.raises(StorageFault):
        job.finish(NOW_MS)
    store.fail_directory("/data/one")
    assert len(store.logs()) == 1
    other = store.next_compaction(NOW_MS)
    assert other is not None
    other.run()
    assert other.finish(NOW_MS) > 0
