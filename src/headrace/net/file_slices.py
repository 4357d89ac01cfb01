"""Slices of files on their way to a socket: what is left of them, and whether reading them would wait for the disk.

Before bytes are read or sent on the event loop their file is asked whether they are in the page cache, if it can tell (`OsFile.is_cached`): those that are not
are for a thread to fetch, however slow the disk is.
"""

from __future__ import annotations

from headrace.core.errors import StorageFault
from headrace.net.ports import FileBytes, ReadableFile

Data = bytes | bytearray | memoryview
Piece = Data | FileBytes

PART_BYTES = 1 << 20
"""So much of a slice is looked at, fetched or sent at once."""
_COPIED_BYTES = 256 << 10
"""So much is copied together and sent by one call: up to half a MiB `sendfile` takes twice as long between two processes of a machine, because it gives the socket 16 pages at a time."""
_DATA = (bytes, bytearray, memoryview)
_room = memoryview(bytearray(_COPIED_BYTES))
"""Of the event loop alone: what is in it is sent, or copied again, before anything else is put there."""


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
            is_cached = getattr(self.file, "is_cached", None)
            if is_cached is not None and not is_cached(self.position, part):
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

    def skip(self, done: int) -> None:
        """`done` bytes are sent that nobody looked at."""
        self.position += done
        self.size -= done


def copied(pieces: list[Piece]) -> memoryview | None:
    """All of them in one buffer, which the next call uses again; None if they are too many bytes, or some of them would have to be waited for. Hot path."""
    room, at, left = _room, 0, len(_room)
    for piece in pieces:
        if type(piece) is bytes:
            size = len(piece)
            if size > left:
                return None
            room[at : at + size] = piece
        elif isinstance(piece, _DATA):
            return None
        else:
            size = piece.size
            read = getattr(piece.file, "read_cached", None)
            if size > left or read is None or not read(room[at : at + size], piece.position):
                return None
        at += size
        left -= size
    return room[:at]


def unsent(pieces: list[Piece], done: int) -> list[Piece]:
    """What is left of them when their first `done` bytes are sent."""
    for number, piece in enumerate(pieces):
        if isinstance(piece, _DATA):
            size = len(piece)
            rest: Piece = memoryview(piece)[done:]
        else:
            size = piece.size
            rest = SliceRest(piece)
            rest.skip(done)
        if done < size:
            return [rest, *pieces[number + 1 :]]
        done -= size
    return []
