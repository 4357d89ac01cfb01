"""All logs of a node on disks in memory: found, loaded, created, deleted, set aside, checkpointed, compacted, closed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from headrace.core.errors import StorageFault
from headrace.core.ids import ZERO_UUID, TopicPartition, Uuid
from headrace.log.config import LogConfig
from headrace.log.ports import FileSlice
from headrace.records.walk import finish
from headrace.sim.disk import LossyFile, LossyFiles, Op
from headrace.storage import checkpoints
from headrace.storage.known_logs import KNOWN_LOGS
from headrace.storage.layout import CLEAN_SHUTDOWN
from headrace.storage.log_store import LogStore
from tests.support.stores import (
    DIRECTORY_ID,
    NOW_MS,
    PARTITION,
    SMALL,
    TOPIC_ID,
    append,
    batch,
    fill,
    maintain,
    memory_store,
    open_log,
    records_of,
    sync,
    values_of,
)

OTHER = TopicPartition("other", 1)
COMPACT = replace(SMALL, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.1)


class BrokenFiles(LossyFiles):
    """A disk whose one directory cannot be read."""

    broken = "/none"

    def listdir(self, path: str, /) -> list[str]:
        """Refuses the broken directory."""
        if path.startswith(self.broken):
            raise StorageFault(f"cannot list {path}", directory=self.log_directory_of(path))
        return super().listdir(path)


def test_a_clean_stop_and_start_keeps_everything() -> None:
    """B-P01, inv:D4, inv:D8, S3-49: records, watermark, epochs, start; the mark carries the broker epoch and goes first."""
    files = LossyFiles()
    store = memory_store(files)
    log = open_log(store)
    fill(log, 60)
    log.advance_high_watermark(40)
    log.advance_log_start(20)
    expected = records_of(log)
    store.close(clean=True, broker_epoch=17)
    again = LogStore(files, {"/data": DIRECTORY_ID})
    assert again.previous_broker_epoch == 17
    assert [(found.partition, found.topic_id) for found in again.found()] == [(PARTITION, TOPIC_ID)]
    assert again.logs() == {}
    again.load(lambda _: SMALL, now_ms=NOW_MS)
    assert checkpoints.read_clean_shutdown(files, "/data") is None
    log = again.create(PARTITION, topic_id=TOPIC_ID, config=SMALL)
    assert (log.log_start_offset, log.high_watermark, log.durable_end_offset) == (20, 40, log.log_end_offset)
    assert records_of(log) == expected
    assert again.notes == []


class ReadFile(LossyFile):
    """An open file that tells what is read of it."""

    def __init__(self, files: ReadFiles, opened: LossyFile) -> None:
        super().__init__(files, opened.node, opened.path)
        self._disk = files

    def pread(self, size: int, offset: int, /) -> bytes:
        """As the port's."""
        found = super().pread(size, offset)
        self._disk.read[self.path] += len(found)
        return found

    def pread_into(self, buffer: bytearray | memoryview, offset: int, /) -> int:
        """As the port's."""
        count = super().pread_into(buffer, offset)
        self._disk.read[self.path] += count
        return count


class ReadFiles(LossyFiles):
    """A disk that counts the bytes read of each open file."""

    def __init__(self) -> None:
        super().__init__()
        self.read: Counter[str] = Counter()

    def open(self, path: str, /, *, create: bool = False, truncate: bool = False, read_only: bool = False) -> LossyFile:
        """As the port's."""
        return ReadFile(self, super().open(path, create=create, truncate=truncate, read_only=read_only))


@pytest.mark.parametrize("is_clean", [True, False])
def test_only_after_an_unclean_stop_whole_segments_are_read(*, is_clean: bool) -> None:
    """B-K04, S3-48: the mark spares the next start the scan; without it every segment past the recovery point is checked."""
    files = ReadFiles()
    store = memory_store(files)
    log = open_log(store)
    fill(log, 150)
    sizes = {f"{log.path}/{segment.base_offset:020d}.log": segment.size for segment in log.segments}
    *older, last = sizes
    assert len(older) > 2
    expected = records_of(log)
    store.close(clean=is_clean)
    files.read.clear()
    again = memory_store(files).get(PARTITION)
    read = {path: files.read[path] for path in sizes}
    assert again is not None
    if is_clean:
        assert {path: read[path] for path in older} == dict.fromkeys(older, 0)
        assert read[last] <= sizes[last]
    else:
        assert all(read[path] >= size for path, size in sizes.items())
    assert records_of(again) == expected


def test_the_mark_is_removed_durably_before_any_log_is_read() -> None:
    """inv:D4, defect:K29: the order of the calls at start."""
    files = LossyFiles()
    store = memory_store(files)
    fill(open_log(store), 5)
    store.close(clean=True)
    before = len(files.ops)
    memory_store(files)
    first = files.ops[before : before + 3]
    assert [(op.kind, op.name) for op in first] == [("unlink", KNOWN_LOGS), ("unlink", CLEAN_SHUTDOWN), ("syncdir", "")]


