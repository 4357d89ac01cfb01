"""The real disk: `Files` on the operating system. The only module here, with `descriptors`, that may import `os`."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from stat import S_ISDIR, S_ISREG

from headrace.core.errors import StorageFault
from headrace.core.ports import BytesLike, DiskFull, DiskSpace, FileStat
from headrace.storage.descriptors import open_descriptor, with_spares

_READ_BYTES = 64 * 1024
"""A file is read whole in such pieces: nearly all of those that are have fewer bytes."""
MOST_READ_BYTES = 512 << 20
"""Of a file that is read whole: metadata snapshots of very large clusters are the largest. A hole that somebody made in a checkpoint takes no memory."""
_locked_here: set[str] = set()
_sync_data = getattr(os, "fdatasync", os.fsync)
_NO_WAIT: int | None = getattr(os, "RWF_NOWAIT", None)
_PROBE_EVERY_BYTES = 128 << 10
"""What the kernel reads ahead by default: one byte of each such part tells of the others."""
_probed = (bytearray(1),)
_MAY_PASS = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)
"""Errors that say nothing about the disk's health: no room, or no descriptor that is free."""


@contextmanager
def _faults(action: str, path: str, directory: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _fault(error, action, path, directory) from error


def _fault(error: OSError, action: str, path: str, directory: str) -> StorageFault:
    kind = DiskFull if error.errno in _MAY_PASS else StorageFault
    return kind(f"cannot {action} {path}: {error.strerror or error}", directory=directory)


class OsFile:
    """An open file of the operating system. Closing it twice is fine; a garbage one closes itself."""

    __slots__ = ("_cannot_say", "_directory", "fd", "path")

    def __init__(self, fd: int, path: str, directory: str = "") -> None:
        self.fd = fd
        self.path = path
        self._directory = directory
        self._cannot_say = _NO_WAIT is None

    def pread(self, size: int, offset: int, /) -> bytes:
        """Up to `size` bytes from `offset`; fewer only at the end of the file."""
        try:
            data = os.pread(self.fd, size, offset)
            if len(data) == size or not data:
                return data
            parts = [data]
            while (size := size - len(data)) and (data := os.pread(self.fd, size, offset := offset + len(data))):
                parts.append(data)
            return b"".join(parts)
        except OSError as error:
            raise _fault(error, "read", self.path, self._directory) from error

    def is_cached(self, offset: int, size: int, /) -> bool:
        """Whether reading these bytes would not wait for the disk, as far as samples tell; True where the system or the file system cannot say."""
        if self._cannot_say or self.fd < 0:
            return True
        assert _NO_WAIT is not None, "else no file can say"
        try:
            for each in range(offset + size - 1, offset - 1, -_PROBE_EVERY_BYTES):
                os.preadv(self.fd, _probed, each, _NO_WAIT)
        except BlockingIOError:
            return False
        except OSError:
            self._cannot_say = True  # or the read itself will meet the same error
        return True

    def read_cached(self, buffer: memoryview, offset: int, /) -> bool:
        """Fill `buffer` from `offset` without waiting for the disk; False if not all of it could be had. It waits where the system or the file system cannot say."""
        try:
            return os.preadv(self.fd, (buffer,), offset, 0 if self._cannot_say else _NO_WAIT or 0) == len(buffer)
        except BlockingIOError:
            return False
        except OSError:
            self._cannot_say = True  # or the read itself will meet the same error
            return False

    def pread_into(self, buffer: bytearray | memoryview, offset: int, /) -> int:
        """Fill `buffer` from `offset`; the number of bytes read."""
        try:
            done = os.preadv(self.fd, (buffer,), offset)
            if done < len(buffer):
                view = memoryview(buffer)
                while done < len(view) and (more := os.preadv(self.fd, (view[done:],), offset + done)):
                    done += more
            return done
        except OSError as error:
            raise _fault(error, "read", self.path, self._directory) from error

    def pwrite(self, data: BytesLike, offset: int, /) -> None:
        """Write all of `data` at `offset`, to the page cache."""
        try:
            done = os.pwrite(self.fd, data, offset)
            if done != len(data):
                view = memoryview(data)
                while done < len(view):
                    done += os.pwrite(self.fd, view[done:], offset + done)
        except OSError as error:
            raise _fault(error, "write", self.path, self._directory) from error

    def truncate(self, size: int, /) -> None:
        """Make the file exactly `size` bytes long."""
        with _faults("truncate", self.path, self._directory):
            os.ftruncate(self.fd, size)

    def size(self) -> int:
        """Bytes in the file."""
        with _faults("examine", self.path, self._directory):
            return os.fstat(self.fd).st_size

    def fsync(self) -> None:
        """Return when bytes and size are durable."""
        if self.fd < 0:
            raise StorageFault(f"cannot sync {self.path}: it was closed", directory=self._directory)
        with _faults("sync", self.path, self._directory):
            _sync_data(self.fd)

    def close(self) -> None:
        """Give the descriptor back."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


class _WatchedTree:
    """A directory that is held open, so that `syncfs` tells every write to its file system that failed since; see syncfs(2), NOTES."""

    __slots__ = ("_fd",)

    def __init__(self, path: str) -> None:
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) if _syncfs_tells_errors() else -1
        except OSError:
            self._fd = -1

    def sync(self) -> bool:
        """True if all is durable, False if nothing was done. Raises OSError."""
        if self._fd < 0:
            return False
        from ctypes import CDLL, get_errno  # where many logs are synced at once only

        if CDLL(None, use_errno=True).syncfs(self._fd):
            raise OSError(get_errno(), os.strerror(get_errno()))
        return True

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def _syncfs_tells_errors() -> bool:
    """Linux 5.8 or later."""
    found = os.uname()
    numbers = found.release.split("-")[0].split(".")
    return (found.sysname == "Linux" and len(numbers) > 1 and all(each.isdigit() for each in numbers[:2])) and (
        int(numbers[0]),
        int(numbers[1]),
    ) >= (5, 8)


class OsFileLock:
    """A POSIX lock, as Java's `FileChannel.lock` takes it, so Kafka and Headrace keep each other out of a directory."""

    __slots__ = ("_fd", "_path")

    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self._path = path

    def release(self) -> None:
        """Let another process take the lock."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            _locked_here.discard(self._path)
            os.close(fd)


class OsFiles:
    """The file system of this machine; `directory` is the log directory that its faults name, empty for none."""

    __slots__ = ("_directory", "_tree", "_within")

    def __init__(self, directory: str = "") -> None:
        self._directory = directory
        self._within: dict[str, OsFiles] = {}
        self._tree = _WatchedTree(directory) if directory else None

    def within(self, directory: str, /) -> OsFiles:
        """The same files, whose faults name `directory`."""
        found = self._within.get(directory)
        if found is None:
            found = self._within[directory] = OsFiles(directory)
        return found

    def sync_tree(self, path: str, /) -> bool:
        """Sync all of the file system that holds this log directory; False where its errors could be missed."""
        with _faults("sync the file system of", path, self._directory):
            return self._tree is not None and self._tree.sync()

    def open(self, path: str, /, *, create: bool = False, truncate: bool = False, read_only: bool = False) -> OsFile:
        """Open a file for reading and writing; with `create`, make it if there is none."""
        flags = os.O_CLOEXEC | (os.O_RDONLY if read_only else os.O_RDWR)
        if create:
            flags |= os.O_CREAT
        if truncate:
            flags |= os.O_TRUNC
        try:
            return OsFile(open_descriptor(path, flags), path, self._directory)
        except OSError as error:
            raise _fault(error, "open", path, self._directory) from error

    def read_file(self, path: str, /) -> bytes | None:
        """The whole file, or None if there is none."""
        try:
            fd = open_descriptor(
                path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
            )  # a pipe would have us wait for a writer
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _fault(error, "open", path, self._directory) from error
        try:
            found = os.fstat(fd)
            if not S_ISREG(found.st_mode) or found.st_size > MOST_READ_BYTES:
                what = (
                    f"{found.st_size} bytes, more than any that is read whole" if S_ISREG(found.st_mode) else "no file"
                )
                raise StorageFault(f"{path} is damaged: it is {what}", directory=self._directory)
            data = part = os.read(fd, _READ_BYTES)
            while len(part) == _READ_BYTES:
                data += (part := os.read(fd, _READ_BYTES))
            return data
        except OSError as error:
            raise _fault(error, "read", path, self._directory) from error
        finally:
            os.close(fd)

    def exists(self, path: str, /) -> bool:
        """True if a file or directory has this name."""
        return os.path.exists(path)

    def stat(self, path: str, /) -> FileStat | None:
        """Size and time of a name, or None if there is none."""
        try:
            found = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _fault(error, "examine", path, self._directory) from error
        stamp = (found.st_ino, found.st_ctime_ns)
        return FileStat(found.st_size, found.st_mtime_ns // 1_000_000, S_ISDIR(found.st_mode), stamp)

    def listdir(self, path: str, /) -> list[str]:
        """Names in a directory, sorted."""
        try:
            return sorted(with_spares(lambda: os.listdir(path)))
        except OSError as error:
            raise _fault(error, "list", path, self._directory) from error

    def mkdir(self, path: str, /) -> None:
        """Make a directory and its missing parents."""
        with _faults("create", path, self._directory):
            os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str, /) -> None:
        """Give `source` the name `target`, replacing a file there."""
        with _faults("rename", source, self._directory):
            os.replace(source, target)

    def unlink(self, path: str, /) -> None:
        """Remove a file; nothing happens if there is none."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise _fault(error, "remove", path, self._directory) from error

    def rmdir(self, path: str, /) -> None:
        """Remove an empty directory; nothing happens if there is none."""
        try:
            os.rmdir(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise _fault(error, "remove", path, self._directory) from error

    def fsync_dir(self, path: str, /) -> None:
        """Return when the names in this directory are durable."""
        with _faults("sync", path, self._directory):
            fd = open_descriptor(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def lock(self, path: str, /) -> OsFileLock | None:
        """Take the lock file at `path`, or None when another process (or another node in this one) holds it."""
        real = os.path.realpath(path)
        if real in _locked_here:
            return None
        with _faults("lock", path, self._directory):
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                os.close(fd)
                return None
        _locked_here.add(real)
        return OsFileLock(fd, real)

    def disk_space(self, path: str, /) -> DiskSpace:
        """Room on the file system of `path`."""
        with _faults("examine", path, self._directory):
            found = os.statvfs(path)
        return DiskSpace(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)
