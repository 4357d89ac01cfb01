"""Many logs after a clean stop: how often is the disk asked about each of them?"""

from __future__ import annotations

from collections import Counter

from headrace.core.ids import TopicPartition
from headrace.core.ports import FileStat
from headrace.sim.disk import LossyFile, LossyFiles
from headrace.storage.known_logs import KNOWN_LOGS
from headrace.storage.log_store import LogStore
from tests.support.stores import DIRECTORY_ID, NOW_MS, SMALL, TOPIC_ID, fill, memory_store

COUNT = 20


class CountingFiles(LossyFiles):
    """Files that count who asks for what in the directories of partitions."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def listdir(self, path: str, /) -> list[str]:
        """As the files'."""
        self.calls["list"] += path != "/data"
        return super().listdir(path)

    def stat(self, path: str, /) -> FileStat | None:
        """As the files'."""
        self.calls["stat"] += 1
        return super().stat(path)

    def read_file(self, path: str, /) -> bytes | None:
        """As the files'."""
        self.calls["read"] += path.count("/") > 2
        return super().read_file(path)

    def open(self, path: str, /, *, create: bool = False, truncate: bool = False, read_only: bool = False) -> LossyFile:
        """As the files'."""
        self.calls["open"] += path.count("/") > 2
        return super().open(path, create=create, truncate=truncate, read_only=read_only)


def closed_well(files: CountingFiles) -> None:
    """Logs with records, after a clean stop."""
    store = memory_store(files)
    for number in range(COUNT):
        log = store.create(TopicPartition("many", number), topic_id=TOPIC_ID, config=SMALL)
        log.begin_epoch(1)
        fill(log, 3)
    store.close(clean=True)
    files.calls.clear()


def started(files: CountingFiles) -> LogStore:
    """The next start."""
    again = LogStore(files, {"/data": DIRECTORY_ID})
    again.load(lambda _: SMALL, now_ms=NOW_MS)
    assert [log.log_end_offset for log in again.logs().values()] == [3] * COUNT
    return again


def test_a_start_after_a_clean_stop_reads_no_log() -> None:
    """A node with ten thousand logs asks ten thousand times: whether the directory and the segment are as they were."""
    files = CountingFiles()
    closed_well(files)
    started(files)
    assert files.calls == {"list": 0, "stat": 2 * COUNT, "read": 0}


def test_a_start_after_a_clean_stop_asks_the_disk_little_about_each_log() -> None:
    """Where no list says how the logs stood: the names once, the topic id, the epochs and the producers, the log's size and its last batch."""
    files = CountingFiles()
    closed_well(files)
    files.unlink(f"/data/{KNOWN_LOGS}")
    started(files)
    assert files.calls == {"list": COUNT, "stat": COUNT, "read": 3 * COUNT, "open": COUNT}
