"""Cuts of many logs, ordered as work for threads: what is done where, and who is told?"""

from __future__ import annotations

from headrace.core.ids import TopicPartition, Uuid
from headrace.log.ports import LogCut
from headrace.node.jobs import DiskJob, Lane, LogWork
from headrace.node.log_cuts import order_cuts
from headrace.sim.disk import LossyFiles
from headrace.storage.log_store import LogStore
from tests.support.stores import NOW_MS, SMALL, TOPIC_ID, append, batch, fill

DIRECTORIES = {"/a": Uuid(b"a" * 16), "/b": Uuid(b"b" * 16)}


def test_a_job_a_log_directory_and_one_end() -> None:
    """Each directory has its own jobs, one after the other in a lane; `then` is called when the last is done, and all logs may be used."""
    files = LossyFiles()
    for path in DIRECTORIES:
        files.mkdir(path)
    store = LogStore(files, DIRECTORIES)
    store.load(lambda _: SMALL, now_ms=NOW_MS)
    logs = [store.create(TopicPartition("t", number), topic_id=TOPIC_ID, config=SMALL) for number in range(4)]
    assert {log.directory for log in logs} == set(DIRECTORIES)
    for log in logs:
        fill(log, 20)
    ordered: list[DiskJob] = []
    told: list[str] = []

    def do(work: LogWork) -> None:
        ordered.append(work.job)

    cuts = [LogCut(log.topic_partition, 4) for log in logs]
    order_cuts(store, cuts, do=do, then=lambda: told.append("cut"))
    count = 0
    while ordered:
        job = ordered.pop(0)
        assert (job.lane, told) == (Lane.CUTS, [])
        ops = len(files.ops)
        job.prepare()
        assert len(files.ops) == ops
        job.run()
        ops = len(files.ops)
        job.finish()
        assert len(files.ops) == ops
        count += 1
    assert (count, told) == (4, ["cut"])
    for log in logs:
        assert log.log_end_offset <= 4
        append(log, batch(b"on"))


def test_nothing_to_cut_is_done_at_once() -> None:
    """Partitions that have no log here."""
    store = LogStore(LossyFiles(), {})
    told: list[str] = []
    order_cuts(
        store, [LogCut(TopicPartition("gone", 0), 4)], do=lambda _: told.append("work"), then=lambda: told.append("cut")
    )
    assert told == ["cut"]
