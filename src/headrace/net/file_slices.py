"""Slices of files on their way to a socket: what is left of them, and whether reading them would wait for the disk.

What is read or sent on the event loop is asked for with `RWF_NOWAIT` first, where the system has it: bytes that are not in the page cache are for a
thread to fetch, however slow the disk is.
"""

from __future__ import annotations

import os

from headrace.core.errors import StorageFault
from headrace.net.ports import FileBytes, ReadableFile

Data = bytes | bytearray | memoryview
Piece = Data | FileBytes

PART_BYTES = 1 << 20
"""So much of a slice is looked at, fetched or sent at once."""
_PROBE_EVERY_BYTES = 128 << 10
"""What the kernel reads ahead by default: one page of each such part tells of the others."""
_NO_WAIT: int | None = getattr(os, "RWF_NOWAIT", None)


class Unreadable(Exception):
    """Stored bytes could not be read."""


class ColdSlice(Exception):
    """The next bytes of a slice are not in the page cache."""

    def __init__(self, rest: SliceRest) -> None:
        super().__init__()
        self.rest = rest


class SliceRest:
    """What is still to be sent of a slice of a file; `cached` bytes from `position` on were in the page cache when it was looked at."""

    __slots__ = ("cached", "file", "position", "size")

    def __init__(self, part: FileBytes) -> None:
        self.file: ReadableFile | None = part.file
        self.position = part.position
        self.size = part.size
        self.cached = 0

    @property
    def descriptor(self) -> int:
        """The file's descriptor, -1 if it has none."""
        found: int = getattr(self.file, "fd", -1)
        return found

    def look(self) -> int:
        """How many of the next bytes can be had without waiting for the disk, at least one. Raises ColdSlice."""
        if not self.cached:
            part = min(self.size, PART_BYTES)
            if not _is_cached(self.descriptor, self.position, part):
                raise ColdSlice(self)
            self.cached = part
        return self.cached

    def advance(self, done: int) -> None:
        """`done` of the bytes that `look` told of are sent."""
        self.position += done
        self.size -= done
        self.cached -= done

    def take(self, most: int) -> bytes:
        """Read up to `most` bytes and advance. Raises ColdSlice, Unreadable."""
        size = min(self.size, self.look(), most)
        file = self.file
        if file is None:
            raise Unreadable
        try:
            part = file.pread(size, self.position)
        except StorageFault:
            raise Unreadable from None
        if len(part) != size or not size:
            raise Unreadable
        self.advance(size)
        return part

    def fetch(self) -> bool:
        """Wait for the disk until the next bytes are in the page cache; False if they cannot be read. For a thread."""
        file, size = self.file, min(self.size, PART_BYTES)
        try:
            return file is not None and len(file.pread(size, self.position)) == size
        except StorageFault:
            return False

    def fetched(self) -> None:
        """`fetch` is done."""
        self.cached = min(self.size, PART_BYTES)


def _is_cached(descriptor: int, position: int, size: int) -> bool:
    """Whether the bytes are in the page cache, as far as samples tell; True where it cannot be asked."""
    if _NO_WAIT is None or descriptor < 0:
        return True
    page = bytearray(1)
    last = position + size - 1
    try:
        for each in (*range(position, last, _PROBE_EVERY_BYTES), last):
            os.preadv(descriptor, (page,), each, _NO_WAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system that cannot tell, or an error that the read itself will meet
    return True
