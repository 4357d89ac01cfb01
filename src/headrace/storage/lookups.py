"""The record of a log that has a time, and the aborted transactions that overlap a range."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator, Sequence
from functools import partial
from itertools import islice
from typing import Protocol, TypeVar

from headrace.core.errors import PeerError, StorageFault
from headrace.log.partition_log import PartitionLog
from headrace.log.ports import AbortedTransaction, TimestampAndOffset
from headrace.records.walk import RecordWalk, Search, Walk
from headrace.storage.segment_file import Segment

R = TypeVar("R")


class SearchedLog(Protocol):
    """What a search must know of its log: whether what it reads may be gone."""

    @property
    def generation(self) -> int:
        """Changes whenever segments leave the log."""

    @property
    def is_closed(self) -> bool:
        """The log is closed."""


def of_log(log: SearchedLog, begin: Callable[[], Search[R]]) -> Search[R | None]:
    """The search; begun again if what it reads was removed meanwhile, None if the log was closed."""
    while True:
        generation = log.generation
        try:
            return (yield from begin())
        except StorageFault:
            if log.is_closed:
                return None
            if log.generation == generation:
                raise


def offset_for_timestamp(
    segments: Sequence[Segment], state: PartitionLog, timestamp: int
) -> Search[TimestampAndOffset | None]:
    """The first readable record whose timestamp is at least `timestamp` (ms). A batch that cannot be opened (B53) is answered by its header alone."""
    start = state.log_start_offset
    for index, segment in enumerate(list(segments)):
        is_below = index + 1 < len(segments) and segments[index + 1].base_offset <= start
        if is_below or segment.max_timestamp < timestamp:
            continue
        for candidate in segment.batches_with_time(timestamp, start):
            if candidate is None:
                yield None
                continue
            header, data = candidate
            walk = Walk(data, partial(_first_at, timestamp, start), max_bytes=state.config.max_decompressed_bytes)
            yield walk
            try:
                found = walk.outcome
            except PeerError:
                found = (header.max_timestamp, max(header.base_offset, start))
            if found is not None:
                return TimestampAndOffset(*found, header.leader_epoch)
    return None


def _first_at(timestamp: int, start: int, records: RecordWalk) -> Generator[None, None, tuple[int, int] | None]:
    """(timestamp, offset) of the first record from `start` on with at least this timestamp."""
    base = records.header.base_offset
    while not records.is_done:
        for span in records.take():
            at = records.timestamp(span)
            if at >= timestamp and base + span.offset_delta >= start:
                return at, base + span.offset_delta
        yield
    return None


def max_timestamp(segments: Sequence[Segment], state: PartitionLog) -> Search[TimestampAndOffset | None]:
    """The first readable record with the highest timestamp. A batch that cannot be opened (B53) answers by its header."""
    best: Segment | None = None
    for segment in segments:
        if segment.size and segment.max_timestamp >= 0 and (best is None or segment.max_timestamp > best.max_timestamp):
            best = segment
    if best is None:
        return None
    place = best.find(best.offset_of_max_timestamp)
    if place is None:
        return None
    position, header = place
    walk = Walk(
        best.read_batch(position, header),
        partial(_highest, state.log_start_offset),
        max_bytes=state.config.max_decompressed_bytes,
    )
    yield walk
    try:
        found = walk.outcome
    except PeerError:
        found = None
    return TimestampAndOffset(*(found or (header.max_timestamp, header.last_offset)), header.leader_epoch)


def _highest(start: int, records: RecordWalk) -> Generator[None, None, tuple[int, int] | None]:
    """(timestamp, offset) of the first record from `start` on with the highest timestamp."""
    base = records.header.base_offset
    best: tuple[int, int] | None = None
    while not records.is_done:
        for span in records.take():
            at = records.timestamp(span)
            if (best is None or at > best[0]) and base + span.offset_delta >= start:
                best = at, base + span.offset_delta
        yield
    return best


def aborted_transactions(segments: Sequence[Segment], start_offset: int, upper_offset: int) -> list[AbortedTransaction]:
    """Aborted transactions that overlap [start, upper), in the order of their markers (E8). What ended before `start` costs nothing."""
    found: list[AbortedTransaction] = []
    first = max(bisect_right(segments, start_offset, key=lambda segment: segment.base_offset) - 1, 0)
    for segment in islice(segments, first, None):
        for entry in segment.txn_index.entries_from(start_offset):
            if entry.first_offset < upper_offset:
                found.append(entry)
            if entry.last_stable_offset >= upper_offset:
                return found
    return found
