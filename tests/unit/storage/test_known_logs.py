"""A start after a clean stop takes from one list how the logs stood: never what is not so, and nothing of a log that anybody has touched."""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.core.ids import TopicPartition, Uuid
from headrace.core.ports import DiskFull, FileStat
from headrace.records.crc import crc32c
from headrace.records.record import ProducerStamp
from headrace.sim.disk import LossyFile, LossyFiles, Op
from headrace.storage.known_logs import KNOWN_LOGS, KnownLog, KnownLogs, KnownSegment, known_logs_text, parse_known_logs
from headrace.storage.layout import CLEAN_SHUTDOWN
from headrace.storage.os_files import OsFiles
from headrace.storage.stored_log import StoredLog
from tests.support.stores import (
    NOW_MS,
    PARTITION,
    SMALL,
    TOPIC_ID,
    batch,
    fill,
    load_store,
    memory_store,
    open_log,
    open_store,
    producer_batch,
    records_of,
    sync,
)

NAME = "topic-0"
OTHER_ID = Uuid(b"another topic id")
LIST = f"/data/{KNOWN_LOGS}"


class WatchedFiles(LossyFiles):
    """Files that remember which directories were listed."""

    def __init__(self) -> None:
        super().__init__()
        self.listed: list[str] = []

    def listdir(self, path: str, /) -> list[str]:
        """As the files'."""
        self.listed.append(path)
        return super().listdir(path)


def known_names(files: LossyFiles) -> set[str]:
    """The directories that the list names."""
    data = files.read_file(LIST)
    return set() if data is None else set(parse_known_logs(data))


def told(log: StoredLog) -> tuple[object, ...]:
    """All that a log says of itself."""
    producers = [
        (each.producer_id, each.producer_epoch, each.last_timestamp, list(each.batches)) for each in log.producers
    ]
    return (
        (log.topic_id, log.log_start_offset, log.log_end_offset, log.high_watermark, log.last_stable_offset),
        (log.durable_end_offset, log.recovery_point, log.epochs.entries(), log.epochs.version),
        [(each.base_offset, each.size, each.created_ms, each.largest_timestamp()) for each in log.segments],
        (producers, log.producers.end_offset, list(log.notes), log.at_rest(), records_of(log)),
    )


def live(log: StoredLog, chance: random.Random) -> None:
    """Something of what may happen to a log."""
    epoch, sequence = log.latest_epoch or 0, 0
    log.begin_epoch(epoch)
    for _ in range(chance.randrange(0, 8)):
        happens = chance.randrange(7)
        if happens == 0:
            fill(log, chance.randrange(1, 12), seed=chance.randrange(1000), leader_epoch=epoch)
        elif happens == 1:
            data = producer_batch(ProducerStamp(7, 0, sequence), b"one", b"two")
            log.append_as_leader(data, leader_epoch=epoch, now_ms=NOW_MS)
            sequence += 2
        elif happens == 2:
            epoch += chance.randrange(1, 3)
            log.begin_epoch(epoch)
        elif happens == 3:
            log.roll(NOW_MS)
        elif happens == 4:
            sync(log)
        elif happens == 5 and chance.random() < 0.3:
            log.set_high_watermark(log.log_end_offset)
            log.advance_log_start(chance.randint(log.log_start_offset, log.log_end_offset))
        elif happens == 6 and chance.random() < 0.3:
            log.truncate_to(chance.randint(log.log_start_offset, log.log_end_offset))
            epoch += 1
            log.begin_epoch(epoch)


def test_what_is_known_is_what_would_be_read() -> None:
    """Of logs with any past, over several starts: as told by the list, and as read from the disk."""
    known = 0
    for seed in range(40):
        chance = random.Random(seed)
        files = LossyFiles()
        store = memory_store(files)
        for _ in range(3):
            for number in range(4):
                live(store.create(TopicPartition("many", number), topic_id=TOPIC_ID, config=SMALL), chance)
            store.close(clean=True)
            known += len(known_names(files))
            files.ops.clear()
            other = copy.deepcopy(files)
            other.unlink(LIST)
            store, read = memory_store(files), memory_store(other)
            assert not files.exists(LIST)
            for partition, log in store.logs().items():
                assert told(log) == told(read.logs()[partition]), (seed, partition)
    assert 200 < known < 40 * 12, "some logs are known, and some must be read"


