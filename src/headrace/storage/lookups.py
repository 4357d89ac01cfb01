"""Which record of a log has a time, and which aborted transactions overlap a range?"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.errors import PeerError
from headrace.log.partition_log import PartitionLog
from headrace.log.ports import AbortedTransaction, TimestampAndOffset
from headrace.records.record import read_records
from headrace.storage.segment_file import Segment


def offset_for_timestamp(segments: Sequence[Segment], state: PartitionLog, timestamp: int) -> TimestampAndOffset | None:
    """The first readable record whose timestamp is at least `timestamp` (ms)."""
    start = state.log_start_offset
    for index, segment in enumerate(segments):
        is_below = index + 1 < len(segments) and segments[index + 1].base_offset <= start
        if is_below or segment.max_timestamp < timestamp:
            continue
        found = segment.record_at_timestamp(timestamp, start, state.config.max_decompressed_bytes)
        if found is not None:
            return TimestampAndOffset(*found)
    return None


def max_timestamp(segments: Sequence[Segment], state: PartitionLog) -> TimestampAndOffset | None:
    """The first readable record with the highest timestamp. A batch that cannot be opened (B53) answers by its header."""
    best: Segment | None = None
    for segment in segments:
        if segment.size and segment.max_timestamp >= 0 and (best is None or segment.max_timestamp > best.max_timestamp):
            best = segment
    if best is None:
        return None
    found = best.find(best.offset_of_max_timestamp)
    if found is None:
        return None
    position, header = found
    try:
        records = read_records(best.read_batch(position, header), max_bytes=state.config.max_decompressed_bytes)
    except PeerError:
        records = []
    readable = [r for r in records if r.offset >= state.log_start_offset]
    if not readable:
        return TimestampAndOffset(header.max_timestamp, header.last_offset, header.leader_epoch)
    highest = max(record.timestamp for record in readable)
    first = next(record for record in readable if record.timestamp == highest)
    return TimestampAndOffset(highest, first.offset, header.leader_epoch)


def aborted_transactions(segments: Sequence[Segment], start_offset: int, upper_offset: int) -> list[AbortedTransaction]:
    """Aborted transactions that overlap [start, upper), in the order of their markers (E8)."""
    found: list[AbortedTransaction] = []
    for index, segment in enumerate(segments):
        if index + 1 < len(segments) and segments[index + 1].base_offset <= start_offset:
            continue
        for entry in segment.txn_index.entries():
            if entry.last_offset >= start_offset and entry.first_offset < upper_offset:
                found.append(entry)
            if entry.last_stable_offset >= upper_offset:
                return found
    return found
