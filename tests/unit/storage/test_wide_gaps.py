"""Can a replica follow a leader whose log compaction thinned out for years?"""

from __future__ import annotations

from dataclasses import replace

from headrace.log.ports import Appended
from headrace.records.record import NewRecord, Placement, build_batch
from headrace.records.walk import finish
from headrace.sim.disk import LossyFiles
from tests.support.stores import NOW_MS, PARTITION, SMALL, memory_store, open_log, records_of, sync

COMPACT = replace(SMALL, cleanup_policy=frozenset({"compact"}))


def batches(*offsets: int) -> memoryview:
    """What a leader answers: one batch at each offset."""
    return memoryview(
        b"".join(
            build_batch(
                [NewRecord(b"key", b"%d" % offset * 20, NOW_MS + index)],
                placement=Placement(base_offset=offset, leader_epoch=1),
            )
            for index, offset in enumerate(offsets)
        )
    )


def test_gaps_wider_than_a_segments_offsets_are_followed() -> None:
    """input:B53, B-P01, inv:P16: at the log's beginning, in its middle, inside one answer; and found again after a process death."""
    files = LossyFiles()
    log = open_log(memory_store(files, COMPACT), COMPACT)
    far = 3 * 2**31
    offsets = [far + 1, far + 2, far + 3, far + 9, 3 * far, 3 * far + 5, 9 * far, 9 * far + 2**30]
    left = offsets
    while left:
        done = log.append_as_follower(batches(*left), leader_epoch=1, now_ms=NOW_MS)
        assert isinstance(done, Appended)
        assert done.last_offset in left
        left = left[left.index(done.last_offset) + 1 :]
        log.advance_high_watermark(log.log_end_offset)
    assert [record.offset for record in records_of(log)] == offsets
    for _ in range(40):
        assert isinstance(log.append_as_follower(batches(log.log_end_offset), leader_epoch=1, now_ms=NOW_MS), Appended)
    expected = records_of(log)
    assert finish(log.offset_for_timestamp(NOW_MS)) is not None
    for _ in range(2):
        again = memory_store(files, COMPACT).get(PARTITION)
        assert again is not None
        assert records_of(again) == expected
        sync(again)