def closed(files: LossyFiles) -> None:
    """A log of several segments, closed well."""
    store = memory_store(files)
    log = open_log(store)
    log.begin_epoch(0)
    fill(log, 60)
    assert len(log.segments) > 2
    store.close(clean=True)
    assert known_names(files) == {NAME}


def append_bytes(files: LossyFiles, name: str) -> None:
    """Somebody writes behind the end of a file."""
    file = files.open(f"/data/{NAME}/{name}")
    file.pwrite(b"more", file.size())


def touched_last(files: LossyFiles) -> None:
    append_bytes(files, max(name for name in files.listdir(f"/data/{NAME}") if name.endswith(".log")))


def touched_first(files: LossyFiles) -> None:
    append_bytes(files, f"{0:020d}.log")


def rewritten(files: LossyFiles) -> None:
    """The same bytes once more."""
    file = files.open(f"/data/{NAME}/{0:020d}.log")
    file.pwrite(file.pread(100, 0), 0)


def gone(files: LossyFiles) -> None:
    files.unlink(f"/data/{NAME}/{0:020d}.log")


def new_file(files: LossyFiles) -> None:
    files.open(f"/data/{NAME}/{999_999:020d}.snapshot", create=True)


def other_directory(files: LossyFiles) -> None:
    """Its content is copied into a directory that takes its name."""
    files.mkdir("/data/copy")
    for name in files.listdir(f"/data/{NAME}"):
        files.open(f"/data/copy/{name}", create=True).pwrite(files.read_file(f"/data/{NAME}/{name}") or b"", 0)
        files.unlink(f"/data/{NAME}/{name}")
    files.rmdir(f"/data/{NAME}")
    files.rename("/data/copy", f"/data/{NAME}")


@pytest.mark.parametrize("touch", [touched_last, touched_first, rewritten, gone, new_file, other_directory])
def test_a_log_that_anybody_touched_is_read(touch: Callable[[LossyFiles], None]) -> None:
    """Another program or an operator was there between the stop and the start."""
    files = WatchedFiles()
    closed(files)
    touch(files)
    other = copy.deepcopy(files)
    other.unlink(LIST)
    files.listed.clear()
    found, read = memory_store(files).logs(), memory_store(other).logs()
    assert f"/data/{NAME}" in files.listed
    assert told(found[PARTITION]) == told(read[PARTITION])


def test_without_the_mark_nothing_is_known() -> None:
    """A list that a crash left beside logs that were written to since is no list of them."""
    files = WatchedFiles()
    closed(files)
    files.unlink(f"/data/{CLEAN_SHUTDOWN}")
    known = KnownLogs(files, "/data")
    known.read()
    assert known.take(NAME) is not None
    files.listed.clear()
    memory_store(files)
    assert f"/data/{NAME}" in files.listed
    assert not files.exists(LIST)


def test_a_damaged_list_names_nothing() -> None:
    """Any byte of it may be another one."""
    files = LossyFiles()
    closed(files)
    data = files.read_file(LIST)
    assert data is not None
    for position in range(len(data)):
        for spoilt in (data[:position], bytes([*data[:position], data[position] ^ 1, *data[position + 1 :]])):
            assert parse_known_logs(spoilt) in ({}, parse_known_logs(data))
    for text in (b"", b"\n", b"00000000\n", b"zz\n{}"):
        assert parse_known_logs(text) == {}


def test_a_list_of_another_format_names_nothing() -> None:
    """A later release may write what this one cannot read."""
    segments = (KnownSegment(0, 0, (3, 4)),)
    data = known_logs_text({NAME: KnownLog((1, 2), TOPIC_ID, 0, (), segments, (), has_producers=False)})
    assert set(parse_known_logs(data)) == {NAME}
    body = data.partition(b"\n")[2].replace(b'"format":1', b'"format":2')
    assert parse_known_logs(b"%08x\n%s" % (crc32c(body), body)) == {}


