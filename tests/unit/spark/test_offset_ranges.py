"""Which offsets does a batch read, in which pieces?"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.errors import OperatorError
from headrace.core.ids import TopicPartition
from headrace.spark.offset_ranges import (
    InputRange,
    Resolved,
    count_waiting,
    from_json,
    limit_bytes,
    limit_offsets,
    resolve_ranges,
    split_ranges,
    to_json,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def piece(start: int, end: int, *, where: TopicPartition = A0) -> InputRange:
    """A range of one partition."""
    return InputRange(topic=where.topic, partition=where.partition, start=start, end=end)


def test_offsets_travel_in_the_form_of_sparks_kafka_source() -> None:
    """`{"topic": {"0": 23}}`, sorted; JSON makes text of the numbers of partitions."""
    offsets = {B0: 1, A1: 3, A0: 2}
    assert to_json(offsets) == {"a": {"0": 2, "1": 3}, "b": {"0": 1}}
    assert from_json(to_json(offsets)) == offsets


def test_the_limit_is_shared_out_in_proportion() -> None:
    """maxOffsetsPerTrigger: shares below 1 are rounded up, so that no partition starves, others down."""
    assert limit_offsets({A0: 0, A1: 0}, {A0: 900, A1: 100}, limit=100) == {A0: 90, A1: 10}
    assert limit_offsets({A0: 0, A1: 0}, {A0: 9999, A1: 1}, limit=10) == {A0: 9, A1: 1}
    assert limit_offsets({A0: 5, A1: 7}, {A0: 5, A1: 9}, limit=100) == {A0: 5, A1: 9}


def test_a_limit_in_bytes_takes_the_same_part_of_each_partition() -> None:
    """maxBytesPerTrigger: what waits is weighed by what a record of its partition takes; none starves, and what weighs nothing known is no reason to wait."""
    start, end = {A0: 10, A1: 0}, {A0: 110, A1: 1000}
    assert limit_bytes(start, end, {A0: 1000.0, A1: 100.0}, limit=100_000) == {A0: 60, A1: 500}
    assert limit_bytes(start, end, {A0: 1000.0, A1: 100.0}, limit=200_000) == end
    assert limit_bytes(start, end, {A0: 1000.0, A1: 100.0}, limit=1) == {A0: 11, A1: 1}
    assert limit_bytes(start, end, {}, limit=1) == end
    assert limit_bytes({A0: 5, A1: 7}, {A0: 3, A1: 9}, {A1: 100.0}, limit=100) == {A0: 3, A1: 8}


def test_waiting_counts_from_zero_for_a_partition_not_yet_read() -> None:
    """minOffsetsPerTrigger: as Spark counts."""
    assert count_waiting({A0: 5}, {A0: 9, A1: 3}) == 7
    assert count_waiting({A0: 5}, {A0: 2}) == 0


def test_losses_between_two_offsets_are_named() -> None:
    """failOnDataLoss: partitions gone, a new one that does not begin at 0, and an end before its start."""
    found = resolve_ranges({A0: 5, B0: 9}, {A0: 3, A1: 4}, {A1: 2})
    assert found == Resolved(
        ranges=(piece(2, 4, where=A1),),
        losses=(
            "b-0 are gone; records in them may have been missed",
            "the end of a-0 went back from 5 to 3",
            "a-1 was added and starts at 2, not at 0",
        ),
    )


def test_a_new_partition_is_read_from_its_beginning() -> None:
    """A partition found in mid-query is read whole, without loss."""
    assert resolve_ranges({A0: 5}, {A0: 5, A1: 4}, {A1: 0}) == Resolved(ranges=(piece(0, 4, where=A1),), losses=())


def test_a_new_partition_that_is_gone_again_is_a_loss() -> None:
    """Deleted between planning and reading."""
    assert resolve_ranges({}, {A1: 4}, {}).losses == (
        "a-1 was added and is gone again; records in it may have been missed",
    )


def test_max_records_cuts_each_range() -> None:
    """maxRecordsPerPartition: no piece is larger, sizes are even."""
    assert split_ranges([piece(0, 10)], min_partitions=None, max_records=4) == [piece(0, 3), piece(3, 6), piece(6, 10)]


def test_more_tasks_than_a_driver_can_hold_are_refused() -> None:
    """A broker, or a producer whose batches claim very many records, decides how many offsets there are: a driver ended for want of memory."""
    much = InputRange(topic="t", partition=0, start=0, end=12 << 30)
    with pytest.raises(
        OperatorError,
        match=r"maxRecordsPerPartition=1000 makes 12884902 tasks of this batch.* t-0 has 12884901888 offsets",
    ):
        split_ranges([much], min_partitions=None, max_records=1_000)
    assert len(split_ranges([much], min_partitions=None, max_records=1 << 20)) == 12 << 10


def test_min_partitions_splits_the_large_ranges() -> None:
    """minPartitions: about so many, small ranges stay whole."""
    ranges = [piece(0, 90), piece(0, 10, where=A1)]
    assert split_ranges(ranges, min_partitions=4, max_records=None) == [
        piece(0, 30),
        piece(30, 60),
        piece(60, 90),
        piece(0, 10, where=A1),
    ]
    assert split_ranges(ranges, min_partitions=2, max_records=None) == ranges


RANGES = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 1000), st.integers(0, 500)), max_size=6, unique_by=lambda each: each[0]
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(RANGES, st.one_of(st.none(), st.integers(1, 40)), st.one_of(st.none(), st.integers(1, 300)))
def test_pieces_cover_the_ranges_exactly(
    ranges: list[tuple[int, int, int]], min_partitions: int | None, max_records: int | None
) -> None:
    """Whatever is asked for: each offset is in exactly one piece, in order, and no piece is empty."""
    whole = [InputRange(topic="a", partition=number, start=start, end=start + size) for number, start, size in ranges]
    pieces = split_ranges(whole, min_partitions=min_partitions, max_records=max_records)
    assert all(each.size > 0 and (max_records is None or each.size <= max_records) for each in pieces)
    covered = [(each.partition, offset) for each in pieces for offset in range(each.start, each.end)]
    assert covered == [(each.partition, offset) for each in whole for offset in range(each.start, each.end)]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), min_size=1, max_size=8), st.integers(1, 300))
def test_limited_ends_lie_between_start_and_end(sizes: list[tuple[int, int]], limit: int) -> None:
    """A limited batch goes forward on every partition that has data, never beyond its end, and not far beyond the limit."""
    start = {TopicPartition("a", number): first for number, (first, _) in enumerate(sizes)}
    end = {TopicPartition("a", number): first + size for number, (first, size) in enumerate(sizes)}
    limited = limit_offsets(start, end, limit=limit)
    assert all(start[each] <= limited[each] <= end[each] for each in end)
    assert all(limited[each] > start[each] for each in end if end[each] > start[each])
    assert sum(limited[each] - start[each] for each in end) <= limit + len(sizes)


def test_parts_grow_to_the_end_as_in_sparks_own_source() -> None:
    """27 offsets in five parts: what a division leaves over goes to the last ones."""
    pieces = split_ranges([InputRange(topic="t", partition=0, start=0, end=27)], min_partitions=5, max_records=None)
    assert [each.size for each in pieces] == [5, 5, 5, 6, 6]
