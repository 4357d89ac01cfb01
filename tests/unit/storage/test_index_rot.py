"""Does a flipped bit in an index lead a reader astray?"""

from __future__ import annotations

import random

import pytest

from headrace.log.ports import OutOfRange, TimestampAndOffset
from headrace.records.batch import iter_batches
from headrace.records.walk import finish
from headrace.sim.faulty_disk import SimDisk
from headrace.storage.stored_log import StoredLog
from tests.support.stores import NOW_MS, PARTITION, append, batch, memory_store, open_log


def stopped() -> tuple[SimDisk, int]:
    """A disk with a log of several segments after a clean stop, and the log's end."""
    disk = SimDisk()
    store = memory_store(disk)
    log = open_log(store)
    chance = random.Random(1)
    for _ in range(70):
        values = [b"%d" % index * 9 for index in range(chance.randrange(1, 4))]
        append(log, batch(*values, timestamp=NOW_MS + log.log_end_offset * 3))
    store.close(clean=True)
    return disk, log.log_end_offset


def found_at(log: StoredLog, offset: int) -> int:
    """Where the batch begins that a reader of `offset` is given."""
    data = log.read_bytes(offset, 1, upper_offset=log.log_end_offset, min_one_batch=True)
    assert not isinstance(data, OutOfRange)
    found = next(iter_batches(data), None)
    return -1 if found is None else found[1].base_offset


def opened(disk: SimDisk) -> StoredLog:
    """The log."""
    log = memory_store(disk).get(PARTITION)
    assert log is not None
    return log


@pytest.mark.parametrize("seed", range(60))
def test_a_flipped_bit_in_an_offset_index_hides_no_record(seed: int) -> None:
    """fault:S61, inv:D7, PR9: every offset is read, from the batch that holds it, and the log can be cut anywhere."""
    disk, end = stopped()
    honest = opened(stopped()[0])
    expected = [found_at(honest, offset) for offset in range(end)]
    assert -1 not in expected
    chance = random.Random(seed)
    name = chance.choice([each for each in disk.listdir("/data/topic-0") if each.endswith(".index")])
    data = disk.read_file(f"/data/topic-0/{name}")
    assert data
    disk.flip_bit(f"/data/topic-0/{name}", chance.randrange(len(data)), chance.randrange(8))
    log = opened(disk)
    if seed % 2:
        assert [found_at(log, offset) for offset in range(end)] == expected
    cut = chance.randrange(1, end)
    log.truncate_to(cut)
    honest.truncate_to(cut)
    assert log.log_end_offset == honest.log_end_offset
    assert [found_at(log, offset) for offset in range(log.log_end_offset)] == expected[: log.log_end_offset]


@pytest.mark.parametrize("entry", range(3))
def test_a_time_that_no_batch_has_is_not_believed(entry: int) -> None:
    """fault:S61, inv:D7: an entry that names a lower time for a later offset would hide the records before it."""
    disk, end = stopped()
    name = f"/data/topic-0/{0:020d}.timeindex"
    data = disk.read_file(name)
    assert data
    assert len(data) > 12 * 4
    disk.open(name).pwrite(data[entry * 12 + 20 : entry * 12 + 24], entry * 12 + 8)  # the offset of the next entry
    log = opened(disk)
    for offset in range(0, end, 5):
        found = finish(log.offset_for_timestamp(NOW_MS + 3 * offset))
        assert isinstance(found, TimestampAndOffset)
        assert found.timestamp >= NOW_MS + 3 * offset
        assert found_at(log, found.offset) <= found.offset
        assert found.offset < offset + 3
