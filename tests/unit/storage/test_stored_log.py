"""A partition log on a disk in memory: appended, read, rolled, cut, trimmed, closed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.errors import StorageFault
from headrace.core.ids import METADATA_TOPIC_ID
from headrace.core.offsets import OffsetAndEpoch
from headrace.core.ports import BytesLike, DiskFull
from headrace.log.config import LogConfig
from headrace.log.ports import Appended, AppendRefused, FileSlice, Origin, OutOfRange, TimestampAndOffset
from headrace.records.batch import set_crc
from headrace.records.control import TransactionMarker, build_marker_batch
from headrace.records.record import NewRecord, Placement, ProducerStamp, build_batch, read_all_records
from headrace.records.walk import finish
from headrace.sim.disk import LossyFile, LossyFiles
from headrace.storage.metadata_log import open_metadata_log
from headrace.storage.recovery import LoadHints
from headrace.storage.stored_log import StoredLog
from tests.support.stores import (
    NOW_MS,
    SMALL,
    append,
    batch,
    fill,
    memory_store,
    open_log,
    producer_batch,
    records_of,
    sync,
    values_of,
)


def new_log(config: LogConfig = SMALL) -> StoredLog:
    """An empty log."""
    return open_log(memory_store(LossyFiles(), config), config)


def test_offsets_follow_each_other_and_everything_is_read_back() -> None:
    """B-P01, inv:P16: over segments and codecs, from every offset on, with fetches smaller and larger than a batch."""
    log = new_log()
    fill(log, 120)
    end = log.log_end_offset
    assert len(log.segments) > 3
    for max_bytes in (1, 300, 100_000):
        assert values_of(records_of(log, max_bytes=max_bytes)) == [b"%d" % offset for offset in range(end)]
    for start in range(0, end, 7):
        assert [record.offset for record in records_of(log, start)] == list(range(start, end))


def test_leader_epoch_is_the_brokers() -> None:
    """B47: what a client put there is overwritten."""
    log = new_log()
    data = build_batch([NewRecord(b"k", b"v", NOW_MS)], placement=Placement(leader_epoch=99))
    append(log, memoryview(data), leader_epoch=5)
    stored = log.read_bytes(0, 1000, upper_offset=1, min_one_batch=True)
    assert isinstance(stored, bytes)
    assert [header.leader_epoch for header, _ in read_all_records(stored)] == [5]
    assert log.epochs.entries() == [OffsetAndEpoch(0, 5)]


def test_reads_end_at_the_upper_offset() -> None:
    """inv:P17: nothing at or above it; out of range is told from empty."""
    log = new_log()
    for value in (b"a", b"b", b"c"):
        append(log, batch(value))
    found = log.read_slice(0, 10_000, upper_offset=2, min_one_batch=True)
    assert isinstance(found, FileSlice)
    assert [header.base_offset for header, _ in read_all_records(found.read())] == [0, 1]
    empty = log.read_slice(2, 10_000, upper_offset=2, min_one_batch=True)
    assert isinstance(empty, FileSlice)
    assert (empty.size, empty.read()) == (0, b"")
    at_end = log.read_slice(3, 10_000, upper_offset=3, min_one_batch=True)
    assert isinstance(at_end, FileSlice)
    assert at_end.size == 0
    assert log.read_slice(4, 1, upper_offset=3, min_one_batch=True) == OutOfRange(log_start_offset=0, log_end_offset=3)


def test_the_first_batch_comes_whole_if_asked() -> None:
    """B-P07, KIP-74: at least one batch, however small max_bytes is; else what has no whole batch is left out."""
    log = new_log()
    append(log, batch(b"x" * 500))
    whole = log.read_bytes(0, 10, upper_offset=1, min_one_batch=True)
    cut = log.read_bytes(0, 10, upper_offset=1, min_one_batch=False)
    assert isinstance(whole, bytes)
    assert isinstance(cut, bytes)
    assert (len(list(read_all_records(whole))), cut) == (1, b"")


def test_a_refused_batch_changes_nothing() -> None:
    """B40: no offset is used up."""
    log = new_log()
    bad = batch(b"a")
    bad[-1] ^= 1
    refused = log.append_as_leader(bad, leader_epoch=0, now_ms=NOW_MS)
    assert isinstance(refused, AppendRefused)
    assert (refused.error, log.log_end_offset, log.size_bytes) == (ErrorCode.CORRUPT_MESSAGE, 0, 0)


def test_repeats_are_answered_and_not_appended() -> None:
    """inv:E2, B-P04: with the offsets of the first time; gaps and old epochs are refused."""
    log = new_log()
    first = bytes(producer_batch(ProducerStamp(5, 1, 0), b"a", b"b"))
    append(log, memoryview(bytearray(first)))
    append(log, producer_batch(ProducerStamp(5, 1, 2), b"c"))
    again = append(log, memoryview(bytearray(first)))
    assert (again.is_duplicate, again.first_offset, again.last_offset, log.log_end_offset) == (True, 0, 1, 3)
    for stamp, error in (
        (ProducerStamp(5, 1, 9), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (ProducerStamp(5, 0, 3), ErrorCode.INVALID_PRODUCER_EPOCH),
    ):
        refused = log.append_as_leader(producer_batch(stamp, b"x"), leader_epoch=0, now_ms=NOW_MS)
        assert isinstance(refused, AppendRefused)
        assert refused.error is error


def test_a_batch_larger_than_a_segment_is_refused() -> None:
    """B49: RECORD_LIST_TOO_LARGE, as Kafka says."""
    refused = new_log().append_as_leader(batch(bytes(3000)), leader_epoch=0, now_ms=NOW_MS)
    assert isinstance(refused, AppendRefused)
    assert refused.error is ErrorCode.RECORD_LIST_TOO_LARGE


def test_a_full_disk_leaves_the_log_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """inv:D10: refused with KAFKA_STORAGE_ERROR, reads go on, and with room back appends do."""
    log = new_log()
    fill(log, 5)
    before = values_of(records_of(log))
    honest = LossyFile.pwrite

    def full(self: LossyFile, data: BytesLike, offset: int, /) -> None:
        honest(self, bytes(data)[: len(data) // 2], offset)
        raise DiskFull("no space left", directory="")

    monkeypatch.setattr(LossyFile, "pwrite", full)
    refused = log.append_as_leader(batch(b"lost"), leader_epoch=0, now_ms=NOW_MS)
    assert isinstance(refused, AppendRefused)
    assert refused.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert values_of(records_of(log)) == before
    assert log.owner.refused_for_space == "no space left"
    monkeypatch.setattr(LossyFile, "pwrite", honest)
    append(log, batch(b"kept"))
    assert values_of(records_of(log)) == [*before, b"kept"]


def test_times_are_found() -> None:
    """B-P10: the first record at or after a time, record by record inside a batch; the highest time."""
    log = new_log()
    fill(log, 60)
    end = log.log_end_offset
    records = records_of(log)
    for record in records[::5]:
        assert finish(log.offset_for_timestamp(record.timestamp)) == TimestampAndOffset(
            record.timestamp, next(r.offset for r in records if r.timestamp >= record.timestamp), 0
        )
    highest = max(record.timestamp for record in records)
    assert finish(log.max_timestamp()) == TimestampAndOffset(
        highest, next(r.offset for r in records if r.timestamp == highest), 0
    )
    assert finish(log.offset_for_timestamp(highest + 1)) is None
    assert finish(new_log().max_timestamp()) is None
    assert end > 60


def test_a_batch_that_cannot_be_opened_stops_no_time_lookup() -> None:
    """B53: the header answers for it."""
    log = new_log()
    damaged = build_batch([NewRecord(b"k", b"v" * 50, NOW_MS)], codec=4)
    damaged[70:] = bytes(len(damaged) - 70)
    set_crc(damaged, 0, len(damaged))
    append(log, memoryview(damaged))
    assert finish(log.offset_for_timestamp(NOW_MS)) == TimestampAndOffset(NOW_MS, 0, 0)
    assert finish(log.max_timestamp()) == TimestampAndOffset(NOW_MS, 0, 0)


def test_a_follower_writes_the_leaders_bytes() -> None:
    """S3-109, inv:P16: equal files, epochs and producers; a cut-off last batch is left out."""
    leader, follower = new_log(), new_log()
    fill(leader, 20)
    append(leader, producer_batch(ProducerStamp(5, 1, 0), b"a"), leader_epoch=3)
    while follower.log_end_offset < leader.log_end_offset:
        data = leader.read_bytes(follower.log_end_offset, 900, upper_offset=leader.log_end_offset, min_one_batch=True)
        assert isinstance(data, bytes)
        done = follower.append_as_follower(memoryview(data), leader_epoch=3, now_ms=NOW_MS)
        assert isinstance(done, Appended)
    assert records_of(follower) == records_of(leader)
    assert follower.epochs.entries() == leader.epochs.entries()
    assert follower.active_producers() == leader.active_producers()


def test_bad_batches_of_a_leader_are_not_appended() -> None:
    """B52, inv:R20: wrong CRC, newer epoch, offsets that go back; good ones before them are."""
    good = build_batch([NewRecord(b"k", b"v", 0)], placement=Placement(base_offset=0, leader_epoch=1))
    newer = build_batch([NewRecord(b"k", b"v", 0)], placement=Placement(base_offset=1, leader_epoch=9))
    broken = build_batch([NewRecord(b"k", b"v", 0)], placement=Placement(base_offset=1, leader_epoch=1))
    broken[-1] ^= 1
    for bad in (newer, broken, good):
        log = new_log()
        done = log.append_as_follower(memoryview(bytes(good) + bytes(bad)), leader_epoch=1, now_ms=NOW_MS)
        assert isinstance(done, Appended)
        assert log.log_end_offset == 1
        refused = log.append_as_follower(memoryview(bytes(bad)), leader_epoch=1, now_ms=NOW_MS)
        assert isinstance(refused, AppendRefused)


def test_a_follower_may_begin_inside_a_batch() -> None:
    """B-P02: the leader's log start lies inside its first batch; the empty follower begins with that batch."""
    log = new_log()
    log.truncate_fully_and_start_at(12)
    first = build_batch(
        [NewRecord(b"k", b"%d" % n, 0) for n in range(10, 15)], placement=Placement(base_offset=10, leader_epoch=1)
    )
    done = log.append_as_follower(memoryview(bytes(first)), leader_epoch=1, now_ms=NOW_MS)
    assert isinstance(done, Appended)
    assert (log.log_start_offset, log.log_end_offset) == (12, 15)
    assert values_of(records_of(log)) == [b"12", b"13", b"14"]


