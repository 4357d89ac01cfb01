"""Beginnings and ends of leader epochs in a log. Source: KIP-101, KIP-279."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from headrace.core.offsets import OffsetAndEpoch


class EpochTable:
    """(epoch, start offset) of each leader epoch in one log; both rise strictly (P11). The log drives it.

    `version` goes up with each change, so that whoever stores the table knows whether its copy is stale (`is_worth_storing`).
    """

    __slots__ = ("_epochs", "_settled", "_starts", "version")

    def __init__(self, entries: Iterable[OffsetAndEpoch] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.version = self._settled = 0
        for start, epoch in entries:
            self.assign(epoch, start)
        self.version = self._settled = 0

    @property
    def latest(self) -> int | None:
        """The last epoch, None if the table is empty."""
        return self._epochs[-1] if self._epochs else None

    @property
    def latest_start(self) -> int | None:
        """Where the last epoch began, None if the table is empty."""
        return self._starts[-1] if self._starts else None

    def is_worth_storing(self, stored: int, log_end_offset: int) -> bool:
        """Whether a copy of version `stored` lacks more than the beginning of an epoch without records: that says nothing of the log.

        Each start of a node begins an epoch at the end of every log that it leads; most get no record until it stops.
        """
        if stored == self.version:
            return False
        is_empty = bool(self._starts) and self._starts[-1] >= log_end_offset
        return not (is_empty and stored == self._settled)

    def entries(self) -> list[OffsetAndEpoch]:
        """All entries, oldest first: `offset` is where the epoch began."""
        return [OffsetAndEpoch(start, epoch) for epoch, start in zip(self._epochs, self._starts, strict=True)]

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Epoch `epoch` begins at `start_offset`, unless it began already. True if the table changed.

        Entries that contradict it (a later or equal epoch, or a later or equal start) are dropped: they were an empty or an
        abandoned history.
        """
        epochs, starts = self._epochs, self._starts
        if epoch < 0 or start_offset < 0 or (epochs and epochs[-1] == epoch and start_offset >= starts[-1]):
            return False
        contradicts = 0
        while epochs and (epochs[-1] >= epoch or starts[-1] >= start_offset):
            contradicts += 1 if starts[-1] == start_offset else 2
            epochs.pop()
            starts.pop()
        epochs.append(epoch)
        starts.append(start_offset)
        settled = self._settled if contradicts else self.version
        self._changed()
        if contradicts < 2:
            self._settled = settled
        return True

    def _changed(self) -> None:
        self.version += 1
        self._settled = self.version

    def end_offset_for(self, epoch: int, log_end_offset: int) -> OffsetAndEpoch | None:
        """The largest known epoch at or below `epoch`, and the offset where it ended; None if `epoch` is above all known ones.

        An epoch below all known ones ended where the first known one began.
        """
        epochs = self._epochs
        if not epochs or epoch < 0 or epoch > epochs[-1]:
            return None
        if epoch == epochs[-1]:
            return OffsetAndEpoch(log_end_offset, epoch)
        after = bisect_right(epochs, epoch)
        return OffsetAndEpoch(self._starts[after], epochs[after - 1] if after else epoch)

    def epoch_at(self, offset: int) -> int | None:
        """The epoch in which the record at `offset` was written, None if it is before the first entry."""
        found = bisect_right(self._starts, offset)
        return self._epochs[found - 1] if found else None

    def truncate_from_end(self, end_offset: int) -> None:
        """The log now ends at `end_offset`: drop epochs that began there or later (K13)."""
        starts = self._starts
        while starts and starts[-1] >= end_offset:
            starts.pop()
            self._epochs.pop()
            self._changed()

    def truncate_from_start(self, start_offset: int) -> None:
        """The log now begins at `start_offset`: the epoch in force there begins there, earlier ones go."""
        found = bisect_right(self._starts, start_offset)
        if found == 0 or (found == 1 and self._starts[0] == start_offset):
            return
        del self._epochs[: found - 1]
        del self._starts[: found - 1]
        self._starts[0] = start_offset
        self._changed()

    def clear(self) -> None:
        """Forget everything."""
        self._epochs.clear()
        self._starts.clear()
        self._changed()