def test_a_topic_that_came_back_under_its_name_gets_a_new_log() -> None:
    """S1-35: the old topic's directory is set aside, and nothing of it is read."""
    files = LossyFiles()
    store = memory_store(files)
    append(open_log(store), batch(b"old"))
    log = store.create(PARTITION, topic_id=Uuid(b"another topic id"), config=SMALL)
    assert (log.log_end_offset, log.topic_id) == (0, Uuid(b"another topic id"))
    (aside,) = [name for name in files.listdir("/data") if name.endswith("-stray")]
    assert store.notes == [f"/data/topic-0 is not what the metadata knows under that name: set aside as /data/{aside}"]


def test_a_deleted_partition_leaves_after_its_delay() -> None:
    """S1-37: renamed to -delete at once, removed after file.delete.delay.ms; the checkpoints forget it."""
    files = LossyFiles()
    store = memory_store(files)
    open_log(store)
    keep = store.create(OTHER, topic_id=TOPIC_ID, config=SMALL)
    store.write_checkpoints()
    store.delete(PARTITION, NOW_MS)
    assert store.get(PARTITION) is None
    names = [name for name in files.listdir("/data") if name.endswith("-delete")]
    assert len(names) == 1
    assert names[0].startswith("topic-0.")
    maintain(store, NOW_MS + SMALL.file_delete_delay_ms - 1)
    assert names[0] in files.listdir("/data")
    maintain(store, NOW_MS + SMALL.file_delete_delay_ms)
    assert names[0] not in files.listdir("/data")
    store.write_checkpoints()
    assert list(checkpoints.read_offsets(files, "/data", "recovery-point-offset-checkpoint") or ()) == [OTHER]
    assert store.get(OTHER) is keep


def test_a_new_log_under_an_old_name_does_not_inherit_its_checkpoints() -> None:
    """inv:D8: the recovery point of the deleted log is gone from the disk before the new one is written."""
    files = LossyFiles()
    store = memory_store(files)
    log = open_log(store)
    fill(log, 30)
    sync(log)
    store.write_checkpoints()
    store.delete(PARTITION, NOW_MS)
    store.create(PARTITION, topic_id=Uuid(b"another topic id"), config=SMALL)
    assert checkpoints.read_offsets(files, "/data", "recovery-point-offset-checkpoint") == {}


def test_directories_on_their_way_out_are_removed_at_the_next_start() -> None:
    """S1-37: a stop between renaming and removing."""
    files = LossyFiles()
    store = memory_store(files)
    open_log(store)
    store.delete(PARTITION, NOW_MS)
    store.close(clean=True)
    again = memory_store(files)
    assert again.logs() == {}
    maintain(again, NOW_MS)
    assert not [name for name in files.listdir("/data") if "topic" in name]


def test_strays_are_set_aside_before_they_are_read() -> None:
    """S1-40: mark_stray between found and load."""
    files = LossyFiles()
    store = memory_store(files)
    fill(open_log(store), 5)
    store.close(clean=True)
    again = LogStore(files, {"/data": DIRECTORY_ID})
    for found in again.found():
        again.mark_stray(found.partition)
    again.load(lambda _: SMALL, now_ms=NOW_MS)
    assert again.logs() == {}
    assert [name for name in files.listdir("/data") if name.endswith("-stray")]


def test_new_logs_go_where_the_fewest_are_or_where_they_are_assigned() -> None:
    """KIP-858: several log directories."""
    files = LossyFiles()
    for path in ("/a", "/b"):
        files.mkdir(path)
    ids = {"/a": Uuid(b"a" * 16), "/b": Uuid(b"b" * 16)}
    store = LogStore(files, ids)
    store.load(lambda _: SMALL, now_ms=NOW_MS)
    made = [store.create(TopicPartition("t", n), topic_id=TOPIC_ID, config=SMALL) for n in range(4)]
    assert [log.directory for log in made] == ["/a", "/b", "/a", "/b"]
    assigned = store.create(TopicPartition("t", 9), topic_id=TOPIC_ID, config=SMALL, directory_id=ids["/b"])
    assert assigned.directory == "/b"
    assert [info.path for info in store.directories()] == ["/a", "/b"]


