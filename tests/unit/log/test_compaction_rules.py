"""What compaction keeps, and when it is due."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import TypeVar

import pytest

from headrace.log.compaction import (
    BatchCleaner,
    Cleanable,
    KeyMap,
    LastOfProducer,
    SegmentView,
    TransactionFilter,
    cleanable,
    group_segments,
    is_due,
)
from headrace.log.config import LogConfig
from headrace.log.ports import AbortedTransaction
from headrace.records.batch import HEADER, batch_is_sound, read_header, set_crc
from headrace.records.control import TransactionMarker, build_marker_batch
from headrace.records.record import NewRecord, Placement, ProducerStamp, build_batch, read_records

T = TypeVar("T")
CONFIG = LogConfig(cleanup_policy=frozenset({"compact"}), delete_retention_ms=100)
NOW_MS = 1000


def cleaner(
    last: dict[bytes, int],
    *,
    end: int = 100,
    now_ms: int = NOW_MS,
    aborted: tuple[AbortedTransaction, ...] = (),
    producers: dict[int, LastOfProducer] | None = None,
    round_end: int = -1,
    retention_ms: int = 100,
) -> BatchCleaner:
    """A cleaner whose dirty part, ending at `end`, has these last offsets."""
    keys = KeyMap()
    for key, offset in last.items():
        keys.add(key, offset)
    keys.end_offset = end
    return BatchCleaner(
        keys,
        replace(CONFIG, delete_retention_ms=retention_ms),
        now_ms=now_ms,
        transactions=TransactionFilter(aborted),
        producers=producers or {},
        round_end=round_end,
    )


def take_all(turns: Generator[None, None, T]) -> T:
    """All turns; what came out."""
    try:
        while True:
            next(turns)
    except StopIteration as ended:
        found: T = ended.value
        return found


def batch(*records: tuple[bytes | None, bytes | None], base: int = 10, producer: ProducerStamp | None = None) -> bytes:
    """A batch at offset `base`."""
    new = [NewRecord(key, value, 5) for key, value in records]
    return bytes(
        build_batch(new, producer=producer or ProducerStamp(), placement=Placement(base_offset=base, leader_epoch=3))
    )


def cleaned(by: BatchCleaner, data: bytes) -> bytes | None:
    """What is left of a batch."""
    left = take_all(by.clean(read_header(data), data))
    return None if left is None else bytes(left)


def test_only_the_last_value_of_a_key_stays_at_its_offset() -> None:
    """inv:P19: offsets, order, base and last offset and leader epoch are kept."""
    data = batch((b"a", b"1"), (b"b", b"2"), (b"c", b"3"))
    left = cleaned(cleaner({b"a": 10, b"b": 50, b"c": 12}), data)
    assert left is not None
    header = read_header(left)
    assert [(record.offset, record.key) for record in read_records(left)] == [(10, b"a"), (12, b"c")]
    assert (header.base_offset, header.last_offset, header.leader_epoch) == (10, 12, 3)
    assert batch_is_sound(left, header)


def test_a_batch_that_loses_nothing_is_the_same_bytes() -> None:
    """inv:P19: nothing is rewritten without need; keys that the dirty part does not have stay."""
    data = batch((b"a", b"1"), (b"b", b"2"))
    assert cleaned(cleaner({b"a": 10}), data) is data


def test_a_batch_that_loses_all_goes() -> None:
    """inv:P19, B50: records without a key too."""
    assert cleaned(cleaner({b"a": 50}), batch((b"a", b"1"), (None, b"2"))) is None


def test_nothing_at_or_above_the_cleaned_end_is_touched() -> None:
    """inv:P19, defect:K40."""
    data = batch((b"a", b"1"), (b"a", b"2"))
    assert cleaned(cleaner({b"a": 50}, end=10), data) is data


def test_tombstones_stay_until_their_horizon() -> None:
    """KIP-534: the first pass notes when they may go, a later one removes them."""
    data = batch((b"a", None), (b"b", b"2"))
    last = {b"a": 10, b"b": 11}
    noted = cleaned(cleaner(last), data)
    assert noted is not None
    assert read_header(noted).delete_horizon_ms == NOW_MS + 100
    assert [(r.key, r.value, r.timestamp) for r in read_records(noted)] == [(b"a", None, 5), (b"b", b"2", 5)]
    assert cleaned(cleaner(last, now_ms=1099), noted) == noted
    later = cleaned(cleaner(last, now_ms=1100), noted)
    assert later is not None
    assert [record.key for record in read_records(later)] == [b"b"]


@pytest.mark.parametrize("timestamp", [5, -1, -(10**18), 2**63 - 1])
def test_the_longest_retention_of_tombstones_can_be_written(timestamp: int) -> None:
    """PR8: `delete.retention.ms` of 2^63 - 1, and records of whatever time; the cleaner failed, or wrote what nobody could read."""
    new = [NewRecord(b"a", None, timestamp), NewRecord(b"b", b"2", 5)]
    data = bytes(build_batch(new, placement=Placement(base_offset=10, leader_epoch=3)))
    noted = cleaned(cleaner({b"a": 10, b"b": 11}, retention_ms=2**63 - 1), data)
    assert noted is not None
    header = read_header(noted)
    assert (header.delete_horizon_ms or 0) > 2**62
    assert [(r.key, r.timestamp) for r in read_records(noted)] == [(b"a", timestamp), (b"b", 5)]


def test_a_batch_with_a_time_beyond_all_timestamps_stays_as_it_is() -> None:
    """PR8: a client's sum of base and difference may be anything."""
    new = [NewRecord(b"a", b"1", 5), NewRecord(b"b", b"2", 14)]
    data = build_batch(new, placement=Placement(base_offset=10, leader_epoch=3))
    HEADER.pack_into(data, 0, *read_header(data)._replace(base_timestamp=2**63 - 1))
    set_crc(data, 0, len(data))
    assert cleaned(cleaner({b"a": 50, b"b": 11}), bytes(data)) == bytes(data)


