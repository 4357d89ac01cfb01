"""How much of the indexes is read, and for how long is it kept?"""

from __future__ import annotations

from dataclasses import replace

from headrace.sim.disk import LossyFiles
from headrace.storage.log_store import LogStore
from headrace.storage.stored_log import StoredLog
from headrace.storage.sweeping import IDLE_CHECK_INTERVAL_MS
from tests.support.stores import NOW_MS, PARTITION, SMALL, append, batch, memory_store, open_log, records_of


class CountingFiles(LossyFiles):
    """Remembers which files were read whole."""

    def __init__(self) -> None:
        super().__init__()
        self.whole: list[str] = []

    def read_file(self, path: str, /) -> bytes | None:
        """Read, and remember."""
        self.whole.append(path)
        return super().read_file(path)

    def indexes(self) -> list[str]:
        """Index files that were read whole so far."""
        return [path for path in self.whole if path.endswith("index")]


def restarted(config: object = SMALL) -> tuple[CountingFiles, LogStore, StoredLog]:
    """A log with many segments, found after a clean stop."""
    files = CountingFiles()
    store = memory_store(files)
    log = open_log(store)
    for index in range(200):
        append(log, batch(b"%d" % index * 5, timestamp=NOW_MS + index))
    log.advance_high_watermark(log.log_end_offset)
    store.close(clean=True)
    store = memory_store(files, config)  # type: ignore[arg-type]
    found = store.get(PARTITION)
    assert found is not None
    assert len(found.segments) > 5
    files.whole.clear()
    return files, store, found


def test_retention_reads_no_index_whole() -> None:
    """inv:M6: it asks each segment for its highest time, which the end of a file says; a start with much data must not hold the loop."""
    files, store, log = restarted(replace(SMALL, retention_ms=10**9))
    expected = [next(reversed(list(s.batches())))[1].max_timestamp for s in log.segments]
    store.maintain(NOW_MS)
    store.maintain(NOW_MS + 10_000)
    assert [segment.largest_timestamp() for segment in log.segments] == expected
    assert len(files.indexes()) <= 2, "those of the active segment"


def test_indexes_that_nobody_reads_are_given_back() -> None:
    """inv:M1: a reader of the whole log leaves nothing behind for long; who comes again reads them again."""
    files, store, log = restarted()
    expected = records_of(log)
    now_ms = NOW_MS
    read = len(files.indexes())
    assert read > 5
    for _ in range(6):
        now_ms += IDLE_CHECK_INTERVAL_MS
        store.maintain(now_ms)
    assert records_of(log) == expected
    assert len(files.indexes()) > read


def test_a_damaged_end_of_a_time_index_is_rebuilt() -> None:
    """inv:D7, fault:S61: an index that lost its entries, or whose last one falls, is not believed."""
    files, store, log = restarted()
    expected = [segment.max_timestamp for segment in log.segments]
    store.close(clean=True)
    names = [f"{log.path}/{segment.base_offset:020d}.timeindex" for segment in log.segments[:3]]
    files.open(names[0]).truncate(0)
    files.open(names[1]).truncate(5)
    data = files.read_file(names[2]) or b""
    files.open(names[2]).pwrite(bytes(8), len(data) - 12)
    again = memory_store(files).get(PARTITION)
    assert again is not None
    assert [segment.max_timestamp for segment in again.segments] == expected
