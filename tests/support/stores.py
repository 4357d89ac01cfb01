"""Small stores and logs for tests of storage: in memory, or on a real directory."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from headrace.core.ids import TopicPartition, Uuid
from headrace.core.ports import Files
from headrace.log.config import LogConfig
from headrace.log.ports import Appended
from headrace.records.record import NewRecord, ProducerStamp, Record, build_batch, read_all_records
from headrace.sim.disk import LossyFiles
from headrace.storage.log_store import LogStore
from headrace.storage.os_files import OsFiles
from headrace.storage.stored_log import StoredLog

TOPIC_ID = Uuid(b"a topic's own id")
DIRECTORY_ID = Uuid(b"a directory's id")
PARTITION = TopicPartition("topic", 0)
NOW_MS = 1_700_000_000_000
SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=200, retention_ms=-1)


def open_store(directory: Path, config: LogConfig = SMALL, *, now_ms: int = NOW_MS) -> LogStore:
    """A loaded store over one real directory."""
    directory.mkdir(exist_ok=True)
    return load_store(OsFiles(), str(directory), config, now_ms=now_ms)


def memory_store(files: LossyFiles, config: LogConfig = SMALL, *, now_ms: int = NOW_MS) -> LogStore:
    """A loaded store over `/data` of a disk in memory."""
    files.mkdir("/data")
    return load_store(files, "/data", config, now_ms=now_ms)


def load_store(files: Files, directory: str, config: LogConfig, *, now_ms: int) -> LogStore:
    """A loaded store."""
    store = LogStore(files, {directory: DIRECTORY_ID}, retention_check_interval_ms=1000)
    store.load(lambda _: config, now_ms=now_ms)
    return store


def open_log(store: LogStore, config: LogConfig = SMALL) -> StoredLog:
    """The one partition's log, made if there is none."""
    return store.create(PARTITION, topic_id=TOPIC_ID, config=config)


def batch(*values: bytes | None, key: bytes | None = b"key", timestamp: int = NOW_MS, codec: int = 0) -> memoryview:
    """A client's batch."""
    return memoryview(build_batch([NewRecord(key, value, timestamp) for value in values], codec=codec))


def producer_batch(producer: ProducerStamp, *values: bytes, timestamp: int = NOW_MS) -> memoryview:
    """A batch of an idempotent producer."""
    return memoryview(build_batch([NewRecord(b"key", value, timestamp) for value in values], producer=producer))


def append(log: StoredLog, data: memoryview, *, leader_epoch: int = 0, now_ms: int = NOW_MS) -> Appended:
    """Append as a client that must not be refused."""
    done = log.append_as_leader(data, leader_epoch=leader_epoch, now_ms=now_ms)
    assert isinstance(done, Appended), done
    return done


def fill(log: StoredLog, count: int, *, seed: int = 1, leader_epoch: int = 0) -> None:
    """Append batches of one to three records, whose values are their own offsets, of every codec."""
    chance = random.Random(seed)
    for _ in range(count):
        first = log.log_end_offset
        values = [b"%d" % (first + index) for index in range(chance.randrange(1, 4))]
        append(log, batch(*values, timestamp=NOW_MS + first, codec=chance.randrange(5)), leader_epoch=leader_epoch)


def records_of(log: StoredLog, start: int | None = None, *, max_bytes: int = 700) -> list[Record]:
    """All data records from `start` (or the log's start) to its end, fetched as a consumer would."""
    offset = log.log_start_offset if start is None else start
    first = offset
    found: list[Record] = []
    while offset < log.log_end_offset:
        data = log.read_bytes(offset, max_bytes, upper_offset=log.log_end_offset, min_one_batch=True)
        assert isinstance(data, bytes)
        before = offset
        for header, records in read_all_records(data):
            offset = header.next_offset
            if not header.is_control:
                found += [record for record in records if record.offset >= first]
        assert offset > before, "a fetch made no progress"
    return found


def sync(log: StoredLog) -> None:
    """Run a flush job as the driver does."""
    job = log.prepare_flush()
    if job is not None:
        job.run()
        log.flushed(job.upto)


def maintain(store: LogStore, now_ms: int) -> None:
    """What the driver does once a second: maintenance, and the removals that it found due."""
    store.maintain(now_ms)
    for removal in store.removals_due():
        removal()


def values_of(records: Sequence[Record]) -> list[bytes | None]:
    """The values of records."""
    return [record.value for record in records]