def test_a_directory_that_cannot_be_read_is_offline_and_the_others_serve() -> None:
    """A failing disk takes its log directory offline, nothing else; also while running."""
    files = BrokenFiles()
    files.broken = "/bad"
    for path in ("/good", "/bad"):
        files.mkdir(path)
    store = LogStore(files, {"/bad": Uuid(b"a" * 16), "/good": Uuid(b"b" * 16)})
    store.load(lambda _: SMALL, now_ms=NOW_MS)
    assert [info.is_online for info in store.directories()] == [False, True]
    log = store.create(PARTITION, topic_id=TOPIC_ID, config=SMALL)
    assert log.directory == "/good"
    assert store.fail_directory("/good") == [PARTITION]
    assert store.get(PARTITION) is None
    with pytest.raises(StorageFault, match="no log directory"):
        store.create(PARTITION, topic_id=TOPIC_ID, config=SMALL)


def test_old_segments_wait_for_the_log_start_checkpoint() -> None:
    """inv:D11, inv:P18: files are renamed only when the log start that excludes them is on disk."""
    files = LossyFiles()
    store = memory_store(files)
    log = open_log(store)
    fill(log, 60)
    log.advance_high_watermark(log.log_end_offset)
    log.advance_log_start(log.segments[2].base_offset)
    assert log.delete_old_segments(NOW_MS) == 2
    assert not [name for name in files.listdir(log.path) if name.endswith(".deleted")]
    store.write_checkpoints()
    marked = [op for op in files.ops if op.kind == "rename" and op.target.endswith(".deleted")]
    assert marked
    assert files.ops.index(marked[0]) > last_index(files.ops, "log-start-offset-checkpoint")
    maintain(store, NOW_MS + 10**6)
    assert not [name for name in files.listdir(log.path) if name.endswith(".deleted")]


def test_whoever_writes_the_checkpoints_old_segments_keep_their_delay() -> None:
    """inv:D11: a new log under an old name writes them too; readers of another log's deleted segments finish all the same."""
    files = LossyFiles()
    store = memory_store(files)
    log = open_log(store)
    store.create(OTHER, topic_id=TOPIC_ID, config=SMALL)
    fill(log, 60)
    log.advance_high_watermark(log.log_end_offset)
    log.advance_log_start(log.segments[1].base_offset)
    read = log.read_slice(log.log_start_offset, 100, upper_offset=log.log_end_offset, min_one_batch=True)
    assert isinstance(read, FileSlice)
    log.advance_log_start(log.segments[2].base_offset)
    maintain(store, NOW_MS)
    store.write_checkpoints()
    log.delete_old_segments(NOW_MS)
    store.delete(OTHER, NOW_MS)
    store.create(OTHER, topic_id=Uuid(b"another topic id"), config=SMALL)
    for later_ms in (1, 2, SMALL.file_delete_delay_ms - 1):
        maintain(store, NOW_MS + later_ms)
    assert [name for name in files.listdir(log.path) if name.endswith(".deleted")]
    assert len(read.read()) == read.size
    maintain(store, NOW_MS + SMALL.file_delete_delay_ms)
    assert not [name for name in files.listdir(log.path) if name.endswith(".deleted")]


def last_index(ops: list[Op], target: str) -> int:
    """Where the last rename to `target` is."""
    return max(index for index, op in enumerate(ops) if op.kind == "rename" and op.target == target)


def test_retention_runs_from_maintain() -> None:
    """B-P03: by time, at its interval."""
    config = replace(SMALL, retention_ms=1000)
    store = memory_store(LossyFiles(), config)
    log = open_log(store, config)
    fill(log, 40)
    log.advance_high_watermark(log.log_end_offset)
    maintain(store, NOW_MS)
    assert log.log_start_offset == 0
    maintain(store, NOW_MS + 100_000)
    assert log.log_start_offset == log.log_end_offset


def test_damage_below_the_recovery_point_is_rot() -> None:
    """inv:D6, S3-48: not cut, but set aside and reported; a torn tail above it is cut."""
    for is_below in (True, False):
        files = LossyFiles()
        store = memory_store(files)
        log = open_log(store)
        fill(log, 8)
        if is_below:
            sync(log)
        store.write_checkpoints()
        file = files.open(f"{log.segments[-1].path}/{log.segments[-1].base_offset:020d}.log")
        file.pwrite(b"\xff\xff", file.size() - 3)
        again = memory_store(files)
        if is_below:
            assert again.get(PARTITION) is None
            assert "part that was synced" in again.notes[0]
        else:
            kept = again.get(PARTITION)
            assert kept is not None
            assert values_of(records_of(kept)) == [b"%d" % offset for offset in range(kept.log_end_offset)]
            assert "cut at offset" in " ".join(again.notes)


def test_checkpoints_above_the_log_end_are_clamped_and_reported() -> None:
    """inv:D8."""
    files = LossyFiles()
    store = memory_store(files)
    append(open_log(store), batch(b"a"))
    store.write_checkpoints()
    for name in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
        checkpoints.write_offsets(files, "/data", name, {PARTITION: 99})
    again = memory_store(files)
    log = again.get(PARTITION)
    assert log is not None
    assert (log.high_watermark, log.durable_end_offset, log.log_end_offset) == (1, 1, 1)
    assert "above the log's end" in " ".join(again.notes)


