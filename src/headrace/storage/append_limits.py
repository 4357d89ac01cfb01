"""Limits within which batches are simply added to the active segment, before anything about it must be looked at again."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.log.config import LogConfig
from headrace.log.partition_log import PartitionLog
from headrace.log.segments import MAX_RELATIVE_OFFSET, TIME_ENTRY_BYTES
from headrace.log.validation import takes_batches_as_they_are
from headrace.records.batch import HEADER_SIZE
from headrace.storage.segment_file import Segment

_HOLDS_MS = 1_000
"""So long limits hold; then they are made anew."""


@dataclass(slots=True, kw_only=True)
class AppendLimits:
    """What a batch must keep within to be added to `segment` without a closer look. Bounds are inclusive; sizes bytes, times ms.

    Behind `unsynced_offset` a batch may have to be synced before it is acknowledged. They hold while the clock is between `from_ms` and `until_ms`.
    """

    config: LogConfig
    segment: Segment
    batch_bytes: int
    end_position: int
    last_offset: int
    unsynced_offset: int
    from_ms: int
    until_ms: int
    earliest: int
    latest: int
    index_interval_bytes: int
    leader_epoch: int
    is_follower: bool


def append_limits(
    config: LogConfig, segment: Segment, log: PartitionLog, *, now_ms: int, is_follower: bool = False
) -> AppendLimits | None:
    """The limits of a segment that has batches; None if every batch of this topic needs a closer look, or there may be no room left.

    An index entry is made at most once in `index.interval.bytes`, and once a batch, so that the room in the indexes is a number of bytes, too.
    `flush.messages` counts from the log's durable end, which only moves on. A batch of another leader epoch than the log's newest
    begins an entry of the epoch table. A follower takes what its leader took: of the topic's rules only those of segments count for it. What the topic says of timestamps is a range about the clock: of the ranges at all times for which the limits hold this is what they share.
    """
    leader_epoch = log.epochs.latest
    if leader_epoch is None or not segment.size or segment.first_timestamp < 0:
        return None
    if not is_follower and not takes_batches_as_they_are(config):
        return None
    used = max(len(segment.index.file.data), len(segment.time_index.file.data))
    entries = (config.segment_index_bytes - used) // TIME_ENTRY_BYTES - 1
    if entries <= 0:
        return None
    apart = max(config.index_interval_bytes, HEADER_SIZE)
    until_ms = now_ms + _HOLDS_MS
    last_timestamp = segment.first_timestamp + config.roll_ms - segment.jitter_ms
    return AppendLimits(
        config=config,
        segment=segment,
        batch_bytes=config.max_message_bytes,
        end_position=min(config.segment_bytes, segment.size + entries * apart),
        last_offset=segment.base_offset + MAX_RELATIVE_OFFSET,
        unsynced_offset=log.durable_end_offset + config.flush_messages - 2,
        from_ms=now_ms,
        until_ms=until_ms,
        earliest=max(0, until_ms - config.message_timestamp_before_max_ms),
        latest=last_timestamp if is_follower else min(last_timestamp, now_ms + config.message_timestamp_after_max_ms),
        index_interval_bytes=config.index_interval_bytes,
        leader_epoch=leader_epoch,
        is_follower=is_follower,
    )