def test_cutting_forgets_records_producers_and_epochs() -> None:
    """inv:P12, defect:K13, defect:K35: state is what the rest of the log says, over segment limits."""
    log = new_log()
    fill(log, 30)
    append(log, producer_batch(ProducerStamp(5, 0, 0), b"a"), leader_epoch=1)
    keep = log.log_end_offset
    append(log, producer_batch(ProducerStamp(5, 0, 1), b"b"), leader_epoch=1)
    fill(log, 30, seed=3, leader_epoch=2)
    expected = records_of(log)[:keep]
    assert log.truncate_to(keep)
    assert (log.log_end_offset, log.latest_epoch) == (keep, 1)
    assert records_of(log) == expected
    assert [(p.producer_id, p.last_sequence) for p in log.active_producers()] == [(5, 0)]
    append(log, producer_batch(ProducerStamp(5, 0, 1), b"again"), leader_epoch=3)
    assert records_of(log)[-1].value == b"again"


def test_a_cut_inside_a_batch_takes_the_whole_batch() -> None:
    """inv:P12: the log ends at or before the offset asked for."""
    log = new_log()
    append(log, batch(b"a"))
    append(log, batch(b"b", b"c", b"d"))
    log.truncate_to(2)
    assert log.log_end_offset == 1


def test_cutting_to_the_end_drops_an_empty_epoch() -> None:
    """defect:K13: nothing to cut, but the epoch that began here was never written."""
    log = new_log()
    append(log, batch(b"a"), leader_epoch=1)
    log.begin_epoch(2)
    assert log.epochs.entries() == [OffsetAndEpoch(0, 1), OffsetAndEpoch(1, 2)]
    assert not log.truncate_to(1)
    assert log.epochs.entries() == [OffsetAndEpoch(0, 1)]


