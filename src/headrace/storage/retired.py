"""Segments that a log no longer holds.

Old ones wait until the log start offset that excludes them is on disk (else a crash could bring some of them back and leave a hole),
are then renamed to `.deleted`, and are removed after `file.delete.delay.ms`, so that readers may finish.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.ports import Files
from headrace.storage.layout import DELETED, SEGMENT_SUFFIXES, offset_file
from headrace.storage.segment_file import Segment


class RetiredSegments:
    """Segments of one log on their way out; the log and its store drive it.

    With `waits_for_checkpoint`, `add` only collects and the store calls `rename` with what it took by `take`, after it wrote the log
    start checkpoint, and `remove_due`. Without, `add` removes what it was given before.
    """

    __slots__ = ("_condemned", "_files", "_going", "_path", "names_due", "waits_for_checkpoint")

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        self._condemned: list[Segment] = []
        self._going: list[tuple[int, Segment, bool]] = []
        self.names_due: list[str] = []
        self.waits_for_checkpoint = False

    def add(self, segments: Sequence[Segment]) -> None:
        """The oldest segments left the log, in order."""
        if self.waits_for_checkpoint:
            self._condemned = [*self._condemned, *segments]
            return
        for (
            _,
            segment,
            has_name,
        ) in self._going:  # nobody else removes them; whoever read those of the last time is done
            self._remove(segment, has_name=has_name)
        self._going.clear()
        self._unlink_due()
        for segment in segments:
            self._rename(segment)
            self._files.fsync_dir(self._path)
            self._going.append((0, segment, True))

    @property
    def condemned(self) -> Sequence[Segment]:
        """Segments that wait for the log start checkpoint. Until then a crash brings them back, so a flush must sync them too."""
        return self._condemned

    @property
    def is_waiting(self) -> bool:
        """Some files are still to be removed by `remove_due`."""
        return bool(self._going)

    def take(self) -> list[Segment]:
        """Segments that wait for the log start checkpoint; they are the caller's now."""
        taken, self._condemned = self._condemned, []
        return taken

    def rename(self, segments: Sequence[Segment], due_ms: int) -> None:
        """Mark files as deleted; `remove_due` removes them from `due_ms` on."""
        for segment in segments:
            self._rename(segment)
            self._going.append((due_ms, segment, True))

    def _rename(self, segment: Segment) -> None:
        for suffix in SEGMENT_SUFFIXES:
            name = offset_file(self._path, segment.base_offset, suffix)
            if self._files.exists(name):
                self._files.rename(name, name + DELETED)

    def unlinked(self, segments: Sequence[Segment]) -> None:
        """These segments' files have no name any more; they are closed later, for readers' sake."""
        self._going.extend((0, segment, False) for segment in segments)

    def remove_due(self, now_ms: int) -> None:
        """Close what is due, and note its names in `names_due`. Files without a name, or without a delay, are due at the second call."""
        if not self._going:
            return
        going = self._going
        for _ in range(len(going)):  # in place: a thread that wrote the checkpoints may add to it meanwhile
            due_ms, segment, has_name = going.pop(0)
            if due_ms == 0:
                going.append((now_ms, segment, has_name))
            elif now_ms < due_ms:
                going.append((due_ms, segment, has_name))
            else:
                self._remove(segment, has_name=has_name)

    def _remove(self, segment: Segment, *, has_name: bool) -> None:
        """Close it, and note its files in `names_due`: the names go elsewhere, for to free a large file takes a while."""
        segment.close()
        if has_name:
            self.names_due += [offset_file(self._path, segment.base_offset, each, DELETED) for each in SEGMENT_SUFFIXES]

    def _unlink_due(self) -> None:
        names, self.names_due = self.names_due, []
        for name in names:
            self._files.unlink(name)

    def close(self, *, remove: bool) -> None:
        """The log closes: close all, and remove files that are marked as deleted."""
        for _, segment, has_name in self._going:
            self._remove(segment, has_name=has_name and remove)
        self._unlink_due()
        for segment in self._condemned:
            segment.close()
        self._going, self._condemned = [], []