def test_caches_may_be_deleted() -> None:
    """inv:D7, S3-48: without indexes, snapshots, epoch table and checkpoints the answers are the same."""
    files = LossyFiles()
    store = memory_store(files)
    log = open_log(store)
    fill(log, 40)
    fill(log, 20, seed=9, leader_epoch=4)
    expected, epochs, producers = records_of(log), log.epochs.entries(), log.active_producers()
    found = finish(log.offset_for_timestamp(NOW_MS + 30))
    store.close(clean=True)
    for name in files.listdir(log.path):
        if not name.endswith((".log", ".metadata")):
            files.unlink(f"{log.path}/{name}")
    for name in ("replication-offset-checkpoint", "log-start-offset-checkpoint"):
        files.unlink(f"/data/{name}")
    again = memory_store(files).get(PARTITION)
    assert again is not None
    assert (records_of(again), again.epochs.entries(), again.active_producers()) == (expected, epochs, producers)
    assert finish(again.offset_for_timestamp(NOW_MS + 30)) == found


def test_a_partition_directory_without_topic_id_is_found_as_unknown() -> None:
    """B77, S1-35: a missing or damaged partition.metadata does not stop the start."""
    files = LossyFiles()
    store = memory_store(files)
    log = open_log(store)
    store.close(clean=True)
    files.unlink(f"/data/{KNOWN_LOGS}")  # which would tell it
    files.open(f"{log.path}/partition.metadata", truncate=True)
    again = LogStore(files, {"/data": DIRECTORY_ID})
    assert [found.topic_id for found in again.found()] == [ZERO_UUID]
    assert "partition.metadata is damaged" in again.notes[0]


def compacting(config: LogConfig = COMPACT) -> tuple[LogStore, list[bytes | None]]:
    """A store whose one log has three values of each of ten keys, and the last values."""
    store = memory_store(LossyFiles(), config)
    log = open_log(store, config)
    last: dict[bytes, bytes] = {}
    for index in range(90):
        key, value = b"k%d" % (index % 10), b"%d" % index
        append(log, batch(value, key=key))
        last[key] = value
    sync(log)
    log.advance_high_watermark(log.log_end_offset)
    return store, sorted(last.values())  # type: ignore[return-value]


def test_compaction_keeps_the_last_value_of_each_key() -> None:
    """B-P03, inv:P19: bytes go, offsets stay; a second pass has nothing to do; the cleaner's offset is remembered."""
    store, last = compacting()
    log = store.get(PARTITION)
    assert log is not None
    before, segments = log.size_bytes, len(log.segments)
    job = store.next_compaction(NOW_MS)
    assert job is not None
    assert store.next_compaction(NOW_MS) is None
    job.run()
    assert job.finish(NOW_MS) == before - log.size_bytes > 0
    assert len(log.segments) <= segments
    latest = {record.key: record.value for record in records_of(log)}
    assert sorted(value for value in latest.values() if value) == last
    assert store.next_compaction(NOW_MS) is None


def test_compaction_of_a_log_that_changes_comes_to_nothing() -> None:
    """inv:D11: cut, trimmed or deleted meanwhile: no swap, no leftovers."""
    for change in ("cut", "delete"):
        store, _ = compacting()
        log = store.get(PARTITION)
        assert log is not None
        expected = records_of(log)
        job = store.next_compaction(NOW_MS)
        assert job is not None
        if change == "cut":
            log.truncate_to(log.log_end_offset - 1)
        else:
            store.delete(PARTITION, NOW_MS)
        job.run()
        assert job.finish(NOW_MS) == 0
        if change == "cut":
            assert records_of(log) == expected[:-1]
            assert store.next_compaction(NOW_MS) is not None


def test_a_damaged_log_is_not_compacted() -> None:
    """inv:D6, B53: cleaning must not make damage look like a decision."""
    store, _ = compacting()
    log = store.get(PARTITION)
    assert log is not None
    first = log.segments[0]
    first.log.pwrite(b"\xff", first.size - 1)
    job = store.next_compaction(NOW_MS)
    assert job is not None
    job.run()
    assert job.finish(NOW_MS) == 0
    assert store.next_compaction(NOW_MS) is None
    assert log.segments[0] is first


def test_a_refusal_on_a_full_disk_is_told_once() -> None:
    """inv:D10: what a log refused for lack of room reaches the operator by the next round of maintenance, and is then over."""
    store = memory_store(LossyFiles())
    open_log(store).owner.refused_for_space = "no space left"
    assert store.take_space_refusal() == ""
    maintain(store, NOW_MS)
    assert store.take_space_refusal() == "no space left"
    maintain(store, NOW_MS)
    assert store.take_space_refusal() == ""
