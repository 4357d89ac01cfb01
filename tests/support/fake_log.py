"""A partition log that only counts: for tests of what leans on `PartitionLogPort`, without records or files."""

from __future__ import annotations

from typing import cast

from headrace.core.offsets import OffsetAndEpoch
from headrace.log.ports import PartitionLogPort


class CountingLog:
    """Offsets and epochs of a log. `grow` stands for an append."""

    def __init__(self, *, end: int = 0, high_watermark: int = 0) -> None:
        self.log_start_offset = 0
        self.log_end_offset = end
        self.high_watermark = high_watermark
        self.epochs: list[tuple[int, int]] = []

    @property
    def acknowledged_end_offset(self) -> int:
        """As the port's: nothing waits for a sync here."""
        return self.log_end_offset

    def as_port(self) -> PartitionLogPort:
        """Itself, as the port that the code under test takes."""
        return cast("PartitionLogPort", self)

    def grow(self, records: int) -> None:
        """The log end moves on."""
        self.log_end_offset += records

    def begin_epoch(self, epoch: int) -> None:
        """As the port's."""
        self.epochs.append((epoch, self.log_end_offset))

    def advance_high_watermark(self, to: int) -> int:
        """As the port's."""
        self.high_watermark = max(self.high_watermark, min(to, self.log_end_offset))
        return self.high_watermark

    @property
    def latest_epoch(self) -> int | None:
        """As the port's."""
        return self.epochs[-1][0] if self.epochs else None

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch | None:
        """As the port's."""
        known = [entry for entry in self.epochs if entry[0] <= epoch]
        if not known:
            return None
        later = [start for other, start in self.epochs if other > known[-1][0]]
        return OffsetAndEpoch(later[0] if later else self.log_end_offset, known[-1][0])
