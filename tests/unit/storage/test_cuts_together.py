"""Many logs cut as one job: is what is left right, whatever happens in between, and does the loop stay free?"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.ids import TopicPartition, Uuid
from headrace.log.ports import AppendRefused, LogCut
from headrace.sim.disk import LossyFiles, Op, crashed
from headrace.sim.faulty_disk import SimDisk
from headrace.storage.log_directory import MANY_SYNCS
from headrace.storage.log_store import LogStore
from headrace.storage.stored_log import StoredLog
from tests.support.stores import (
    DIRECTORY_ID,
    NOW_MS,
    SMALL,
    TOPIC_ID,
    append,
    batch,
    fill,
    maintain,
    memory_store,
    records_of,
    sync,
)

FEW = 3
MANY = 2 * MANY_SYNCS


class NamingDisk(SimDisk):
    """A disk that remembers its calls and their paths."""

    def __init__(self) -> None:
        super().__init__()
        self.named: list[tuple[str, str]] = []

    def note(self, op: Op, path: str) -> None:
        """As the disk's."""
        self.named.append((op.kind, path))
        super().note(op, path)

    def reading(self, path: str) -> None:
        """Somebody reads a file."""
        self.named.append(("read", path))
        super().reading(path)


def filled(files: LossyFiles, count: int, *, batches: int = 30) -> tuple[LogStore, list[StoredLog]]:
    """Logs of several segments, synced, with a checkpoint."""
    files.mkdir("/data")
    files.fsync_dir("/")
    store = memory_store(files)
    names = [TopicPartition("many", number) for number in range(count)]
    logs = [store.create(each, topic_id=TOPIC_ID, config=SMALL) for each in names]
    for number, log in enumerate(logs):
        fill(log, batches, seed=number)
        log.advance_high_watermark(log.log_end_offset)
        sync(log)
    store.write_checkpoints()
    return store, logs


