"""A metadata log whose synced part names a record otherwise than it was written is not opened."""

from __future__ import annotations

import pytest

from headrace.core.ids import TopicPartition
from headrace.log.config import LogConfig
from headrace.log.ports import Origin
from headrace.records.batch import iter_batches
from headrace.records.record import NewRecord, Placement, build_batch
from headrace.sim.faulty_disk import SimDisk
from headrace.storage.metadata_log import open_metadata_log
from headrace.storage.recovery import LoadHints, RottenLog
from headrace.storage.stored_log import StoredLog

METADATA = TopicPartition("__cluster_metadata", 0)
PATH = "/d/__cluster_metadata-0"
SMALL = LogConfig(segment_bytes=160)
END = 10
BASE_OFFSET, LENGTH, EPOCH, CRC, VALUE = 7, 11, 15, 20, -2
"""Bytes of a batch: the lowest of its base offset, of its length, and of its leader epoch, the last of its CRC, one of a record."""


def _open(disk: SimDisk, *, recovery_point: int = 0, latest_epoch: int | None = None) -> StoredLog:
    known = LoadHints(recovery_point=recovery_point, latest_epoch=latest_epoch)
    return open_metadata_log(StoredLog, disk, "/d", SMALL, known)


def _disk() -> SimDisk:
    """Ten synced batches of one record, the last three of epoch 6, two a segment."""
    disk = SimDisk()
    disk.mkdir("/d")
    log = _open(disk)
    for offset in range(END):
        epoch = 5 if offset < 7 else 6
        batch = build_batch([NewRecord(None, b"value", 0)], placement=Placement(base_offset=offset, leader_epoch=epoch))
        log.append_as_leader(memoryview(batch), leader_epoch=epoch, now_ms=0, origin=Origin.RAFT_LEADER)
    job = log.prepare_flush()
    assert job is not None
    job.run()
    log.flushed(job.upto)
    log.close(clean=False)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4, 6, 8]
    return disk


def _place(disk: SimDisk, offset: int) -> tuple[str, int, int]:
    """(file, position, size) of the batch at `offset`."""
    path = f"{PATH}/{offset // 2 * 2:020d}.log"
    data = disk.read_file(path)
    assert data is not None
    return next((path, at, header.size) for at, header in iter_batches(data) if header.base_offset == offset)


@pytest.mark.parametrize("byte", [BASE_OFFSET, LENGTH, EPOCH, CRC, VALUE])
@pytest.mark.parametrize("bit", [0, 1, 4])
@pytest.mark.parametrize("offset", range(1, END - 1))
def test_rot_in_a_synced_part_is_told_and_the_log_is_not_opened(offset: int, byte: int, bit: int) -> None:
    """inv:R13 inv:D6 PR9 fault:S61 fault:S62: whatever bit names a batch otherwise, in a segment below the recovery point's as well (but an epoch that fits its neighbours')."""
    disk = _disk()
    path, at, size = _place(disk, offset)
    disk.flip_bit(path, at + byte % size, bit)
    found = disk.read_file(path)
    with pytest.raises(RottenLog):
        _open(disk, recovery_point=END)
    assert disk.read_file(path) == found


def test_a_sound_log_is_opened_from_any_recovery_point() -> None:
    """inv:D6: what is not damaged is not taken for rot, nor its epochs."""
    for point in range(END + 1):
        log = _open(_disk(), recovery_point=point)
        assert (log.log_start_offset, log.log_end_offset, log.latest_epoch) == (0, END, 6)


def test_a_log_that_a_snapshot_is_to_replace_may_be_damaged() -> None:
    """inv:D6, inv:R16: it ends below the snapshot that was fetched, so nothing says that it was synced."""
    disk = _disk()
    path, at, _ = _place(disk, 3)
    disk.flip_bit(path, at + BASE_OFFSET, 1)
    assert _open(disk, recovery_point=END + 5).log_end_offset == END


def test_a_gap_above_the_recovery_point_is_a_torn_write() -> None:
    """inv:R13 inv:D5: the log is cut there; what followed is fetched again."""
    disk = _disk()
    path, at, _ = _place(disk, 5)
    disk.flip_bit(path, at + BASE_OFFSET, 1)
    assert _open(disk, recovery_point=4).log_end_offset == 5


@pytest.mark.parametrize("offset", [3, 6, 8, END - 1])
def test_an_epoch_after_the_latest_one_ends_the_log(offset: int) -> None:
    """fault:S61, inv:R13: no later batch is blamed for coming after it, and the epoch of the log's end is a true one."""
    disk = _disk()
    path, at, _ = _place(disk, offset)
    disk.flip_bit(path, at + EPOCH - 3, 7)
    log = _open(disk, latest_epoch=6)
    assert log.log_end_offset == offset
    assert log.latest_epoch == (5 if offset <= 7 else 6)
