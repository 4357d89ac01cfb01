"""What the outside lends to the pure parts: chance, and a disk.

Storage code knows files only through `Files` and `File`. So a simulation can lose what was not synced, tear a write
at any byte and fail any call. `headrace.storage.os_files.OsFiles` is the real one.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from headrace.core.errors import StorageFault

BytesLike = bytes | bytearray | memoryview


class Rng(Protocol):
    """A source of chance; `random.Random` fits."""

    def random(self) -> float:
        """A float in [0, 1)."""

    def randrange(self, start: int, stop: int, /) -> int:
        """An int in [start, stop)."""

    def randbytes(self, n: int, /) -> bytes:
        """`n` random bytes."""


class DiskFull(StorageFault):
    """There is no room for a write, a quota forbids it, or no descriptor is free. Unlike other faults it may pass: the caller undoes the write (D10)."""


class FileStat(NamedTuple):
    """What a directory entry says: size in bytes and time of the last change in ms since 1970.

    `stamp` is another one for every other file or directory, and after each change of a file's bytes or a directory's names.
    """

    size: int
    mtime_ms: int
    is_directory: bool
    stamp: tuple[int, int]


class DiskSpace(NamedTuple):
    """Bytes of a file system: all of them, and those this process may still use."""

    total_bytes: int
    usable_bytes: int


class File(Protocol):
    """One open file. Every call raises `StorageFault` when the disk refuses.

    `fd` is the kernel's descriptor for `sendfile`, or -1 when the file is closed or not of the kernel. Offsets and
    sizes are bytes. A `File` may be read and synced from another thread while its owner appends.
    """

    @property
    def fd(self) -> int:
        """Descriptor for `sendfile`; -1 when there is none."""

    @property
    def path(self) -> str:
        """Where the file was opened; a rename does not change it."""

    def pread(self, size: int, offset: int, /) -> bytes:
        """Up to `size` bytes from `offset`; fewer only at the end of the file."""

    def pread_into(self, buffer: bytearray | memoryview, offset: int, /) -> int:
        """Fill `buffer` from `offset`; the number of bytes read, less than its length only at the end of the file."""

    def pwrite(self, data: BytesLike, offset: int, /) -> None:
        """Write all of `data` at `offset` (to the page cache), or raise."""

    def truncate(self, size: int, /) -> None:
        """Make the file exactly `size` bytes long."""

    def size(self) -> int:
        """Bytes in the file."""

    def fsync(self) -> None:
        """Return when the file's bytes and size are durable. After a fault they count as lost: never call it again."""

    def close(self) -> None:
        """Give the descriptor back; a second call does nothing."""


class FileLock(Protocol):
    """A held lock on a data directory; it ends with `release` or with the process."""

    def release(self) -> None:
        """Let another process take the lock."""


class Files(Protocol):
    """The names of a file system. Paths are absolute text with `/`. Raises `StorageFault` when the disk refuses."""

    def within(self, directory: str, /) -> Files:
        """The same files for a log directory: its faults, and those of files opened by it, name the directory."""

    def open(self, path: str, /, *, create: bool = False, truncate: bool = False, read_only: bool = False) -> File:
        """Open a file for reading and writing; with `create`, make it if there is none."""

    def read_file(self, path: str, /) -> bytes | None:
        """The whole file, or None if there is none."""

    def exists(self, path: str, /) -> bool:
        """True if a file or directory has this name."""

    def stat(self, path: str, /) -> FileStat | None:
        """Size and time of a name, or None if there is none."""

    def listdir(self, path: str, /) -> list[str]:
        """Names in a directory, sorted."""

    def mkdir(self, path: str, /) -> None:
        """Make a directory and its missing parents; nothing happens if it is there."""

    def rename(self, source: str, target: str, /) -> None:
        """Give `source` the name `target`, replacing a file there. Durable only after `fsync_dir` of the parents."""

    def unlink(self, path: str, /) -> None:
        """Remove a file; nothing happens if there is none."""

    def rmdir(self, path: str, /) -> None:
        """Remove an empty directory; nothing happens if there is none."""

    def fsync_dir(self, path: str, /) -> None:
        """Return when the names in this directory are durable."""

    def sync_tree(self, path: str, /) -> bool:
        """Return True when everything that was written in the file system of `path` so far is durable, names too; False where this cannot be had."""

    def lock(self, path: str, /) -> FileLock | None:
        """Take the lock file at `path` for this process, or None when another one holds it."""

    def disk_space(self, path: str, /) -> DiskSpace:
        """Room on the file system of `path`."""