def test_delete_records_and_retention() -> None:
    """B-P03, inv:P18: the log start rises at once, whole segments below go; nothing above the high watermark."""
    log = new_log()
    fill(log, 60)
    with pytest.raises(ValueError, match="high watermark"):
        log.advance_log_start(5)
    log.advance_high_watermark(log.log_end_offset)
    middle = log.segments[2].base_offset + 1
    assert log.advance_log_start(middle)
    assert not log.advance_log_start(middle - 1)
    assert log.delete_old_segments(NOW_MS) == 2
    assert (log.log_start_offset, log.segments[0].base_offset) == (middle, middle - 1)
    assert records_of(log)[0].offset == middle
    log.update_config(replace(SMALL, retention_ms=0))
    log.delete_old_segments(NOW_MS + 10**9)
    assert (log.log_start_offset, log.size_bytes, len(log.segments)) == (log.log_end_offset, 0, 1)


def test_flush_is_due_by_messages_time_and_roll() -> None:
    """flush.messages, flush.ms; a roll asks for it too."""
    log = new_log()
    sync(log)
    append(log, batch(b"a", b"b"))
    assert not log.is_flush_due(NOW_MS)
    log.update_config(replace(SMALL, flush_messages=2))
    assert log.is_flush_due(NOW_MS)
    log.update_config(replace(SMALL, flush_ms=100))
    assert not log.is_flush_due(50)
    assert log.is_flush_due(NOW_MS + 100)
    sync(log)
    assert not log.is_flush_due(NOW_MS + 1000)
    assert log.durable_end_offset == 2
    log.update_config(SMALL)
    log.roll(NOW_MS)
    append(log, batch(b"c"))
    fill(log, 20)
    assert log.is_flush_due(NOW_MS + 1001)


