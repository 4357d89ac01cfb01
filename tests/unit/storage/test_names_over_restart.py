"""What a process made and did not sync, the next one finds by its names: they become durable before anything behind them is acknowledged."""

from __future__ import annotations

import random

import pytest

from headrace.core.ids import Uuid
from headrace.log.ports import FileSlice
from headrace.log.store_ports import MoveStep
from headrace.sim.faulty_disk import SimDisk
from headrace.storage.log_store import LogStore
from tests.support.stores import (
    DIRECTORY_ID,
    NOW_MS,
    PARTITION,
    SMALL,
    TOPIC_ID,
    append,
    batch,
    memory_store,
    open_log,
    sync,
)

DIRECTORIES = {"/data": DIRECTORY_ID, "/other": Uuid(b"other directory!")}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("already", [0, 1])
def test_a_log_whose_process_died_before_its_first_flush_outlives_a_power_cut(seed: int, already: int) -> None:
    """fault:S53 inv:D3 PR1: the names are in the page cache only, whether the log has records or none, and the next process syncs what it appends."""
    disk = SimDisk()
    store = memory_store(disk)
    disk.fsync_dir("/")
    log = open_log(store)
    for _ in range(already):
        append(log, batch(b"unsynced"))
    again = memory_store(disk)
    found = again.get(PARTITION)
    assert found is not None
    append(found, batch(b"synced"))
    sync(found)
    disk.lose_power(random.Random(seed))
    last = memory_store(disk).get(PARTITION)
    assert last is not None
    assert last.log_end_offset == already + 1


@pytest.mark.parametrize("seed", range(10))
def test_a_log_that_began_anew_before_its_first_flush_outlives_a_power_cut(seed: int) -> None:
    """fault:S53 inv:D3 PR1: a follower's, whose leader's begins later: what is durable of it is its beginning, and not its topic id."""
    disk = SimDisk()
    store = memory_store(disk)
    disk.fsync_dir("/")
    open_log(store).truncate_fully_and_start_at(5)
    store.write_checkpoints()
    found = memory_store(disk).get(PARTITION)
    assert found is not None
    append(found, batch(b"synced"))
    sync(found)
    disk.lose_power(random.Random(seed))
    last = memory_store(disk).get(PARTITION)
    assert last is not None
    assert (last.topic_id, last.log_start_offset, last.log_end_offset) == (TOPIC_ID, 5, 6)


def two_directories(disk: SimDisk) -> LogStore:
    """A loaded store; copies that the process before began go on."""
    store = LogStore(disk, DIRECTORIES)
    store.found()
    store.keep_futures(store.found_futures(), [])
    store.load(lambda _: SMALL, now_ms=NOW_MS)
    return store


@pytest.mark.parametrize("seed", range(10))
def test_a_log_that_moved_over_the_end_of_a_process_outlives_a_power_cut(seed: int) -> None:
    """fault:S53 inv:D3 PR1, KIP-113: the copy is flushed when all of it is there, by the next process, which did not write whose log it is."""
    disk = SimDisk()
    for each in DIRECTORIES:
        disk.mkdir(each)
    disk.fsync_dir("/")
    store = two_directories(disk)
    log = store.create(PARTITION, topic_id=TOPIC_ID, config=SMALL, directory_id=DIRECTORY_ID)
    append(log, batch(b"synced"))
    sync(log)
    store.begin_move(PARTITION, "/other")
    again = two_directories(disk)
    move = again.moves()[PARTITION]
    data = move.source.read_slice(0, 10_000, upper_offset=1, min_one_batch=True)
    assert isinstance(data, FileSlice)
    for step in (MoveStep(data=data), MoveStep(is_last=True)):
        move.step(step, NOW_MS).run()
    move.take_place(NOW_MS)
    move.end()()
    disk.lose_power(random.Random(seed))
    last = two_directories(disk).get(PARTITION)
    assert last is not None
    assert (last.directory, last.topic_id, last.log_end_offset) == ("/other", TOPIC_ID, 1)
