"""The files of a replica that is copied into another log directory: under the names that it will have there, in `<topic>-<partition>.<uuid>-future` until then."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from headrace.core.ports import DiskSpace, File, FileLock, Files, FileStat
    from headrace.storage.stored_log import StoredLog


class FutureFiles:
    """Implements `headrace.core.ports.Files`: what lies below `path` is looked for in `actual`, until `take_place` has given that directory the name `path`."""

    def __init__(self, files: Files, *, path: str, actual: str) -> None:
        self._files = files
        self._path = path
        self.actual = actual
        """The directory's name by now."""

    def take_place(self) -> None:
        """The directory gets the name that everybody knows it by. Durable after `fsync_dir` of its parent."""
        self._files.rename(self.actual, self._path)
        self.actual = self._path

    def _at(self, path: str) -> str:
        own = self._path
        if self.actual is own or not path.startswith(own) or path[len(own) : len(own) + 1] not in ("", "/"):
            return path
        return self.actual + path[len(own) :]

    def within(self, directory: str, /) -> Files:
        """These are a log directory's already."""
        return self

    def open(self, path: str, /, *, create: bool = False, truncate: bool = False, read_only: bool = False) -> File:
        """As the port's."""
        return self._files.open(self._at(path), create=create, truncate=truncate, read_only=read_only)

    def read_file(self, path: str, /) -> bytes | None:
        """As the port's."""
        return self._files.read_file(self._at(path))

    def exists(self, path: str, /) -> bool:
        """As the port's."""
        return self._files.exists(self._at(path))

    def stat(self, path: str, /) -> FileStat | None:
        """As the port's."""
        return self._files.stat(self._at(path))

    def listdir(self, path: str, /) -> list[str]:
        """As the port's."""
        return self._files.listdir(self._at(path))

    def mkdir(self, path: str, /) -> None:
        """As the port's."""
        self._files.mkdir(self._at(path))

    def rename(self, source: str, target: str, /) -> None:
        """As the port's."""
        self._files.rename(self._at(source), self._at(target))

    def unlink(self, path: str, /) -> None:
        """As the port's."""
        self._files.unlink(self._at(path))

    def rmdir(self, path: str, /) -> None:
        """As the port's."""
        self._files.rmdir(self._at(path))

    def fsync_dir(self, path: str, /) -> None:
        """As the port's."""
        self._files.fsync_dir(self._at(path))

    def sync_tree(self, path: str, /) -> bool:
        """As the port's."""
        return self._files.sync_tree(self._at(path))

    def lock(self, path: str, /) -> FileLock | None:
        """As the port's."""
        return self._files.lock(self._at(path))

    def disk_space(self, path: str, /) -> DiskSpace:
        """As the port's."""
        return self._files.disk_space(self._at(path))


class FutureLog(NamedTuple):
    """A log in the making, in a directory with a name of its own."""

    log: StoredLog
    files: FutureFiles
