"""The beginning of a new segment, and the place of an offset in a sparse index."""

from __future__ import annotations

from typing import NamedTuple

from headrace.log.config import LogConfig

MAX_RELATIVE_OFFSET = 2**31 - 1
MAX_SEGMENT_BYTES = 2**31 - 1
OFFSET_ENTRY_BYTES = 8
TIME_ENTRY_BYTES = 12


class SegmentFacts(NamedTuple):
    """What is known of the active segment: sizes in bytes, times in ms.

    `first_timestamp` is the highest timestamp of its first batch, -1 if it has none; `created_ms` counts then.
    `index_entries` and `time_index_entries` are those of its two indexes.
    """

    base_offset: int
    size: int
    created_ms: int
    first_timestamp: int
    index_entries: int
    time_index_entries: int
    jitter_ms: int


def must_roll(segment: SegmentFacts, config: LogConfig, *, size: int, last_offset: int, clock: tuple[int, int]) -> bool:
    """True if a batch of `size` bytes that ends at `last_offset` (inclusive) belongs into a new segment.

    `clock` is (now, highest timestamp of the batch) in ms. A segment rolls by size, by the time since its first record, when an
    index is full, and before an offset no longer fits into 31 bits after its base.
    """
    if segment.size > config.segment_bytes - size:
        return segment.size > 0
    now_ms, timestamp = clock
    if segment.size > 0:
        if segment.first_timestamp >= 0 and timestamp >= 0:
            waited = timestamp - segment.first_timestamp
        else:
            waited = now_ms - segment.created_ms
        if waited > config.roll_ms - segment.jitter_ms:
            return True
    return (
        segment.index_entries >= config.segment_index_bytes // OFFSET_ENTRY_BYTES
        or segment.time_index_entries >= config.segment_index_bytes // TIME_ENTRY_BYTES
        or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
    )
