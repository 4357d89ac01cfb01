"""What was done to a node's metadata log, batch by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.errors import PeerError, StorageFault
from headrace.log.ports import Appended, AppendRefused, Origin, OutOfRange
from headrace.records.batch import iter_batches
from headrace.sim.faulty_disk import ProcessDied
from headrace.sim.observation import LogAppended, LogReset, LogStartMoved, LogTruncated
from headrace.storage.stored_log import StoredLog

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.sim.observation import Change

_CHUNK_BYTES = 1 << 22


class ObservedLog(StoredLog):
    """The real log on disk; every change is also noted in `changes`."""

    __slots__ = ("_changes",)

    def observe(self, changes: list[Change]) -> None:
        """Note changes there from now on, what was found first."""
        self._changes = changes
        changes.append(LogReset(self.log_start_offset))
        for change in self.found():
            changes.append(change)

    def found(self) -> Iterator[LogAppended]:
        """Every batch in the log."""
        offset, end = self.log_start_offset, self.log_end_offset
        while offset < end:
            data = self.read_bytes(offset, _CHUNK_BYTES, upper_offset=end, min_one_batch=True)
            assert not isinstance(data, OutOfRange), "a log can be read from its start to its end"
            if not data:
                return
            for change in appended(memoryview(data)):
                yield change
                offset = change.next_offset

    def append_as_leader(
        self,
        batches: memoryview,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        commits: bool = False,
    ) -> Appended | AppendRefused:
        """As the log's."""
        done = super().append_as_leader(
            batches, leader_epoch=leader_epoch, now_ms=now_ms, origin=origin, commits=commits
        )
        if isinstance(done, Appended):
            self._changes.extend(appended(batches))
        return done

    def append_as_follower(self, batches: memoryview, *, leader_epoch: int, now_ms: int) -> Appended | AppendRefused:
        """As the log's. Of the batches, those up to the new log end were written."""
        start, end = self.log_start_offset, self.log_end_offset
        done = super().append_as_follower(batches, leader_epoch=leader_epoch, now_ms=now_ms)
        if self.log_start_offset < start:
            self._changes.append(LogReset(self.log_start_offset))
        if self.log_end_offset > end:
            for change in appended(batches):
                if change.next_offset > self.log_end_offset:
                    break
                self._changes.append(change)
        return done

    def truncate_to(self, offset: int) -> bool:
        """As the log's."""
        before = self.log_end_offset
        try:
            done = super().truncate_to(offset)
        except (StorageFault, ProcessDied):
            self._changes.append(LogTruncated(offset, is_durable=False))
            raise
        if self.log_end_offset != before:
            self._changes.append(LogTruncated(self.log_end_offset))
        return done

    def truncate_fully_and_start_at(self, offset: int, *, log_start_offset: int | None = None) -> None:
        """As the log's."""
        super().truncate_fully_and_start_at(offset, log_start_offset=log_start_offset)
        self._changes.append(LogReset(self.log_start_offset))

    def advance_log_start(self, offset: int) -> bool:
        """As the log's."""
        done = super().advance_log_start(offset)
        if done:
            self._changes.append(LogStartMoved(self.log_start_offset))
        return done

    def delete_segments_below(self, offset: int) -> int:
        """As the log's."""
        before = self.log_start_offset
        done = super().delete_segments_below(offset)
        if self.log_start_offset != before:
            self._changes.append(LogStartMoved(self.log_start_offset))
        return done


def appended(batches: memoryview) -> Iterator[LogAppended]:
    """A change for each whole batch, up to bytes that cannot be one."""
    try:
        for position, header in iter_batches(batches):
            yield LogAppended(
                header.base_offset,
                header.next_offset,
                header.leader_epoch,
                header.crc,
                header.is_control,
                bytes(batches[position : position + header.size]),
            )
    except PeerError:
        return  # what lies behind was refused