def test_transactions_hold_the_stable_offset_and_aborted_ones_are_listed() -> None:
    """inv:E7, inv:E8, defect:K36: LSO from one reading of the high watermark; the list for read-committed readers."""
    log = new_log()
    stamp = ProducerStamp(9, 0, 0, is_transactional=True)
    append(log, batch(b"before"))
    append(log, producer_batch(stamp, b"x", b"y"))
    log.advance_high_watermark(3)
    assert (log.high_watermark, log.last_stable_offset) == (3, 1)
    marker = build_marker_batch(
        TransactionMarker(is_commit=False, coordinator_epoch=0), producer_id=9, producer_epoch=0, timestamp=0
    )
    log.append_as_leader(memoryview(marker), leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR)
    assert log.last_stable_offset == 1
    log.advance_high_watermark(4)
    assert log.last_stable_offset == 4
    assert [entry.first_offset for entry in log.aborted_transactions(0, 4)] == [1]
    assert log.aborted_transactions(4, 9) == []


def test_the_metadata_log_takes_contiguous_batches_only() -> None:
    """inv:R20: several batches with their own offsets and epochs; a gap or an old offset is refused."""
    files = LossyFiles()
    files.mkdir("/data")
    log = open_metadata_log(StoredLog, files, "/data", SMALL, LoadHints(now_ms=NOW_MS))
    assert log.topic_id == METADATA_TOPIC_ID

    def at(base: int, epoch: int) -> bytes:
        return bytes(
            build_batch([NewRecord(None, b"m", 0)] * 2, placement=Placement(base_offset=base, leader_epoch=epoch))
        )

    for follower in (False, True):
        base = log.log_end_offset
        data = memoryview(bytearray(at(base, 1) + at(base + 2, 1)))
        if follower:
            done: object = log.append_as_follower(data, leader_epoch=1, now_ms=NOW_MS)
        else:
            done = log.append_as_leader(data, leader_epoch=1, now_ms=NOW_MS, origin=Origin.RAFT_LEADER)
        assert isinstance(done, Appended)
    for bad in (at(9, 1), at(6, 1)):
        view = memoryview(bytearray(bad))
        assert isinstance(log.append_as_follower(view, leader_epoch=1, now_ms=NOW_MS), AppendRefused)
        refused = log.append_as_leader(view, leader_epoch=1, now_ms=NOW_MS, origin=Origin.RAFT_LEADER)
        assert isinstance(refused, AppendRefused)
    log.truncate_fully_and_start_at(100)
    assert (log.log_start_offset, log.log_end_offset, log.latest_epoch) == (100, 100, None)


