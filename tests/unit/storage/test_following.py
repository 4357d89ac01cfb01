"""A follower adds what is usual the quick way: whatever comes, its log is the one that the thorough way makes."""

from __future__ import annotations

import random
import struct
from dataclasses import replace
from typing import Any

import pytest

from headrace.log.config import LogConfig, TimestampType
from headrace.log.ports import Appended, AppendRefused
from headrace.records.batch import set_crc
from headrace.records.control import TransactionMarker, build_marker_batch
from headrace.records.record import NewRecord, Placement, ProducerStamp, build_batch
from headrace.sim.disk import LossyFiles
from headrace.storage.stored_log import StoredLog
from tests.support.filling_disk import FillingDisk
from tests.support.stores import NOW_MS, SMALL, memory_store, open_log
from tests.unit.broker.test_waiting_requests import calls_of

PLAIN = replace(SMALL, segment_bytes=6_000, segment_ms=40_000)
CONFIGS = {
    "plain": PLAIN,
    "append time": replace(PLAIN, message_timestamp_type=TimestampType.LOG_APPEND_TIME),
    "synced": replace(PLAIN, flush_messages=3),
    "narrow": replace(PLAIN, segment_index_bytes=48, message_timestamp_before_max_ms=1_000),
}
ATTRIBUTES, TRANSACTIONAL = 21, 0x10


class Story:
    """What a leader might send, from one seed: mostly one plain batch after the other, now and then anything else."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.offset = 0
        self.epoch = 0
        self.now_ms = NOW_MS
        self.sequences = {7: 0, 8: 0}

    def fetched(self) -> tuple[bytes, int, int]:
        """The bytes of one response, the leader's epoch, and the follower's clock."""
        data = b"".join(self._batch() for _ in range(self.chance.choice((1, 1, 1, 2, 5))))
        if self.chance.random() < 0.1:
            data = data[: self.chance.randrange(len(data))]
        self.now_ms += self.chance.choice((0, 1, 300, 5_000))
        return data, self.epoch, self.now_ms

    def _batch(self) -> bytes:
        chance = self.chance
        if chance.random() < 0.05:
            return self._marker()
        count = chance.choice((1, 2, 40))
        stamp = self.now_ms + chance.choice((0, 0, 0, -5_000, 60_000, -NOW_MS - self.now_ms))
        producer = ProducerStamp(-1, -1, -1)
        if chance.random() < 0.4:
            number = chance.choice((7, 8))
            producer = ProducerStamp(number, 1, self.sequences[number])
            self.sequences[number] += count
        placement = Placement(base_offset=self.offset, leader_epoch=self.epoch)
        records = [NewRecord(b"k", b"v", max(stamp, -1))] * count
        return bytes(self._spoilt(build_batch(records, placement=placement, producer=producer), count))

    def _marker(self) -> bytes:
        """The end of a transaction of one of the two producers."""
        placement = Placement(base_offset=self.offset, leader_epoch=self.epoch)
        self.offset += 1
        made = build_marker_batch(
            TransactionMarker(is_commit=self.chance.random() < 0.5, coordinator_epoch=0),
            producer_id=self.chance.choice((7, 8)),
            producer_epoch=1,
            timestamp=self.now_ms,
            placement=placement,
        )
        return bytes(made)

    def _spoilt(self, made: bytearray, count: int) -> bytearray:
        """Nearly always as it is, and the next one follows it."""
        dice = self.chance.random()
        if dice < 0.03:
            made[-1] ^= 1
        elif dice < 0.05:
            struct.pack_into(">q", made, 0, max(self.offset - 1, 0))
        elif dice < 0.06:
            struct.pack_into(">i", made, 12, self.epoch + 1)
        elif dice < 0.07:
            made[16] = 1
        else:
            self.offset += count
            if dice < 0.20:
                struct.pack_into(">h", made, ATTRIBUTES, TRANSACTIONAL)
                set_crc(made, 0, len(made))
            elif dice < 0.22:
                self.offset += 3  # compaction left a gap
            elif dice < 0.25:
                self.epoch += 1
        return made


class ThoroughLog(StoredLog):
    """A log without the quick way."""

    __slots__ = ()

    def _add_followed(self, batches: memoryview, leader_epoch: int, now_ms: int) -> None:
        return None


def new_log(config: LogConfig, *, disk: LossyFiles | None = None) -> StoredLog:
    return open_log(memory_store(disk or LossyFiles(), config), config)


def state_of(log: StoredLog) -> dict[str, Any]:
    """All that can be seen of a log, and what it has on its disk."""
    return {
        "offsets": (log.log_start_offset, log.log_end_offset, log.acknowledged_end_offset, log.high_watermark),
        "epochs": log.epochs.entries(),
        "producers": [each.state() for each in log.producers],
        "aborted": [segment.txn_index.file.data for segment in log.segments],
        "stable": log.last_stable_offset,
        "producers end": log.producers.end_offset,
        "segments": [
            (s.base_offset, s.size, s.max_timestamp, s.first_timestamp, s.bytes_since_entry, bytes(s.index.file.data))
            for s in log.segments
        ],
        "times": [bytes(segment.time_index.file.data) for segment in log.segments],
        "bytes": [segment.log.pread(segment.size, 0) for segment in log.segments],
    }


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("seed", range(8))
def test_both_ways_make_one_log(seed: int, config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3-109, inv:P16, B52, inv:R20: batches that are cut off, damaged, repeated, of other epochs, of transactions, behind gaps, of any time, one or many in a response."""
    story = Story(seed)
    quick, thorough = new_log(CONFIGS[config]), new_log(CONFIGS[config])
    added = 0
    for _ in range(150):
        data, epoch, now_ms = story.fetched()
        epoch -= seed % 2 and story.chance.random() < 0.1
        before = quick.log_end_offset
        done = quick.append_as_follower(memoryview(data), leader_epoch=epoch, now_ms=now_ms)
        expected = _thoroughly(thorough, data, epoch, now_ms)
        assert done == expected
        added += quick.log_end_offset > before
        if story.chance.random() < 0.95:
            story.offset = quick.log_end_offset  # it asks from its log's end
    assert state_of(quick) == state_of(thorough)
    assert added > 50


