"""Does what the checkpoints say stay true while a log is cut, emptied, or written for the first time?"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from headrace.sim.disk import LossyFiles, crashed
from tests.support.stores import PARTITION, fill, memory_store, open_log, records_of, sync


class WatchedFiles(LossyFiles):
    """Calls `watcher` at each sync of a directory: there a thread may run."""

    watcher: Callable[[], None] = staticmethod(lambda: None)

    def fsync_dir(self, path: str, /) -> None:
        """Sync, and let others run."""
        super().fsync_dir(path)
        if path.endswith("topic-0"):
            self.watcher()


@pytest.mark.parametrize("cut", ["fully", "back"])
def test_checkpoints_may_be_written_while_a_log_is_cut(cut: str) -> None:
    """inv:D8, S3-49: a thread writes them at any moment; what it finds is a log, whole."""
    files = WatchedFiles()
    store = memory_store(files)
    log = open_log(store)
    fill(log, 60)
    log.advance_high_watermark(log.log_end_offset)
    sync(log)
    calls: list[int] = []

    def write() -> None:
        calls.append(len(log.segments))
        store.write_checkpoints()

    files.watcher = write
    if cut == "fully":
        log.truncate_fully_and_start_at(500)
    else:
        log.truncate_to(3)
    assert calls
    assert min(calls) > 0


def test_what_follows_a_cut_below_the_log_start_is_kept() -> None:
    """inv:D8, PR1: a replica whose leader's log ended below its own start; the process dies before the next checkpoint."""
    files = LossyFiles()
    store = memory_store(files)
    log = open_log(store)
    fill(log, 60)
    log.advance_high_watermark(log.log_end_offset)
    log.advance_log_start(log.log_end_offset - 2)
    sync(log)
    store.write_checkpoints()
    log.truncate_to(10)
    end = log.log_end_offset
    fill(log, 4, leader_epoch=2)
    expected = records_of(log)
    assert expected
    again = memory_store(files).get(PARTITION)
    assert again is not None
    assert (again.log_start_offset, records_of(again)) == (end, expected)


def test_a_log_whose_process_died_before_the_first_flush_is_made_durable_by_the_next() -> None:
    """inv:D2: its directory's name, and its topic id."""
    files = LossyFiles()
    files.mkdir("/data")
    files.fsync_dir("/")
    fill(open_log(memory_store(files)), 20)
    log = memory_store(files).get(PARTITION)
    assert log is not None
    sync(log)
    expected = records_of(log)
    assert log.durable_end_offset == log.log_end_offset
    for seed in range(20):
        store = memory_store(crashed(files.ops, len(files.ops), random.Random(seed)))
        found = store.get(PARTITION)
        assert found is not None, f"seed {seed}"
        assert found.topic_id == log.topic_id
        assert records_of(found) == expected
