"""A sync that failed before a restart is not healed by one that succeeds after it."""

from __future__ import annotations

import random

import pytest

from headrace.core.errors import StorageFault
from headrace.core.ids import TopicPartition
from headrace.log.config import LogConfig
from headrace.log.ports import Origin
from headrace.records.record import NewRecord, Placement, build_batch
from headrace.sim.faulty_disk import SimDisk
from headrace.storage.metadata_log import open_metadata_log
from headrace.storage.recovery import LoadHints
from headrace.storage.stored_log import StoredLog

METADATA = TopicPartition("__cluster_metadata", 0)


def _open(disk: SimDisk) -> StoredLog:
    return open_metadata_log(StoredLog, disk, "/d", LogConfig(), LoadHints(now_ms=0))


def _append(log: StoredLog, value: bytes) -> None:
    placement = Placement(base_offset=log.log_end_offset, leader_epoch=1)
    batch = build_batch([NewRecord(None, value, 0)], placement=placement)
    log.append_as_leader(memoryview(batch), leader_epoch=1, now_ms=0, origin=Origin.RAFT_LEADER)


def _flush(log: StoredLog) -> None:
    job = log.prepare_flush()
    assert job is not None
    job.run()
    log.flushed(job.upto)


@pytest.mark.parametrize("seed", range(20))
def test_what_a_restart_finds_in_the_page_cache_is_written_again_before_it_is_synced(seed: int) -> None:
    """fault:S58, defect:K31, inv:D3, inv:R12: the process dies of the failed sync, the next one finds the bytes, syncs them, loses power."""
    disk = SimDisk()
    disk.mkdir("/d/__cluster_metadata-0")
    disk.fsync_dir("/d")
    disk.fsync_dir("/")
    log = _open(disk)
    _append(log, b"first")
    _flush(log)
    _append(log, b"second")
    disk.fail_syncs = 1
    with pytest.raises(StorageFault):
        _flush(log)
    found = _open(disk)
    assert found.log_end_offset == 2
    _flush(found)
    disk.lose_power(random.Random(seed))
    assert _open(disk).log_end_offset == 2
