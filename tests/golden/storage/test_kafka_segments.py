"""Segment files that a real Apache Kafka 4.3.1 wrote: do they say the same to us?"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from headrace.core.ids import TopicPartition, Uuid
from headrace.log.config import LogConfig
from headrace.log.ports import AbortedTransaction, TimestampAndOffset
from headrace.records.record import read_all_records
from headrace.records.walk import finish
from headrace.storage.log_store import LogStore
from headrace.storage.os_files import OsFiles
from headrace.storage.producer_snapshot import decode_snapshot, encode_snapshot
from headrace.storage.stored_log import StoredLog

GOLDEN = Path(__file__).parent / "kafka-4.3.1"
EXPECTED: dict[str, list[dict[str, Any]]] = json.loads((GOLDEN / "expected.json").read_text())
NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(retention_ms=-1)


def open_copy(directory: Path, *, keep_mark: bool = True) -> LogStore:
    """A store over a copy of the recorded directory, loaded."""
    shutil.copytree(GOLDEN, directory)
    mark = directory / "kafka_cleanshutdown"
    if keep_mark:
        mark.rename(directory / ".kafka_cleanshutdown")
    else:
        mark.unlink()
    store = LogStore(OsFiles(), {str(directory): Uuid()})
    store.load(lambda _: CONFIG, now_ms=NOW_MS)
    return store


def log_of(store: LogStore, topic: str) -> StoredLog:
    """The one partition of a recorded topic."""
    log = store.get(TopicPartition(topic, 0))
    assert log is not None
    return log


def everything(log: StoredLog) -> list[dict[str, Any]]:
    """All data records, in the form of expected.json."""
    found: list[dict[str, Any]] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read_bytes(offset, 1000, upper_offset=log.log_end_offset, min_one_batch=True)
        assert isinstance(data, bytes)
        for header, records in read_all_records(data):
            offset = header.next_offset
            if header.is_control:
                continue
            found += [
                {
                    "offset": record.offset,
                    "timestamp": record.timestamp,
                    "key": text(record.key),
                    "value": text(record.value),
                    "headers": [[name, text(value)] for name, value in record.headers],
                }
                for record in records
            ]
    return found


def text(data: bytes | None) -> str | None:
    """Bytes as expected.json holds them."""
    return None if data is None else data.decode("latin-1")


@pytest.mark.parametrize("topic", sorted(EXPECTED))
@pytest.mark.parametrize("keep_mark", [True, False], ids=["clean stop", "unclean stop"])
def test_every_record_of_kafka_is_read(topic: str, keep_mark: bool, tmp_path: Path) -> None:
    """B-P01, inv:D5: after a clean stop, and after recovery of the same files, every record is there with every codec."""
    store = open_copy(tmp_path / "data", keep_mark=keep_mark)
    assert everything(log_of(store, topic)) == EXPECTED[topic]
    assert store.notes == []
    store.close(clean=False)


def test_bounds_and_ids_are_those_of_the_checkpoints(tmp_path: Path) -> None:
    """B-P01, S1-35: high watermark, ends, topic id and leader epoch come out of Kafka's files."""
    store = open_copy(tmp_path / "data")
    plain = log_of(store, "plain")
    assert (plain.log_start_offset, plain.high_watermark, plain.log_end_offset) == (0, 150, 150)
    assert plain.durable_end_offset == 150
    assert f"topic_id: {plain.topic_id}" in (GOLDEN / "plain-0" / "partition.metadata").read_text()
    assert plain.latest_epoch == 0
    assert store.previous_broker_epoch == json.loads((GOLDEN / "kafka_cleanshutdown").read_text())["brokerEpoch"]
    store.close(clean=False)


def test_times_are_found_through_kafkas_time_index(tmp_path: Path) -> None:
    """B-P10: by timestamp, past the end, and the highest timestamp."""
    store = open_copy(tmp_path / "data")
    plain = log_of(store, "plain")
    asked = EXPECTED["plain"][71]["timestamp"]
    assert finish(plain.offset_for_timestamp(asked)) == TimestampAndOffset(asked, 71, 0)
    assert finish(plain.offset_for_timestamp(asked + 10**12)) is None
    highest = max(record["timestamp"] for record in EXPECTED["plain"])
    assert finish(plain.max_timestamp()) == TimestampAndOffset(highest, 149, 0)
    store.close(clean=False)


@pytest.mark.parametrize("keep_mark", [True, False], ids=["clean stop", "unclean stop"])
def test_transactions_are_those_of_kafka(keep_mark: bool, tmp_path: Path) -> None:
    """inv:E7, inv:E8, inv:D7: the aborted transaction is known, from Kafka's .txnindex and from the log alone."""
    store = open_copy(tmp_path / "data", keep_mark=keep_mark)
    log = log_of(store, "transactional")
    producer = next(each for each in log.active_producers() if each.coordinator_epoch >= 0)
    stored = log.aborted_transactions(0, log.log_end_offset)
    assert stored == [AbortedTransaction(producer.producer_id, 7, 13, 14)]
    log.set_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == log.log_end_offset
    store.close(clean=False)


@pytest.mark.parametrize("path", sorted(GOLDEN.rglob("*.snapshot")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_producer_snapshots_are_written_as_kafka_writes_them(path: Path) -> None:
    """B-P04: a snapshot of Kafka's is read, and written back byte for byte."""
    data = path.read_bytes()
    entries = decode_snapshot(data)
    assert entries is not None
    assert encode_snapshot(entries) == data


@pytest.mark.parametrize("topic", sorted(EXPECTED))
def test_producers_from_snapshot_and_from_the_log_agree(topic: str, tmp_path: Path) -> None:
    """inv:E4, inv:D7: without snapshots and epoch table the log says the same about producers and epochs."""
    store = open_copy(tmp_path / "a")
    from_snapshot = log_of(store, topic)
    other = tmp_path / "b"
    shutil.copytree(GOLDEN, other)
    for path in [*other.rglob("*.snapshot"), *other.rglob("*index"), *other.rglob("leader-epoch-checkpoint")]:
        if path.suffix != ".txnindex":
            path.unlink()
    (other / "kafka_cleanshutdown").rename(other / ".kafka_cleanshutdown")
    rebuilt_store = LogStore(OsFiles(), {str(other): Uuid()})
    rebuilt_store.load(lambda _: CONFIG, now_ms=NOW_MS)
    rebuilt = log_of(rebuilt_store, topic)
    assert rebuilt.active_producers() == from_snapshot.active_producers()
    assert rebuilt.epochs.entries() == from_snapshot.epochs.entries()
    assert everything(rebuilt) == EXPECTED[topic]
    store.close(clean=False)
    rebuilt_store.close(clean=False)


@pytest.mark.parametrize("name", ["00000000000000000000", "00000000000000000030", "00000000000000000120"])
def test_indexes_built_anew_are_kafkas(name: str, tmp_path: Path) -> None:
    """inv:D7: the offset and time index that we build of a segment are the bytes that Kafka left."""
    store = open_copy(tmp_path / "data", keep_mark=False)
    log = log_of(store, "plain")
    segment = next(each for each in log.segments if each.base_offset == int(name))
    segment.rebuild_indexes()
    segment.store_indexes()
    for suffix in (".index", ".timeindex"):
        assert (tmp_path / "data" / "plain-0" / (name + suffix)).read_bytes() == (
            GOLDEN / "plain-0" / (name + suffix)
        ).read_bytes()
    store.close(clean=False)
