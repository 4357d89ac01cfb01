"""What a simulated disk keeps, loses and refuses."""

from __future__ import annotations

import random

import pytest

from headrace.core.errors import StorageFault
from headrace.core.ports import DiskFull
from headrace.sim.faulty_disk import ProcessDied, SimDisk


@pytest.fixture
def disk() -> SimDisk:
    """A disk with one synced file `/d/f` of eight bytes."""
    found = SimDisk()
    found.mkdir("/d")
    found.fsync_dir("/")
    file = found.open("/d/f", create=True)
    file.pwrite(b"durable!", 0)
    file.fsync()
    found.fsync_dir("/d")
    return found


def test_synced_bytes_survive_every_power_cut_and_others_may_not(disk: SimDisk) -> None:
    """fault:S50 fault:S54: of what was not synced, nothing, all or a part is found, cut at any byte."""
    seen = set()
    for seed in range(200):
        disk.open("/d/f").pwrite(b"written", 8)
        disk.lose_power(random.Random(seed))
        data = disk.read_file("/d/f")
        assert data is not None
        assert data[:8] == b"durable!"
        assert b"written".startswith(data[8:]) or set(data[8:]) <= set(b"written\0")
        seen.add(len(data))
        file = disk.open("/d/f")
        file.truncate(8)
        file.fsync()
    assert {8, 15} < seen


def test_later_writes_may_reach_the_disk_without_earlier_ones(disk: SimDisk) -> None:
    """fault:S55: of two writes that were not synced, the first only, the second only, both, or none is found."""
    seen = set()
    for seed in range(200):
        disk.open("/d/f").pwrite(b"A", 0)
        disk.open("/d/f").pwrite(b"B", 7)
        disk.lose_power(random.Random(seed))
        data = disk.read_file("/d/f")
        assert data is not None
        seen.add((data[:1], data[7:]))
        file = disk.open("/d/f")
        file.pwrite(b"durable!", 0)
        file.fsync()
    assert {(b"d", b"B"), (b"A", b"!"), (b"A", b"B"), (b"d", b"!")} <= seen


def test_a_name_is_durable_when_its_directory_was_synced(disk: SimDisk) -> None:
    """fault:S56."""
    file = disk.open("/d/new", create=True)
    file.pwrite(b"content", 0)
    file.fsync()
    assert disk.durable_bytes("/d/new") is None
    assert not disk.is_durable("/d/new")
    disk.fsync_dir("/d")
    assert disk.durable_bytes("/d/new") == b"content"
    assert disk.is_durable("/d/new")


def test_after_a_sync_that_failed_later_ones_prove_nothing(disk: SimDisk) -> None:
    """fault:S58: the bytes are read from the page cache, the next sync succeeds, and they are not on the disk."""
    disk.fail_syncs = 1
    file = disk.open("/d/f")
    file.pwrite(b"lost", 8)
    with pytest.raises(StorageFault):
        file.fsync()
    file.fsync()
    assert disk.read_file("/d/f") == b"durable!lost"
    assert disk.durable_bytes("/d/f") == b"durable!"


def test_a_full_disk_refuses_writes_and_a_failing_one_some(disk: SimDisk) -> None:
    """fault:S57 fault:S59."""
    disk.is_full = True
    with pytest.raises(DiskFull):
        disk.open("/d/f").pwrite(b"x", 8)
    assert disk.disk_space("/d").usable_bytes == 0
    disk.forget_faults()
    disk.fail_writes = 1
    with pytest.raises(StorageFault):
        disk.open("/d/f").pwrite(b"x", 8)
    disk.open("/d/f").pwrite(b"x", 8)
    assert disk.refusals == 2


def test_the_process_dies_before_the_call_that_was_set(disk: SimDisk) -> None:
    """fault:S7: between any two calls."""
    disk.die_at_call = disk.calls + 2
    file = disk.open("/d/f")
    file.pwrite(b"1", 8)
    with pytest.raises(ProcessDied):
        file.fsync()
    assert disk.durable_bytes("/d/f") == b"durable!"


def test_rot_is_on_the_disk_and_in_what_is_read(disk: SimDisk) -> None:
    """fault:S61."""
    disk.flip_bit("/d/f", 0, 0)
    assert disk.read_file("/d/f") == disk.durable_bytes("/d/f") == b"eurable!"


def test_a_replaced_disk_is_empty_and_works(disk: SimDisk) -> None:
    """fault:S64."""
    disk.fail_writes = 5
    disk.replace()
    assert disk.listdir("/") == []
    disk.mkdir("/d")
    disk.open("/d/f", create=True).pwrite(b"again", 0)
