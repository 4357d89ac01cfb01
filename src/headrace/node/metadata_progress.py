"""How far this node is with the metadata (S4-56).

Read from the newest image when somebody asks; nothing is counted on the way. An active controller that has nothing to say writes a
NoOpRecord every `metadata.max.idle.interval.ms`, so that a node that is served has always applied something young.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.core.values import value_class

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.broker.ports import Clock
    from headrace.metadata.image import MetadataImage

NOTHING: Final = -1
"""Offset, time and lag of a node that has applied no record yet."""


@value_class
class MetadataProgress:
    """The gauges of `kafka.server:type=broker-metadata-metrics` that say how stale a node's metadata is."""

    image: Callable[[], MetadataImage]
    clock: Clock

    @property
    def last_applied_record_offset(self) -> int:
        """last-applied-record-offset: of the newest record in the image; NOTHING before the first."""
        return self.image().provenance.last_contained_offset

    @property
    def last_applied_record_timestamp(self) -> int:
        """last-applied-record-timestamp: ms since 1970 by the clock of the controller that wrote it; NOTHING before the first."""
        return NOTHING if self.last_applied_record_offset < 0 else self.image().provenance.last_contained_log_time_ms

    @property
    def last_applied_record_lag_ms(self) -> int:
        """last-applied-record-lag-ms: how long ago it was written, at least 0.

        By this node's clock that follows no jumps, as the times of metadata records are; it may run behind the controller's.
        """
        written_ms = self.last_applied_record_timestamp
        return NOTHING if written_ms < 0 else max(0, self.clock.now_ms() - written_ms)