def listed(body: bytes) -> bytes:
    """A list with this body, whose checksum is right."""
    return b"%08x\n%s" % (crc32c(body), body)


@pytest.mark.parametrize("body", [b"[" * 100_000, b"7", b"null", b'{"format":1}', b'{"format":1,"logs":[]}', b"\xff"])
def test_a_list_that_is_none_names_nothing(body: bytes) -> None:
    """Whoever made it."""
    assert parse_known_logs(listed(body)) == {}


@pytest.mark.parametrize(
    ("place", "value"),
    [
        *[(place, value) for place in range(6) for value in ("x", None, [["x", 1]], {"a": 1})],
        *[(2, -1), (2, True), (2, 1e9), (3, [[-1, 0]]), (4, []), (4, [[0, -1, [1, 2]]]), (5, [-1])],
    ],
)  # fmt: skip
def test_a_row_that_no_log_is_like_stops_no_start(place: int, value: object) -> None:
    """All is read then, as if there were no list."""
    files = LossyFiles()
    closed(files)
    other = copy.deepcopy(files)
    other.unlink(LIST)
    found = json.loads((files.read_file(LIST) or b"").partition(b"\n")[2])
    found["logs"][NAME][place] = value
    files.open(LIST, truncate=True).pwrite(listed(json.dumps(found).encode()), 0)
    assert told(memory_store(files).logs()[PARTITION]) == told(memory_store(other).logs()[PARTITION])


def test_a_list_that_cannot_be_read_names_nothing(tmp_path: Path) -> None:
    """Its directory is in use all the same."""
    data = tmp_path / "data"
    store = open_store(data)
    open_log(store).append_as_leader(batch(b"one"), leader_epoch=0, now_ms=NOW_MS)
    store.close(clean=True)
    (data / KNOWN_LOGS).unlink()
    os.mkfifo(data / KNOWN_LOGS)
    assert load_store(OsFiles(), str(data), SMALL, now_ms=NOW_MS).logs()[PARTITION].log_end_offset == 1
    assert not (data / KNOWN_LOGS).exists()


class FullForTheList(LossyFiles):
    """A disk with room for everything but the list."""

    def note(self, op: Op, path: str) -> None:
        """As the disk's."""
        if op.kind == "write" and KNOWN_LOGS in path:
            raise DiskFull("no room", directory="/data")
        super().note(op, path)


def test_a_disk_without_room_for_the_list_stops_cleanly_all_the_same() -> None:
    """The list is a help, and the mark of a clean stop says what counts."""
    files = FullForTheList()
    store = memory_store(files)
    fill(open_log(store), 3)
    store.close(clean=True)
    assert files.exists(f"/data/{CLEAN_SHUTDOWN}")
    assert memory_store(files).logs()[PARTITION].log_end_offset > 0


class Meanwhile(LossyFiles):
    """Files of which one is looked at (`stat`) or opened in a thread, as `at` says: the event loop does something just before."""

    def __init__(self) -> None:
        super().__init__()
        self.at, self.job = ("", ""), list[Callable[[], object]]()

    def stat(self, path: str, /) -> FileStat | None:
        """As the files'."""
        self._now_at("stat", path)
        return super().stat(path)

    def open(self, path: str, /, *, create: bool = False, truncate: bool = False, read_only: bool = False) -> LossyFile:
        """As the files'."""
        self._now_at("open", path)
        return super().open(path, create=create, truncate=truncate, read_only=read_only)

    def _now_at(self, call: str, path: str) -> None:
        if (call, path) == self.at and self.job:
            self.job.pop()()


