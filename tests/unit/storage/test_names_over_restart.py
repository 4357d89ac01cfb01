"""What a process made and did not sync, the next one finds by its names: they become durable before anything behind them is acknowledged."""

from __future__ import annotations

import random

import pytest

from headrace.sim.faulty_disk import SimDisk
from tests.support.stores import PARTITION, append, batch, memory_store, open_log, sync


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