def _thoroughly(log: StoredLog, data: bytes, epoch: int, now_ms: int) -> Appended | AppendRefused:
    """Append without the quick way."""
    log.__class__ = ThoroughLog
    try:
        return log.append_as_follower(memoryview(data), leader_epoch=epoch, now_ms=now_ms)
    finally:
        log.__class__ = StoredLog


def test_a_leader_that_follows_takes_what_it_would_refuse() -> None:
    """P16: limits of the one role are not those of the other: a follower takes larger and older batches than a client may send."""
    config = replace(PLAIN, max_message_bytes=200, message_timestamp_before_max_ms=1_000)
    log = new_log(config)
    log.begin_epoch(0)
    small = memoryview(build_batch([NewRecord(b"k", b"v", NOW_MS)]))
    for _ in range(2):
        assert isinstance(log.append_as_leader(small, leader_epoch=0, now_ms=NOW_MS), Appended)
        struct.pack_into(">q", small, 0, 0)
    large = build_batch(
        [NewRecord(b"k", bytes(300), NOW_MS - 500_000)], placement=Placement(base_offset=2, leader_epoch=0)
    )
    assert isinstance(log.append_as_follower(memoryview(large), leader_epoch=0, now_ms=NOW_MS), Appended)
    large[0:8] = bytes(8)
    refused = log.append_as_leader(memoryview(large), leader_epoch=0, now_ms=NOW_MS)
    assert isinstance(refused, AppendRefused)
    assert log.log_end_offset == 3


def test_a_follower_of_a_compacted_topic_takes_batches_as_they_are() -> None:
    """The leader has looked into them."""
    log = new_log(replace(PLAIN, cleanup_policy=frozenset({"compact"})))
    for offset in range(3):
        data = build_batch([NewRecord(None, b"v", NOW_MS)], placement=Placement(base_offset=offset, leader_epoch=0))
        assert isinstance(log.append_as_follower(memoryview(data), leader_epoch=0, now_ms=NOW_MS), Appended)
    assert log.log_end_offset == 3


def test_a_full_disk_leaves_the_log_as_it_was() -> None:
    """D10: one batch or several; the same bytes are taken when there is room again."""
    disk = FillingDisk()
    log = new_log(PLAIN, disk=disk)
    for offset, count in ((0, 1), (1, 1), (2, 3)):
        data = b"".join(
            bytes(build_batch([NewRecord(None, b"v", NOW_MS)], placement=Placement(base_offset=at, leader_epoch=0)))
            for at in range(offset, offset + count)
        )
        before = state_of(log)
        disk.is_full = True
        assert isinstance(log.append_as_follower(memoryview(data), leader_epoch=0, now_ms=NOW_MS), AppendRefused)
        assert state_of(log) == before
        disk.is_full = False
        assert isinstance(log.append_as_follower(memoryview(data), leader_epoch=0, now_ms=NOW_MS), Appended)
    assert log.log_end_offset == 5


def test_a_followers_append_is_less_work_than_its_leaders() -> None:
    """Functions are counted, not time: for one batch as many as the leader calls, and for more batches hardly more."""
    leader, follower = new_log(replace(PLAIN, segment_bytes=1 << 20)), new_log(replace(PLAIN, segment_bytes=1 << 20))
    leader.begin_epoch(0)

    def sent(offset: int, count: int) -> memoryview:
        records = [NewRecord(b"k", b"v", NOW_MS)]
        return memoryview(
            b"".join(
                bytes(build_batch(records, placement=Placement(base_offset=offset + at, leader_epoch=0)))
                for at in range(count)
            )
        )

    for offset in range(3):
        leader.append_client(memoryview(bytearray(sent(0, 1))), leader_epoch=0, now_ms=NOW_MS)
        follower.append_as_follower(sent(offset, 1), leader_epoch=0, now_ms=NOW_MS)
    client = memoryview(bytearray(sent(0, 1)))
    leads = calls_of(lambda: leader.append_client(client, leader_epoch=0, now_ms=NOW_MS))
    one = sent(3, 1)
    follows = calls_of(lambda: follower.append_as_follower(one, leader_epoch=0, now_ms=NOW_MS))
    many = sent(4, 50)
    follows_many = calls_of(lambda: follower.append_as_follower(many, leader_epoch=0, now_ms=NOW_MS))
    assert (leader.log_end_offset, follower.log_end_offset) == (4, 54)
    assert follows <= leads
    assert follows_many <= 3 * 50