@pytest.mark.parametrize(
    ("comes", "goes", "known"),
    [
        ((), (2,), {"many-0", "many-1"}),
        ((3,), (), {"many-0", "many-1", "many-2"}),
        ((3,), (1, 2), {"many-0"}),
    ],
)
def test_partitions_that_come_and_go_while_the_list_is_made_keep_no_stop_from_its_end(
    comes: tuple[int, ...], goes: tuple[int, ...], known: set[str]
) -> None:
    """inv:D4: the metadata go on while the logs are closed in a thread."""
    files = Meanwhile()
    store = memory_store(files)
    for number in range(3):
        log = store.create(TopicPartition("many", number), topic_id=TOPIC_ID, config=SMALL)
        log.begin_epoch(0)
        fill(log, 3)

    def change() -> None:
        for number in goes:
            store.delete(TopicPartition("many", number), NOW_MS)
        for number in comes:
            store.create(TopicPartition("many", number), topic_id=TOPIC_ID, config=SMALL)

    files.at, files.job = ("stat", "/data/many-0"), [change]
    store.close(clean=True)
    assert files.job == []
    assert files.exists(f"/data/{CLEAN_SHUTDOWN}")
    assert known_names(files) == known


@pytest.mark.parametrize("comes", [(), (2,)])
def test_a_partition_that_goes_before_it_is_prepared_keeps_no_stop_from_its_end(comes: tuple[int, ...]) -> None:
    """inv:D4: nothing is written to the directory that it had, which another topic may have now."""
    files = Meanwhile()
    store = memory_store(files)
    for number in range(3):
        log = store.create(TopicPartition("many", number), topic_id=TOPIC_ID, config=SMALL)
        log.append_as_leader(producer_batch(ProducerStamp(7, 0, 0), b"one"), leader_epoch=0, now_ms=NOW_MS)

    def change() -> None:
        store.delete(TopicPartition("many", 2), NOW_MS)
        for number in comes:
            store.create(TopicPartition("many", number), topic_id=OTHER_ID, config=SMALL)

    files.at, files.job = ("open", f"/data/many-0/{1:020d}.snapshot"), [change]
    store.close(clean=True)
    assert files.job == []
    assert files.exists(f"/data/{CLEAN_SHUTDOWN}")
    assert not files.exists(f"/data/many-2/{1:020d}.snapshot")


@pytest.mark.parametrize("at", ["", f"/{0:020d}.log"])
def test_a_topic_that_takes_the_name_of_one_that_is_deleted_just_now_is_not_known_as_that_one(at: str) -> None:
    """Both are empty."""
    files = Meanwhile()
    store = memory_store(files)
    open_log(store)

    def change() -> None:
        store.delete(PARTITION, NOW_MS)
        store.create(PARTITION, topic_id=OTHER_ID, config=SMALL)

    files.at, files.job = ("stat", f"/data/{NAME}{at}"), [change]
    store.close(clean=True)
    assert files.job == []
    assert memory_store(files).logs()[PARTITION].topic_id == OTHER_ID


def test_a_log_whose_compaction_began_is_not_known() -> None:
    """Files of a pass that was given up may lie beside it."""
    files = LossyFiles()
    store = memory_store(files)
    log = open_log(store)
    log.begin_epoch(0)
    fill(log, 3)
    sync(log)
    assert log.at_rest() is not None
    log.owner.is_compacted_here = True
    assert log.at_rest() is None


def test_a_log_on_a_real_disk_is_known_until_something_is_written(tmp_path: Path) -> None:
    """Stamps of a real file system."""
    store = open_store(tmp_path / "data")
    log = open_log(store)
    log.begin_epoch(0)
    log.append_as_leader(batch(b"one"), leader_epoch=0, now_ms=NOW_MS)
    store.close(clean=True)
    data = str(tmp_path / "data")
    known = KnownLogs(OsFiles(), data)
    known.read()
    assert known.take(NAME) is not None
    (tmp_path / "data" / NAME / "leader-epoch-checkpoint").rename(tmp_path / "data" / NAME / "was")
    (tmp_path / "data" / NAME / "was").rename(tmp_path / "data" / NAME / "leader-epoch-checkpoint")
    known.read()
    assert known.take(NAME) is None
    assert load_store(OsFiles(), data, SMALL, now_ms=NOW_MS).logs()[PARTITION].log_end_offset == 1
