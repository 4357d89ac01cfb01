"""The oldest segments of a log that may be deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headrace.log.config import LogConfig


class SegmentAge(NamedTuple):
    """One segment as retention sees it: `end_offset` is exclusive, `largest_timestamp` in ms (of the file if no record has one)."""

    base_offset: int
    end_offset: int
    size: int
    largest_timestamp: int


def deletable(
    segments: Sequence[SegmentAge], config: LogConfig, *, log_start_offset: int, high_watermark: int, now_ms: int
) -> int:
    """How many segments from the oldest on may go. None above the high watermark (P18, K41).

    Below the log start offset any may go; with `delete` in `cleanup.policy` those whose largest timestamp is older than
    `retention.ms`, and those that exceed `retention.bytes` together with all later ones. The last segment is counted too: the log
    then begins a new one; an empty last one stays.
    """
    total = sum(segment.size for segment in segments)
    excess = total - config.retention_bytes if config.retention_bytes >= 0 else 0
    count = 0
    for segment in segments:
        is_last = segment is segments[-1]
        if segment.end_offset > high_watermark or (is_last and segment.size == 0):
            break
        is_below_start = segment.end_offset <= log_start_offset and not is_last
        is_old = config.retention_ms >= 0 and now_ms - segment.largest_timestamp > config.retention_ms
        is_excess = config.retention_bytes >= 0 and excess - segment.size >= 0
        if not (is_below_start or (config.deletes_old and (is_old or is_excess))):
            break
        excess -= segment.size
        count += 1
    return count