def test_the_last_batch_of_a_producer_keeps_its_header() -> None:
    """inv:E4: its sequence must be known after a restart."""
    data = batch((b"a", b"1"), (b"a", b"2"), producer=ProducerStamp(7, 1, 40))
    left = cleaned(cleaner({b"a": 50}, producers={7: LastOfProducer(11, 1)}), data)
    assert left is not None
    header = read_header(left)
    assert (header.record_count, header.last_sequence, header.last_offset, header.producer_epoch) == (0, 41, 11, 1)
    assert batch_is_sound(left, header)
    assert cleaned(cleaner({b"a": 50}, producers={7: LastOfProducer(99, 1)}), data) is None


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_an_emptied_batch_is_as_kafka_writes_it(codec: int) -> None:
    """inv:P19, KIP-534: no codec and no horizon, for there is nothing packed and nothing waits; the highest time stays, the first is -1. Every reader opens it."""
    new = [NewRecord(b"a", None, 5), NewRecord(b"a", None, 9)]
    stamp = ProducerStamp(7, 1, 40, is_transactional=True)
    placement = Placement(base_offset=10, leader_epoch=3, delete_horizon_ms=77)
    data = bytes(build_batch(new, codec=codec, producer=stamp, placement=placement))
    left = cleaned(cleaner({b"a": 50}, producers={7: LastOfProducer(11, 1)}), data)
    assert left is not None
    header = read_header(left)
    assert (header.codec, header.delete_horizon_ms, header.is_transactional) == (0, None, True)
    assert (header.base_timestamp, header.max_timestamp, len(left)) == (-1, 9, 61)
    assert read_records(left) == []
    assert cleaned(cleaner({b"a": 50}, producers={7: LastOfProducer(11, 1)}), left) == left


def test_the_last_batch_of_a_round_tells_where_the_log_ends() -> None:
    """inv:P19, P8: a replica that copies the log from its beginning would end below the leader else, and join no ISR."""
    data = batch((b"a", b"1"), (b"a", b"2"))
    left = cleaned(cleaner({b"a": 50}, round_end=12), data)
    assert left is not None
    assert (read_header(left).record_count, read_header(left).next_offset) == (0, 12)
    assert cleaned(cleaner({b"a": 50}, round_end=13), data) is None


def test_a_control_batch_ends_what_its_producer_had_aborted() -> None:
    """inv:P19: while keys are read: what comes after the marker is of another transaction."""
    aborted = TransactionFilter([AbortedTransaction(7, 10, 11, 12)])
    stamp = ProducerStamp(7, 0, 0, is_transactional=True)
    marker = build_marker_batch(
        TransactionMarker(is_commit=False, coordinator_epoch=1),
        producer_id=7,
        producer_epoch=0,
        timestamp=5,
        placement=Placement(base_offset=11),
    )
    assert aborted.is_aborted(read_header(batch((b"a", b"1"), producer=stamp)))
    aborted.ended(read_header(marker))
    assert not aborted.is_aborted(read_header(batch((b"a", b"1"), base=12, producer=stamp)))


