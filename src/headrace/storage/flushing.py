"""What must be synced so that everything below an offset is durable, in order. Source: D2, D3, K30, K31."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock

from headrace.core.errors import StorageFault
from headrace.core.offsets import OffsetAndEpoch
from headrace.core.ports import DiskFull, File, Files
from headrace.core.values import value_class
from headrace.storage.checkpoints import epochs_text, write_epochs
from headrace.storage.layout import LEADER_EPOCHS, log_directory_of


@value_class
class ToSync:
    """What one flush makes durable, in this order: `logs`, files by name, the directories' names, the epoch table.

    `parent` is the log directory if the log's own directory is new in it; `epochs` is None if the stored table is right.
    """

    logs: Sequence[File]
    named: Sequence[str]
    syncs_names: bool
    parent: str | None
    epochs: Sequence[OffsetAndEpoch] | None


class SyncsOfLog:
    """What the flushes of one log share: they sync one after the other, and none does after one that failed.

    Of two syncs of one file at the same time the system may tell only one that the bytes are lost (D3). `lacks_epochs`: the last table of
    epochs that was to be stored found no room.
    """

    __slots__ = ("has_failed", "lacks_epochs", "lock")

    def __init__(self) -> None:
        self.lock = Lock()
        self.has_failed = False
        self.lacks_epochs = False

    def fault(self, path: str) -> StorageFault:
        """Why nothing is synced any more."""
        return StorageFault(
            f"{path}: a sync failed before, so what was written since counts as lost",
            directory=log_directory_of(path),
        )


class SegmentFlush:
    """The syncing of one log, prepared on the loop and run in a thread; implements `headrace.log.ports.FlushJob`.

    Only when all of it went well may the recovery point rise; after a fault `upto` is 0 and `SyncsOfLog.has_failed` is set, and neither this
    log's other jobs nor later ones sync: what the kernel failed to write once it may forget, so a second sync that succeeds proves nothing (K31). A log that is closed meanwhile (its topic was deleted) needs no sync:
    the job then ends quietly, with `upto` 0. So does one that found no room for the epoch table (`is_out_of_room`): what was synced is
    synced, the old table is whole, and the next job does both again (D10).
    """

    __slots__ = ("_files", "_is_closed", "_path", "_syncs", "_work", "is_out_of_room", "upto")

    def __init__(
        self, files: Files, path: str, work: ToSync, *, upto: int, syncs: SyncsOfLog, is_closed: Callable[[], bool]
    ) -> None:
        self._files = files
        self._path = path
        self._work = work
        self.upto = upto
        self._syncs = syncs
        self._is_closed = is_closed
        self.is_out_of_room = False

    def run(self) -> None:
        """Sync; blocks. A fault means that the bytes count as lost."""
        with self._syncs.lock:
            try:
                if self._syncs.has_failed:
                    raise self._syncs.fault(self._path)
                self._run()
            except StorageFault:
                self.upto = 0
                if not self._is_closed():
                    self._syncs.has_failed = True
                    raise
            if self._is_closed() or self._syncs.lacks_epochs:
                self.upto = 0

    def write_epochs_aside(self) -> bool:
        """The first part of a sync of many logs: the epoch table under another name, unsynced. True if it must be given its name then."""
        if self._work.epochs is None or self._is_closed():
            return False
        try:
            file = self._files.open(f"{self._path}/{LEADER_EPOCHS}.tmp", create=True, truncate=True)
            try:
                file.pwrite(epochs_text(self._work.epochs), 0)
            finally:
                file.close()
        except DiskFull:
            self.is_out_of_room = self._syncs.lacks_epochs = True
            self.upto = 0
            return False
        except StorageFault:
            if self._is_closed():
                return False
            raise
        return True

    def name_epochs(self) -> None:
        """The second part, after a sync: the table takes its place."""
        try:
            self._files.rename(f"{self._path}/{LEADER_EPOCHS}.tmp", f"{self._path}/{LEADER_EPOCHS}")
        except StorageFault:
            if not self._is_closed():
                raise
        else:
            self._syncs.lacks_epochs = False

    def end(self, *, has_failed: bool) -> None:
        """The last part: everything is synced, or nothing is known of it."""
        syncs = self._syncs
        if self._is_closed():
            self.upto = 0
        elif has_failed or syncs.has_failed:
            self.upto = 0
            syncs.has_failed = True
        elif syncs.lacks_epochs:
            self.upto = 0

    def run_all(self) -> None:
        """As `run`, but to find no room for the epoch table is a fault, too: for who cannot wait for another flush. Raises StorageFault."""
        self.run()
        self.check_room()

    def check_room(self) -> None:
        """Raises DiskFull if there was no room for the epoch table."""
        if self.is_out_of_room:
            raise DiskFull(
                f"{self._path}: there is no room for the table of leader epochs", directory=log_directory_of(self._path)
            )

    def _run(self) -> None:
        work = self._work
        for log in work.logs:
            log.fsync()
        for name in work.named:
            self._sync_by_name(name)
        if work.syncs_names:
            self._files.fsync_dir(self._path)
        if work.parent is not None:
            self._files.fsync_dir(work.parent)
        if work.epochs is not None and not self._is_closed():
            try:
                write_epochs(self._files, self._path, work.epochs)
            except DiskFull:
                self.is_out_of_room = self._syncs.lacks_epochs = True
            else:
                self._syncs.lacks_epochs = False

    def _sync_by_name(self, name: str) -> None:
        """Sync an index or snapshot; one that was removed meanwhile needs no sync."""
        try:
            file = self._files.open(name)
        except StorageFault:
            if self._files.exists(name):
                raise
            return
        try:
            file.fsync()
        finally:
            file.close()


def sync_together(files: Files, directory: str, jobs: Sequence[SegmentFlush]) -> None:
    """Run the syncs of many logs of one log directory as one or two of its whole file system; blocks. Raises StorageFault.

    A sync of a small file costs a turn of the disk, some milliseconds, and each new log needs several; one of the file system costs a few such turns
    however many files there are.
    """
    is_done = False
    try:
        named = [job for job in jobs if job.write_epochs_aside()]
        if files.sync_tree(directory):
            for job in named:
                job.name_epochs()
            is_done = not named or files.sync_tree(directory)
    except StorageFault:
        for job in jobs:
            job.end(has_failed=True)
        raise
    for job in jobs:
        if is_done:
            job.end(has_failed=False)
        else:
            job.run()
