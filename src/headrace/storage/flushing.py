"""What must be synced so that everything below an offset is durable, in which order? Source: D2, D3, K30, K31."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.offsets import OffsetAndEpoch
from headrace.core.ports import File, Files
from headrace.storage.checkpoints import write_epochs


class SegmentFlush:
    """The syncing of one log, prepared on the loop and run in a thread.

    First the files' bytes, then files that are read back only by name, then the directory, then the epoch table. Only when all of
    it went well may the recovery point rise.
    """

    __slots__ = ("_epochs", "_files", "_logs", "_named", "_parent", "_path", "_syncs_names", "upto")

    def __init__(
        self,
        files: Files,
        path: str,
        *,
        upto: int,
        logs: Sequence[File],
        named: Sequence[str],
        epochs: Sequence[OffsetAndEpoch] | None,
    ) -> None:
        self._files = files
        self._path = path
        self.upto = upto
        self._logs = logs
        self._named = named
        self._epochs = epochs
        self._syncs_names = True
        self._parent: str | None = None

    def without_names(self) -> SegmentFlush:
        """The same, when no name in the directory is new."""
        self._syncs_names = False
        return self

    def with_parent(self, directory: str) -> SegmentFlush:
        """The same, for a log whose own directory is new in `directory`."""
        self._parent = directory
        return self

    def run(self) -> None:
        """Sync; blocks. A fault means that the bytes count as lost."""
        for log in self._logs:
            log.fsync()
        for name in self._named:
            self._sync_by_name(name)
        if self._syncs_names:
            self._files.fsync_dir(self._path)
        if self._parent is not None:
            self._files.fsync_dir(self._parent)
        if self._epochs is not None:
            write_epochs(self._files, self._path, self._epochs)

    def _sync_by_name(self, name: str) -> None:
        """Sync an index or snapshot; one that was removed meanwhile needs no sync."""
        if not self._files.exists(name):
            return
        file = self._files.open(name)
        try:
            file.fsync()
        finally:
            file.close()
