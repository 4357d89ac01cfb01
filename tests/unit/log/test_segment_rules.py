"""When a segment rolls, and when it may be deleted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.log.config import LogConfig
from headrace.log.retention import SegmentAge, deletable
from headrace.log.segments import SegmentFacts, must_roll

CONFIG = LogConfig(segment_bytes=1000, segment_ms=100, segment_index_bytes=96)
FACTS = SegmentFacts(
    base_offset=50, size=500, created_ms=0, first_timestamp=10, index_entries=0, time_index_entries=0, jitter_ms=0
)


@pytest.mark.parametrize(
    ("change", "size", "last", "clock", "rolls"),
    [
        ({}, 500, 60, (50, 50), False),
        ({}, 501, 60, (50, 50), True),
        ({}, 10, 60, (50, 110), False),
        ({}, 10, 60, (50, 111), True),
        ({"jitter_ms": 20}, 10, 60, (50, 100), True),
        ({"first_timestamp": -1}, 10, 60, (101, -1), True),
        ({"first_timestamp": -1}, 10, 60, (100, -1), False),
        ({"index_entries": 12}, 10, 60, (50, 50), True),
        ({"time_index_entries": 8}, 10, 60, (50, 50), True),
        ({}, 10, 50 + 2**31 - 1, (50, 50), False),
        ({}, 10, 50 + 2**31, (50, 50), True),
        ({"size": 0}, 10, 60, (999, 999), False),
    ],
)
def test_rolls_by_size_time_index_and_offset(
    change: dict[str, int], size: int, last: int, clock: tuple[int, int], rolls: bool
) -> None:
    """B-P01: segment.bytes, segment.ms from the first record's time (or the creation), full indexes, 31 bits of offset."""
    assert must_roll(FACTS._replace(**change), CONFIG, size=size, last_offset=last, clock=clock) is rolls


SEGMENTS = [SegmentAge(0, 10, 100, 1000), SegmentAge(10, 20, 100, 2000), SegmentAge(20, 30, 100, 3000)]


@pytest.mark.parametrize(
    ("settings", "log_start", "high_watermark", "now_ms", "count"),
    [
        ({"retention_ms": 500}, 0, 30, 2501, 2),
        ({"retention_ms": 500}, 0, 30, 2500, 1),
        ({"retention_ms": 500}, 0, 30, 9999, 3),
        ({"retention_ms": 500}, 0, 15, 9999, 1),
        ({"retention_ms": 0}, 0, 30, 2001, 2),
        ({"retention_ms": -1}, 0, 30, 9999, 0),
        ({"retention_ms": -1, "retention_bytes": 150}, 0, 30, 0, 1),
        ({"retention_ms": -1, "retention_bytes": 100}, 0, 30, 0, 2),
        ({"retention_ms": -1, "retention_bytes": 0}, 0, 30, 0, 3),
        ({"retention_ms": -1}, 20, 30, 0, 2),
        ({"retention_ms": -1}, 19, 30, 0, 1),
        ({"retention_ms": 500, "cleanup_policy": frozenset({"compact"})}, 10, 30, 9999, 1),
        ({"retention_ms": 500, "cleanup_policy": frozenset({"compact", "delete"})}, 0, 30, 9999, 3),
    ],
)
def test_retention(settings: dict[str, object], log_start: int, high_watermark: int, now_ms: int, count: int) -> None:
    """B-P03, inv:P18, defect:K41: by time, size and log start; never above the high watermark; compact alone deletes nothing."""
    config = replace(LogConfig(), **settings)  # type: ignore[arg-type]
    found = deletable(SEGMENTS, config, log_start_offset=log_start, high_watermark=high_watermark, now_ms=now_ms)
    assert found == count
