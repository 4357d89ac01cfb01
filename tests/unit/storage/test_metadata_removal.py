"""What is left of the metadata log's oldest segments while the node runs on?"""

from __future__ import annotations

from headrace.core.ids import TopicPartition
from headrace.log.config import LogConfig
from headrace.log.ports import Origin
from headrace.records.record import NewRecord, Placement, build_batch
from headrace.sim.disk import LossyFiles
from headrace.storage.metadata_log import open_metadata_log
from headrace.storage.recovery import LoadHints
from headrace.storage.stored_log import StoredLog
from tests.support.stores import sync

METADATA = TopicPartition("__cluster_metadata", 0)


def test_segments_below_a_snapshot_leave_the_disk() -> None:
    """B-S04: what a snapshot let go is removed when the next one lets go, not at the next start."""
    files = LossyFiles()
    files.mkdir("/d")
    config = LogConfig(segment_bytes=200)
    log = open_metadata_log(StoredLog, files, "/d", config, LoadHints(now_ms=0))
    for offset in range(60):
        placement = Placement(base_offset=offset, leader_epoch=1)
        data = build_batch([NewRecord(None, b"value" * 5, 0)], placement=placement)
        log.append_as_leader(memoryview(data), leader_epoch=1, now_ms=0, origin=Origin.RAFT_LEADER)
        if offset % 10 == 9:
            sync(log)
            log.delete_segments_below(offset - 2)
    names = files.listdir(log.path)
    kept = [name for name in names if name.endswith(".log")]
    assert len(kept) == len(log.segments)
    gone = [name for name in names if name.endswith(".log.deleted")]
    assert 0 < len(gone) <= 10