def test_a_segment_of_a_compacted_log_takes_records_for_the_longest_lag_only() -> None:
    """KIP-354: the active segment is never compacted, so it must end within max.compaction.lag.ms."""
    assert replace(CONFIG, max_compaction_lag_ms=50, segment_ms=100).roll_ms == 50
    assert replace(CONFIG, max_compaction_lag_ms=500, segment_ms=100).roll_ms == 100
    assert replace(CONFIG, max_compaction_lag_ms=0, segment_ms=100).roll_ms == 100
    assert LogConfig(max_compaction_lag_ms=50, segment_ms=100).roll_ms == 100


def test_aborted_records_go_and_their_marker_follows() -> None:
    """inv:P19, E8: data of an aborted transaction at once, its marker after a horizon, once its data is gone."""
    stamp = ProducerStamp(7, 0, 0, is_transactional=True)
    data = batch((b"a", b"1"), producer=stamp)
    marker = bytes(
        build_marker_batch(
            TransactionMarker(is_commit=False, coordinator_epoch=1),
            producer_id=7,
            producer_epoch=0,
            timestamp=5,
            placement=Placement(base_offset=11),
        )
    )
    aborted = (AbortedTransaction(7, 10, 11, 12),)
    first = cleaner({b"a": 10}, aborted=aborted)
    assert cleaned(first, data) is None
    assert cleaned(first, marker) == marker
    noted = cleaned(cleaner({}, aborted=aborted), marker)
    assert noted is not None
    assert read_header(noted).delete_horizon_ms == NOW_MS + 100
    assert cleaned(cleaner({}, aborted=aborted, now_ms=1100), noted) is None


def test_a_batch_that_cannot_be_opened_is_set_aside() -> None:
    """B53: it stays as it is."""
    data = bytearray(batch((b"a", b"1")))
    data[61] = 0x7E
    assert cleaned(cleaner({b"a": 50}), bytes(data)) == bytes(data)


VIEWS = [
    SegmentView(0, 10, 100, 1000, 1900),
    SegmentView(10, 20, 100, 2000, 2900),
    SegmentView(20, 30, 100, 3000, 3900),
]


@pytest.mark.parametrize(
    ("settings", "first_dirty", "stable_end", "expected"),
    [
        ({}, 10, 30, Cleanable(10, 30, 100, 200, is_overdue=False)),
        ({}, 0, 25, Cleanable(0, 20, 0, 200, is_overdue=False)),
        ({"min_compaction_lag_ms": 1500}, 0, 30, Cleanable(0, 20, 0, 200, is_overdue=False)),
        ({"max_compaction_lag_ms": 2999}, 0, 30, Cleanable(0, 30, 0, 300, is_overdue=True)),
        ({"max_compaction_lag_ms": 3000}, 10, 30, Cleanable(10, 30, 100, 200, is_overdue=False)),
    ],
)
def test_what_may_be_cleaned(settings: dict[str, int], first_dirty: int, stable_end: int, expected: Cleanable) -> None:
    """KIP-58, KIP-354, defect:K40: min and max lag; nothing at or above the stable end."""
    config = replace(CONFIG, **settings)  # type: ignore[arg-type]
    assert cleanable(VIEWS, config, first_dirty_offset=first_dirty, stable_end=stable_end, now_ms=5000) == expected


def test_due_by_dirty_ratio_or_age() -> None:
    """min.cleanable.dirty.ratio: above it; or overdue."""
    assert is_due(Cleanable(0, 10, 49, 51, is_overdue=False), CONFIG)
    assert not is_due(Cleanable(0, 10, 50, 50, is_overdue=False), CONFIG)
    assert is_due(Cleanable(0, 10, 99, 1, is_overdue=True), CONFIG)
    assert not is_due(Cleanable(0, 10, 0, 0, is_overdue=True), CONFIG)


def test_neighbours_are_grouped_up_to_a_segment() -> None:
    """B-P03: by size, index size and offset range."""
    config = replace(CONFIG, segment_bytes=250)
    assert [[view.base_offset for view in group] for group in group_segments(VIEWS, config)] == [[0, 10], [20]]
    far = [SegmentView(0, 10, 1, 0, 0), SegmentView(10, 2**31 + 1, 1, 0, 0)]
    assert len(group_segments(far, CONFIG)) == 2
    narrow = replace(CONFIG, segment_index_bytes=12, index_interval_bytes=4096)
    assert len(group_segments(VIEWS, narrow)) == 3
