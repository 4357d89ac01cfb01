"""A metadata log that was cut below the end of its last clean stop is opened after a power cut."""

from __future__ import annotations

import random

import pytest

from headrace.log.ports import Appended, Origin
from headrace.node.disk import NodeDisk
from headrace.records.record import NewRecord, Placement, build_batch
from headrace.sim.faulty_disk import SimDisk
from headrace.storage.snapshot_files import read_synced_offset
from headrace.storage.stored_log import StoredLog
from tests.support.broker_bench import ManualClock
from tests.support.memory_node import CONFIG, METADATA, format_disk


def opened(disk: SimDisk) -> NodeDisk:
    """The node's disk, its metadata log open. Raises StorageFault."""
    node = NodeDisk(CONFIG, files=disk, clock=ManualClock())
    node.open()
    node.open_metadata(random.Random(1))
    return node


def write(log: StoredLog, count: int, *, epoch: int) -> None:
    """Batches of one record, in the page cache."""
    for _ in range(count):
        placement = Placement(base_offset=log.log_end_offset, leader_epoch=epoch)
        data = build_batch([NewRecord(None, b"value" * 20, 0)], placement=placement)
        done = log.append_as_leader(memoryview(data), leader_epoch=epoch, now_ms=0, origin=Origin.RAFT_LEADER)
        assert isinstance(done, Appended)


@pytest.mark.parametrize("seed", range(30))
def test_a_torn_write_above_a_cut_is_not_taken_for_rot(seed: int) -> None:
    """inv:D6, B-S11, fault:S54: a clean stop with an uncommitted tail, another leader cuts it, and power goes while the new tail is written."""
    disk = SimDisk()
    format_disk(disk)
    disk.mkdir(METADATA)
    for path in (METADATA, "/data", "/"):
        disk.fsync_dir(path)
    node = opened(disk)
    write(node.metadata.log, 20, epoch=1)
    node.close_metadata(is_clean=True)
    assert read_synced_offset(disk, METADATA) == 20
    log = opened(disk).metadata.log
    log.truncate_to(15)
    write(log, 10, epoch=2)
    disk.lose_power(random.Random(seed))
    assert 15 <= opened(disk).metadata.log.log_end_offset <= 25


def test_a_cut_above_what_is_noted_writes_no_note() -> None:
    """B-S11: the note is written at a clean stop, and where it would not be true any more."""
    disk = SimDisk()
    format_disk(disk)
    node = opened(disk)
    write(node.metadata.log, 20, epoch=1)
    node.close_metadata(is_clean=True)
    log = opened(disk).metadata.log
    write(log, 10, epoch=1)
    job = log.prepare_flush()
    assert job is not None
    job.run()
    log.flushed(job.upto)
    log.truncate_to(25)
    assert read_synced_offset(disk, METADATA) == 20
    log.truncate_to(18)
    assert read_synced_offset(disk, METADATA) == 18


def test_what_is_written_above_a_cut_is_not_on_disk_because_a_process_was_killed() -> None:
    """inv:R12, inv:R18, fault:S50: the next process would call it durable, and the leader count on what a power cut still takes."""
    disk = SimDisk()
    format_disk(disk)
    node = opened(disk)
    write(node.metadata.log, 20, epoch=1)
    node.close_metadata(is_clean=True)
    log = opened(disk).metadata.log
    assert log.durable_end_offset == 20
    log.truncate_to(15)
    write(log, 3, epoch=2)
    found = opened(disk).metadata.log
    assert (found.log_end_offset, found.durable_end_offset) == (18, 15)