def cuts_of(logs: Sequence[StoredLog]) -> list[LogCut]:
    """One cut a log: near the end, far back, in the middle of a batch, before the beginning, all of it, and nothing."""
    kinds: list[Callable[[int], tuple[int, bool]]] = [
        lambda end: (end - 1, False),
        lambda end: (3, False),
        lambda end: (end // 2, False),
        lambda end: (0, False),
        lambda end: (end + 50, True),
        lambda end: (end, False),
    ]
    return [
        LogCut(log.topic_partition, *kinds[number % len(kinds)](log.log_end_offset)) for number, log in enumerate(logs)
    ]


def cut_all(store: LogStore, cuts: Sequence[LogCut]) -> None:
    """The jobs, from their beginning to their end."""
    for job in store.cut(cuts):
        job.look_up()
        job.lower()
        job.run()
        job.finish()


def state_of(log: StoredLog) -> object:
    """What a log says of itself."""
    return (
        log.log_start_offset,
        log.log_end_offset,
        log.high_watermark,
        log.recovery_point,
        log.epochs.entries(),
        log.active_producers(),
        log.size_bytes,
        [segment.base_offset for segment in log.segments],
        records_of(log),
    )


@pytest.mark.parametrize("count", [FEW, MANY])
def test_a_cut_of_many_leaves_what_cuts_one_by_one_leave(count: int) -> None:
    """K13, K35: the plain twin is `truncate_to`; after a restart, too."""
    together, apart = LossyFiles(), LossyFiles()
    store, logs = filled(together, count)
    twins, singles = filled(apart, count)
    cuts = cuts_of(logs)
    cut_all(store, cuts)
    for cut, log in zip(cuts, singles, strict=True):
        if cut.starts_over:
            log.truncate_fully_and_start_at(cut.offset)
        else:
            log.truncate_to(cut.offset)
    assert [state_of(log) for log in logs] == [state_of(log) for log in singles]
    for log in [*logs, *singles]:
        append(log, batch(b"%d" % log.log_end_offset), leader_epoch=7)
    store.close(clean=True)
    twins.close(clean=True)
    found = memory_store(together).logs()
    expected = memory_store(apart).logs()
    assert [state_of(log) for log in found.values()] == [state_of(log) for log in expected.values()]


def test_each_checkpoint_is_written_once_and_all_logs_are_synced_at_once() -> None:
    """Whatever the number of logs; and what the loop does asks nothing of the disk."""
    files = NamingDisk()
    store, logs = filled(files, MANY)
    files.named.clear()
    (job,) = store.cut([LogCut(log.topic_partition, 5) for log in logs])
    assert files.named == []
    job.look_up()
    files.named.clear()
    job.lower()
    assert files.named == []
    job.run()
    named = [path.rpartition("/")[2] for kind, path in files.named if kind == "rename"]
    assert sorted(named) == sorted(set(named))
    kinds = [kind for kind, path in files.named if path.startswith("/data/many") or kind == "synctree"]
    assert (kinds.count("sync"), kinds.count("syncdir"), kinds.count("synctree")) == (0, 0, 1)
    files.named.clear()
    job.finish()
    assert files.named == []
    assert {log.log_end_offset <= 5 for log in logs} == {True}


def test_a_log_that_is_being_cut_takes_nothing_and_gives_nothing_away() -> None:
    """It is not appended to, not flushed, not trimmed, from the order to the end of the job; who waits for it is told once."""
    files = LossyFiles()
    store, logs = filled(files, FEW)
    log = logs[0]
    append(log, batch(b"quick"))
    told: list[str] = []
    assert not log.after_cut(lambda: told.append("never"))
    (job,) = store.cut([LogCut(log.topic_partition, 5)])
    refused = AppendRefused(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, message="The log is being cut.")
    for step in (job.look_up, job.lower, job.run, lambda: None):
        assert log.append_as_leader(batch(b"new"), leader_epoch=0, now_ms=NOW_MS) == refused
        assert log.append_client(batch(b"new"), leader_epoch=0, now_ms=NOW_MS) == refused
        assert log.append_as_follower(batch(b"new"), leader_epoch=0, now_ms=NOW_MS) == refused
        assert (log.prepare_flush(), log.is_flush_due(NOW_MS + 10**9)) == (None, False)
        ops = len(files.ops)
        maintain(store, NOW_MS + 10**12)
        assert len(files.ops) == ops
        assert told == []
        assert log.after_cut(lambda: told.append("waited"))
        step()
    job.finish()
    assert told == ["waited"] * 4
    assert not log.after_cut(lambda: told.append("never"))
    append(log, batch(b"%d" % log.log_end_offset))
    assert log.log_end_offset <= 6


def test_a_cut_spares_the_log_that_took_the_place_of_one_that_was_deleted() -> None:
    """Another topic may have its name by the time that a thread comes to its files."""
    files = LossyFiles()
    store, logs = filled(files, FEW)
    gone = logs[1].topic_partition
    (job,) = store.cut([LogCut(log.topic_partition, 2) for log in logs])
    job.look_up()
    job.lower()
    store.delete(gone, NOW_MS)
    again = store.create(gone, topic_id=Uuid(b"another topic id"), config=SMALL)
    fill(again, 20)
    sync(again)
    expected = records_of(again)
    job.run()
    job.finish()
    assert records_of(again) == expected
    store.close(clean=True)
    found = memory_store(files).get(gone)
    assert found is not None
    assert records_of(found) == expected


@pytest.mark.parametrize("count", [FEW, MANY])
def test_a_crash_at_any_call_of_a_cut_leaves_old_records_or_the_cut(count: int) -> None:
    """inv:D8, PR1, K35: never a hole, nothing of both; and what is appended behind the cut stays behind it."""
    files = LossyFiles()
    store, logs = filled(files, count, batches=12)
    before = [records_of(log) for log in logs]
    cuts = [
        LogCut(log.topic_partition, log.log_end_offset * (number + 1) // (count + 1)) for number, log in enumerate(logs)
    ]
    start = len(files.ops)
    cut_all(store, cuts)
    cut_at = len(files.ops)
    kept = [records_of(log) for log in logs]
    for log in logs:
        append(log, batch(b"%d" % log.log_end_offset, timestamp=NOW_MS + 5), leader_epoch=9)
        sync(log)
    after = [records_of(log) for log in logs]
    chance = random.Random(count)
    points = range(start, len(files.ops) + 1)
    for point in points if count == FEW else sorted(chance.sample(points, 25)):
        found = memory_store(crashed(files.ops, point, chance)).logs()
        for number, log in enumerate(logs):
            records = records_of(found[log.topic_partition])
            history = before[number] if point < cut_at and records == before[number][: len(records)] else after[number]
            assert records == history[: len(records)], f"call {point}"
            assert len(records) >= len(kept[number]), f"call {point}"


def test_a_stop_in_the_middle_of_a_cut_is_no_clean_one() -> None:
    """D4: the next start looks at what the cut left."""
    files = LossyFiles()
    store, logs = filled(files, FEW)
    before = [records_of(log) for log in logs]
    (job,) = store.cut([LogCut(log.topic_partition, 5) for log in logs])
    job.look_up()
    job.lower()
    store.close(clean=True)
    again = LogStore(files, {"/data": DIRECTORY_ID})
    assert again.previous_broker_epoch == -1
    again.load(lambda _: SMALL, now_ms=NOW_MS)
    assert [records_of(log) for log in again.logs().values()] == before
