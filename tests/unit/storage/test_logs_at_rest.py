"""Many logs with nothing to do: what do they keep open, how are they synced, and what becomes of replicas that nobody knows?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.core.errors import StorageFault
from headrace.core.ids import TopicPartition, Uuid
from headrace.core.ports import DiskFull
from headrace.sim.disk import Op
from headrace.sim.faulty_disk import SimDisk
from headrace.storage.log_directory import MANY_SYNCS, STRAY_MARK
from headrace.storage.log_store import LogStore
from headrace.storage.os_files import OsFiles
from headrace.storage.stored_log import StoredLog
from headrace.storage.sweeping import IDLE_CHECK_INTERVAL_MS
from tests.support.stores import DIRECTORY_ID, NOW_MS, SMALL, TOPIC_ID, batch, fill, maintain, memory_store, records_of

COUNT = 2 * MANY_SYNCS


class NotingDisk(SimDisk):
    """A disk that remembers the kinds of its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds: list[str] = []

    def note(self, op: Op, path: str) -> None:
        """As the disk's."""
        self.kinds.append(op.kind)
        super().note(op, path)


def filled(files: SimDisk) -> tuple[LogStore, list[StoredLog]]:
    """Logs with records, none of them synced."""
    files.mkdir("/data")
    store = LogStore(files, {"/data": DIRECTORY_ID})
    store.load(lambda _: SMALL, now_ms=NOW_MS)
    names = [TopicPartition("many", number) for number in range(COUNT)]
    logs = [store.create(each, topic_id=TOPIC_ID, config=SMALL) for each in names]
    for log in logs:
        fill(log, 5)
        log.begin_epoch(3)
    return store, logs


def flush(store: LogStore) -> int:
    """Run the flushes that are due; how many."""
    jobs = store.flush_jobs_due(NOW_MS)
    store.sync(jobs)
    for log, job in jobs:
        log.flushed(job.upto)
    return len(jobs)


def test_many_new_logs_are_synced_together() -> None:
    """inv:D2, inv:D3: with a few calls, whatever their number; all of it is found after the worst power cut."""
    files = NotingDisk()
    store, logs = filled(files)
    before = len(files.kinds)
    assert flush(store) == COUNT
    kinds = files.kinds[before:]
    assert (kinds.count("sync"), kinds.count("syncdir"), kinds.count("synctree")) == (0, 0, 2)
    assert [log.durable_end_offset for log in logs] == [log.log_end_offset for log in logs]
    for log in logs:
        for name in ("partition.metadata", "leader-epoch-checkpoint", f"{0:020d}.log"):
            assert files.is_durable(f"{log.path}/{name}")


def test_a_sync_of_many_that_fails_counts_for_all_of_them() -> None:
    """defect:K31: nothing is durable, and no later sync can make it so."""
    files = SimDisk()
    store, logs = filled(files)
    files.fail_syncs = 1
    with pytest.raises(StorageFault) as caught:
        flush(store)
    assert caught.value.directory == "/data"
    assert {log.durable_end_offset for log in logs} == {0}
    for log in logs:
        with pytest.raises(StorageFault, match="counts as lost"):
            log.prepare_flush()


def test_a_clean_stop_syncs_many_logs_together() -> None:
    """inv:D4: the mark is true after the worst power cut, and the next start finds every record without reading indexes."""
    files = NotingDisk()
    store, logs = filled(files)
    expected = {log.topic_partition: records_of(log) for log in logs}
    before = len(files.kinds)
    store.close(clean=True, broker_epoch=5)
    assert files.kinds[before:].count("sync") == 5, "three checkpoints, the list of known logs and the mark"
    again = LogStore(files, {"/data": DIRECTORY_ID})
    assert again.previous_broker_epoch == 5
    again.load(lambda _: SMALL, now_ms=NOW_MS)
    assert {name: records_of(log) for name, log in again.logs().items()} == expected


def test_no_room_for_the_epochs_of_many_logs_is_no_clean_stop() -> None:
    """inv:D10: the old tables stay whole, and there is no mark."""
    files = SimDisk()
    store, _ = filled(files)
    flush(store)
    for log in store.logs().values():
        log.begin_epoch(4)
    files.is_full = True
    with pytest.raises(DiskFull):
        store.close(clean=True)
    files.is_full = False
    assert LogStore(files, {"/data": DIRECTORY_ID}).previous_broker_epoch == -1


def test_a_log_at_rest_is_synced_and_its_file_closed(tmp_path_factory: pytest.TempPathFactory) -> None:
    """inv:M1: descriptors are for logs in use; who writes or reads again opens the file again."""
    directory = str(tmp_path_factory.mktemp("logs"))
    store = LogStore(OsFiles(), {directory: DIRECTORY_ID})
    store.load(lambda _: SMALL, now_ms=NOW_MS)
    log = store.create(TopicPartition("rests", 0), topic_id=TOPIC_ID, config=SMALL)
    fill(log, 3)
    expected = records_of(log)
    for number in range(4):
        maintain(store, NOW_MS + number * IDLE_CHECK_INTERVAL_MS)
        flush(store)
    assert log.durable_end_offset == log.log_end_offset
    assert log.segments[-1]._log is None
    assert records_of(log) == expected
    log.append_as_leader(memoryview(batch(b"again")), leader_epoch=0, now_ms=NOW_MS)
    assert len(records_of(log)) == len(expected) + 1
    store.close(clean=True)


def test_a_replica_that_the_metadata_does_not_know_goes_after_the_delay() -> None:
    """D-06, S1-40: set aside at once, removed later, also by the next process; one that is damaged (D6) stays."""
    files = SimDisk()
    store, _ = filled(files)
    store.remove_strays_after(60_000)
    store.mark_stray(TopicPartition("many", 0))
    (stray,) = [name for name in files.listdir("/data") if name.endswith("-stray")]
    assert files.exists(f"/data/{stray}/{STRAY_MARK}")
    files.mkdir("/data/many-99.00000000000000000000000000000000-stray")
    store.close(clean=True)
    again = LogStore(files, {"/data": DIRECTORY_ID})
    again.remove_strays_after(60_000)
    again.load(lambda _: SMALL, now_ms=NOW_MS)
    maintain(again, NOW_MS)
    maintain(again, NOW_MS + 59_999)
    assert files.exists(f"/data/{stray}")
    maintain(again, NOW_MS + 60_000)
    assert [name for name in files.listdir("/data") if name.endswith("-stray")] == [
        "many-99.00000000000000000000000000000000-stray"
    ]


def test_strays_are_kept_where_that_is_wanted() -> None:
    """D-06, headrace.keep.strays: nothing is removed."""
    store = memory_store(SimDisk(), replace(SMALL))
    store.create(TopicPartition("unknown", 0), topic_id=Uuid(b"x" * 16), config=SMALL)
    store.mark_stray(TopicPartition("unknown", 0))
    for days in range(3):
        maintain(store, NOW_MS + days * 86_400_000)
    assert any("-stray" in note for note in store.notes)
    assert store.removals_due() == []
