"""Up to where is a log clean, when the log under that name was cut, deleted, or found after an unclean stop?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.core.ids import TopicPartition, Uuid
from headrace.sim.disk import LossyFiles
from headrace.storage.checkpoints import read_offsets
from headrace.storage.layout import CLEANER_OFFSETS, RECOVERY_POINTS
from headrace.storage.log_store import LogStore
from headrace.storage.stored_log import StoredLog
from tests.support.stores import NOW_MS, PARTITION, SMALL, TOPIC_ID, append, batch, memory_store, records_of, sync

COMPACT = replace(SMALL, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.1, delete_retention_ms=0)


def write(log: StoredLog, keys: list[bytes], value: bytes | None = b"v" * 40) -> None:
    """One batch a key, committed."""
    for key in keys:
        append(log, batch(value, key=key))
    log.advance_high_watermark(log.log_end_offset)


def compact(store: LogStore, now_ms: int = NOW_MS) -> int:
    """Passes until none is due; how many there were."""
    for log in store.logs().values():
        sync(log)
    passes = 0
    while (job := store.next_compaction(now_ms)) is not None:
        job.run()
        job.finish(now_ms)
        passes += 1
    return passes


def ten(name: bytes) -> list[bytes]:
    """Ten keys."""
    return [b"%b%d" % (name, index) for index in range(10)]


def test_a_new_topic_of_an_old_name_is_dirty_from_its_beginning() -> None:
    """inv:P19, B-P03: what a cleaner knew of the topic that was deleted says nothing of the one that has its name now."""
    store = memory_store(LossyFiles(), COMPACT)
    log = store.create(PARTITION, topic_id=TOPIC_ID, config=COMPACT)
    write(log, ten(b"a") * 6)
    assert compact(store)
    store.delete(PARTITION, NOW_MS)
    again = store.create(PARTITION, topic_id=Uuid(b"another topic id"), config=replace(COMPACT, segment_bytes=8000))
    write(again, [b"gone"])
    write(again, [b"gone"], None)
    write(again, ten(b"b") * 12)
    compact(store)
    compact(store, NOW_MS + 1)
    assert [record.value for record in records_of(again) if record.key == b"gone" and record.value] == []
    closed = again.segments[-1].base_offset
    assert len([record for record in records_of(again) if record.key == b"b1" and record.offset < closed]) == 1


def test_a_log_that_was_damaged_may_be_compacted_when_it_is_another() -> None:
    """inv:D6: only the damaged log is left alone, not whatever gets its name."""
    store = memory_store(LossyFiles(), COMPACT)
    log = store.create(PARTITION, topic_id=TOPIC_ID, config=COMPACT)
    write(log, ten(b"a") * 6)
    log.segments[0].log.pwrite(b"\xff", log.segments[0].size - 1)
    assert compact(store) == 1
    assert store.next_compaction(NOW_MS) is None
    store.delete(PARTITION, NOW_MS)
    again = store.create(PARTITION, topic_id=Uuid(b"another topic id"), config=COMPACT)
    write(again, ten(b"b") * 6)
    before = again.size_bytes
    assert compact(store)
    assert again.size_bytes < before


def test_what_is_cut_is_dirty_when_it_is_written_again_also_after_a_restart() -> None:
    """inv:P19: the note of the cleaner falls with the cut, durably."""
    files = LossyFiles()
    store = memory_store(files, COMPACT)
    log = store.create(PARTITION, topic_id=TOPIC_ID, config=COMPACT)
    write(log, ten(b"a") * 6)
    assert compact(store)
    cleaned = (read_offsets(files, "/data", CLEANER_OFFSETS) or {})[PARTITION]
    assert cleaned > 20
    log.truncate_to(20)
    assert (read_offsets(files, "/data", CLEANER_OFFSETS) or {})[PARTITION] <= 20
    write(log, ten(b"b") * 8)
    assert log.log_end_offset > cleaned
    store.close(clean=True)
    again = memory_store(files, COMPACT)
    log = again.create(PARTITION, topic_id=TOPIC_ID, config=COMPACT)
    log.advance_high_watermark(log.log_end_offset)
    assert compact(again)
    closed = log.segments[-1].base_offset
    keys = [record.key for record in records_of(log) if record.offset < closed]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("damage", [b"", b"0\n1\ntopic 0 x\n", None])
def test_gaps_that_compaction_left_are_no_torn_writes(damage: bytes | None) -> None:
    """fault:S61, inv:D5, PR1: without its recovery point a compacted log is checked whole, and kept whole."""
    files = LossyFiles()
    store = memory_store(files, COMPACT)
    log = store.create(PARTITION, topic_id=TOPIC_ID, config=COMPACT)
    write(log, [b"first", *ten(b"a") * 5, *ten(b"b") * 30])
    assert compact(store)
    ends = [list(segment.batches())[-1][1].next_offset for segment in log.segments if segment.size]
    bases = [segment.base_offset for segment in log.segments[1:]]
    assert any(end < base for end, base in zip(ends, bases, strict=False)), "the pass was to leave a gap"
    expected = records_of(log)
    name = f"/data/{RECOVERY_POINTS}"
    if damage is None:
        files.unlink(name)
    else:
        files.open(name, truncate=True).pwrite(damage, 0)
    again = memory_store(files, COMPACT).get(PARTITION)
    assert again is not None
    assert records_of(again) == expected
    assert again.log_end_offset == log.log_end_offset


def test_a_gap_above_what_was_cleaned_is_a_torn_write() -> None:
    """inv:D5: a tail that a power cut took is not taken for compaction's doing, whatever follows it."""
    files = LossyFiles()
    store = memory_store(files, COMPACT)
    log = store.create(PARTITION, topic_id=TOPIC_ID, config=COMPACT)
    write(log, ten(b"a") * 8)
    segment = log.segments[1]
    last = list(segment.batches())[-1]
    segment.log.truncate(last[0])
    again = memory_store(files, COMPACT).get(TopicPartition("topic", 0))
    assert again is not None
    assert again.log_end_offset == last[1].base_offset