def test_jobs_of_a_closed_log_come_to_nothing() -> None:
    """inv:D3, S1-37: a flush under way when the topic is deleted ends quietly."""
    log = new_log()
    append(log, batch(b"a"))
    job = log.prepare_flush()
    assert job is not None
    log.close(clean=False)
    job.run()
    assert job.upto == 0


def test_a_failed_sync_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """defect:K31, inv:D3: the bytes count as lost: nothing becomes durable, also if the next sync would succeed."""
    log = new_log()
    append(log, batch(b"a"))
    job = log.prepare_flush()
    assert job is not None
    honest = LossyFile.fsync

    def failing(self: LossyFile) -> None:
        raise StorageFault("input/output error", directory="")

    monkeypatch.setattr(LossyFile, "fsync", failing)
    with pytest.raises(StorageFault):
        job.run()
    log.flushed(job.upto)
    assert log.durable_end_offset == 0
    monkeypatch.setattr(LossyFile, "fsync", honest)
    append(log, batch(b"b"))
    with pytest.raises(StorageFault, match="counts as lost"):
        log.prepare_flush()
    assert log.durable_end_offset == 0


def test_a_flush_that_was_prepared_before_another_failed_acknowledges_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """defect:K31, inv:D3: of two syncs of one file the system tells only one of the loss, so the other must not count as done."""
    log = new_log()
    append(log, batch(b"a"))
    first = log.prepare_flush()
    append(log, batch(b"b"))
    second = log.prepare_flush()
    assert first is not None
    assert second is not None
    honest = LossyFile.fsync

    def failing(self: LossyFile) -> None:
        raise StorageFault("input/output error", directory="")

    monkeypatch.setattr(LossyFile, "fsync", failing)
    with pytest.raises(StorageFault):
        first.run()
    monkeypatch.setattr(LossyFile, "fsync", honest)
    with pytest.raises(StorageFault, match="counts as lost"):
        second.run()
    log.flushed(second.upto)
    assert log.durable_end_offset == 0
    with pytest.raises(StorageFault, match="counts as lost"):
        log.prepare_flush()


def test_what_is_decided_is_written_however_large() -> None:
    """B-P02: the quorum's and the leader's batches may exceed segment.bytes; they get a segment of their own."""
    log = new_log()
    append(log, batch(b"a"))
    large = build_batch([NewRecord(b"k", bytes(3000), 0)], placement=Placement(base_offset=1, leader_epoch=0))
    done = log.append_as_follower(memoryview(bytes(large)), leader_epoch=0, now_ms=NOW_MS)
    assert isinstance(done, Appended)
    own = memoryview(build_batch([NewRecord(b"k", bytes(3000), 0)]))
    assert isinstance(log.append_as_leader(own, leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR), Appended)
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2]
    assert [record.offset for record in records_of(log)] == [0, 1, 2]


def test_a_coordinators_batch_is_no_larger_than_its_topic_takes() -> None:
    """PR8: what clients say of themselves is in it, and every later start must read it."""
    own = build_batch([NewRecord(b"k", bytes(3000), 0)])
    for most, expected in ((len(own), Appended), (len(own) - 1, AppendRefused)):
        log = new_log(replace(SMALL, max_message_bytes=most))
        done = log.append_as_leader(
            memoryview(bytearray(own)), leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR
        )
        assert isinstance(done, expected)
        assert log.log_end_offset == (1 if isinstance(done, Appended) else 0)


def test_one_flush_at_a_time_is_asked_for() -> None:
    """inv:D2: while a flush runs none is due; the recovery point waits for the indexes it syncs."""
    log = new_log()
    fill(log, 30)
    job = log.prepare_flush()
    assert job is not None
    fill(log, 30, seed=2)
    assert not log.is_flush_due(NOW_MS)
    assert log.recovery_point == 0
    job.run()
    log.flushed(job.upto)
    assert log.is_flush_due(NOW_MS)
    assert 0 < log.recovery_point <= log.durable_end_offset
