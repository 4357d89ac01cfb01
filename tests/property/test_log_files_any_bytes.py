"""Damaged files of a log directory: does every start end in a log that reads, or in one clear refusal?"""

from __future__ import annotations

import random

import pytest

from headrace.core.errors import PeerError, StorageFault
from headrace.log.ports import OutOfRange
from headrace.records.record import read_all_records
from headrace.records.walk import finish
from headrace.sim.disk import LossyFiles
from headrace.storage.stored_log import StoredLog
from tests.support.stores import NOW_MS, PARTITION, fill, memory_store, open_log, sync

KINDS = (
    "log",
    "index",
    "timeindex",
    "snapshot",
    "leader-epoch-checkpoint",
    "partition.metadata",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    ".kafka_cleanshutdown",
)
CHANGES = 60


def stopped(*, clean: bool) -> dict[str, bytes]:
    """The files of a small log directory after a clean or an unclean stop."""
    files = LossyFiles()
    store = memory_store(files)
    log = open_log(store)
    fill(log, 25)
    sync(log)
    fill(log, 10, seed=5, leader_epoch=2)
    store.write_checkpoints()
    store.close(clean=clean)
    return dict(files.tree())


def disk_with(contents: dict[str, bytes]) -> LossyFiles:
    """A disk that holds these files."""
    files = LossyFiles()
    for path, data in contents.items():
        files.mkdir(path.rpartition("/")[0])
        files.open(path, create=True).pwrite(data, 0)
    return files


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Cut off, overwritten, lengthened, or with a flipped bit."""
    way = chance.randrange(4)
    if way == 0 or not data:
        return data[: chance.randrange(len(data) + 1)]
    if way == 1:
        at = chance.randrange(len(data))
        return data[:at] + chance.randbytes(chance.randrange(1, 40)) + data[at + 20 :]
    if way == 2:
        return data + chance.randbytes(chance.randrange(1, 100))
    changed = bytearray(data)
    changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def read_everything(log: StoredLog) -> None:
    """Every way to read: ends, and gives whole batches or a refusal."""
    offset = log.log_start_offset
    for _ in range(200):
        if offset >= log.log_end_offset:
            break
        found = log.read_bytes(offset, 500, upper_offset=log.log_end_offset, min_one_batch=True)
        if isinstance(found, OutOfRange) or not found:
            break
        for header, _ in read_all_records(found):
            offset = max(header.next_offset, offset + 1)
    finish(log.offset_for_timestamp(NOW_MS + 10))
    finish(log.max_timestamp())
    log.aborted_transactions(0, log.log_end_offset)
    log.end_offset_for_epoch(1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
def test_a_damaged_file_never_crashes_a_start_or_a_read(kind: str, clean: bool) -> None:
    """B77, B76, inv:D5, inv:D6, inv:D7: only StorageFault and PeerError come out, and nothing loops."""
    contents = stopped(clean=clean)
    paths = [path for path in contents if path.endswith(kind)]
    chance = random.Random(f"{kind} {clean}")
    if not paths:
        assert kind == ".kafka_cleanshutdown"
        return
    for _ in range(CHANGES):
        path = chance.choice(paths)
        files = disk_with({**contents, path: damaged(contents[path], chance)})
        store = memory_store(files)
        log = store.get(PARTITION)
        if log is None:
            assert store.notes
            continue
        try:
            read_everything(log)
        except (StorageFault, PeerError):
            continue


@pytest.mark.parametrize("kind", ["leader-epoch-checkpoint", "index", "timeindex", "snapshot"])
def test_a_cut_off_cache_changes_no_answer(kind: str) -> None:
    """inv:D7, B77: each truncation of an index, snapshot or epoch table after a clean stop."""
    contents = stopped(clean=True)
    log = memory_store(disk_with(contents)).get(PARTITION)
    assert log is not None
    expected = (log.log_end_offset, log.active_producers(), log.epoch_at(0))
    for path in [path for path in contents if path.endswith(kind)]:
        for size in range(0, len(contents[path]), 3):
            again = memory_store(disk_with({**contents, path: contents[path][:size]})).get(PARTITION)
            assert again is not None
            assert (again.log_end_offset, again.active_producers(), again.epoch_at(0)) == expected, (path, size)
