"""The choice of the log that is compacted next, and up to where each is clean (`cleaner-offset-checkpoint`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import Final

from headrace.core.ids import TopicPartition
from headrace.core.ports import DiskFull, Files
from headrace.log.compaction import Cleanable, SegmentView, cleanable, is_due
from headrace.storage.checkpoints import read_offsets, write_offsets
from headrace.storage.cleaning_job import CleaningJob
from headrace.storage.cutting import OpenLog
from headrace.storage.layout import CLEANER_OFFSETS, partition_directory
from headrace.storage.stored_log import StoredLog

NO_ROOM_REST_MS: Final = 60_000


class LogCleaner:
    """Chooses the log with the highest dirty ratio, overdue ones first, and hands out one job at a time.

    Logs in which a pass met damage are left alone until the next start. After a pass that found no room there is none for a minute.
    """

    def __init__(self, files: Files, pace: Callable[[Iterable[None]], Iterable[None]] = iter) -> None:
        self._files = files
        self._pace = pace
        self._clean_to: dict[str, dict[TopicPartition, int]] = {}
        self._is_busy = False
        self._found_no_room = False
        self._rests_until_ms = 0
        self._damaged: set[str] = set()
        self._writing = Lock()

    def _offsets(self, directory: str) -> dict[TopicPartition, int]:
        offsets = self._clean_to.get(directory)
        if offsets is None:
            offsets = self._clean_to[directory] = (
                read_offsets(self._files.within(directory), directory, CLEANER_OFFSETS) or {}
            )
        return offsets

    def look_after(self, log: StoredLog) -> None:
        """A log was opened: what is cut from it is dirty when it is written again, also after a restart."""
        log.owner.on_cut = partial(self._cut, log)

    def _cut(self, log: StoredLog, offset: int) -> None:
        """Note durably that `log` is clean up to `offset` at most, before it is cut there. Raises StorageFault."""
        self.note_cuts([(log, offset)])

    def note_cuts(self, cuts: Iterable[tuple[OpenLog, int]]) -> None:
        """The same of many logs, which lie in one directory; each file is written once. May run in a thread."""
        with self._writing:
            changed: set[str] = set()
            for log, offset in cuts:
                offsets = self._offsets(log.directory)
                if offsets.get(log.topic_partition, 0) > offset:
                    offsets[log.topic_partition] = offset
                    changed.add(log.directory)
            for directory in sorted(changed):
                self._write(directory)

    def _write(self, directory: str) -> None:
        write_offsets(self._files.within(directory), directory, CLEANER_OFFSETS, self._offsets(directory))

    def forget(self, directory: str, partition: TopicPartition) -> None:
        """A new log begins: what is known of an earlier one under its name is not true of it. Durable. Raises StorageFault."""
        self._damaged.discard(f"{directory}/{partition_directory(partition)}")
        with self._writing:
            if self._offsets(directory).pop(partition, None) is not None:
                self._write(directory)

    def first_dirty_offset(self, log: StoredLog) -> int:
        """Where the part begins that no pass has seen."""
        stored = self._offsets(log.directory).get(log.topic_partition, 0)
        start = log.segments[0].base_offset
        return stored if start <= stored <= log.log_end_offset else start

    def next_job(self, logs: Mapping[TopicPartition, StoredLog], now_ms: int) -> CleaningJob | None:
        """The job for the log that needs it most; None if none does or one is under way."""
        if self._found_no_room:
            self._found_no_room = False
            self._rests_until_ms = now_ms + NO_ROOM_REST_MS
        if self._is_busy or now_ms < self._rests_until_ms:
            return None
        best: tuple[bool, float] | None = None
        chosen: tuple[StoredLog, Cleanable, list[SegmentView]] | None = None
        for log in logs.values():
            if (
                not log.config.is_compacted
                or len(log.segments) < 2
                or log.path in self._damaged
                or log.owner.is_being_cut
            ):
                continue
            views = _views(log)
            stable_end = min(log.last_stable_offset, log.durable_end_offset, log.segments[-1].base_offset)
            found = cleanable(
                views,
                log.config,
                first_dirty_offset=self.first_dirty_offset(log),
                stable_end=stable_end,
                now_ms=now_ms,
            )
            if is_due(found, log.config) and (best is None or (found.is_overdue, found.dirty_ratio) > best):
                best, chosen = (found.is_overdue, found.dirty_ratio), (log, found, views)
        if chosen is None:
            return None
        return self._start(*chosen, now_ms)

    def _start(self, log: StoredLog, found: Cleanable, views: list[SegmentView], now_ms: int) -> CleaningJob:
        self._is_busy = log.owner.is_compacted_here = True

        def finished(clean_end: int | None) -> None:
            self._is_busy = False
            self._found_no_room = job.is_out_of_room
            if job.is_damaged:
                self._damaged.add(log.path)
            if clean_end is not None:
                with self._writing, suppress(DiskFull):  # a lower offset on disk is true, too
                    self._offsets(log.directory)[log.topic_partition] = clean_end
                    self._write(log.directory)

        job = CleaningJob(
            self._files.within(log.directory),
            log,
            dirty=(found.first_dirty_offset, found.end_offset),
            views=[view for view in views if view.end_offset <= found.end_offset],
            now_ms=now_ms,
            finished=finished,
        )
        job.pace = self._pace
        return job


def _views(log: StoredLog) -> list[SegmentView]:
    segments = log.segments
    ends = [segment.base_offset for segment in segments[1:]]
    return [
        SegmentView(s.base_offset, end, s.size, s.first_timestamp if s.size else -1, s.largest_timestamp())
        for s, end in zip(segments[:-1], ends, strict=True)
    ]
