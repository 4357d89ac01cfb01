"""Does a thread wait for the disk, and not the event loop, when bytes of a file are not in the page cache?"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.net.buffers import BufferPool, RequestMemory
from headrace.net.busy_poll import BusyPoller
from headrace.net.file_slices import PART_BYTES, ColdSlice, SliceRest
from headrace.net.limits import ConnectionCounter, ConnectionLimits
from headrace.net.listener import Listener, SharedByListeners
from headrace.net.server_connection import ServerConnection
from headrace.net.turn_shares import TurnShares
from headrace.server.run import new_event_loop
from headrace.storage.os_files import OsFile, OsFiles

CONTENT = bytes(range(251)) * 16_000


class WatchedFile:
    """An open file that remembers which threads read it, and that is cold on any file system: what `forget` took out of the cache is not there until a read."""

    def __init__(self, file: OsFile) -> None:
        self._file = file
        self.fd = file.fd
        self.read_by: list[int] = []
        self._is_cold = False

    def forget(self) -> None:
        """Have the page cache drop it; a file system in memory cannot, and is said to have done so."""
        os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_DONTNEED)
        self._is_cold = True

    def pread(self, size: int, offset: int, /) -> bytes:
        """As the file's."""
        self.read_by.append(threading.get_ident())
        self._is_cold = False
        return self._file.pread(size, offset)

    def is_cached(self, offset: int, size: int, /) -> bool:
        """As the file's, unless it was forgotten."""
        return not self._is_cold and self._file.is_cached(offset, size)

    def read_cached(self, buffer: memoryview, offset: int, /) -> bool:
        """The same."""
        return not self._is_cold and self._file.read_cached(buffer, offset)


@dataclass
class Slice:
    """A part of a file, as logs give it."""

    file: WatchedFile
    position: int
    size: int


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[WatchedFile]:
    """A file on the disk, all of it synced."""
    file = OsFiles().open(str(tmp_path / "file"), create=True)
    file.pwrite(CONTENT, 0)
    file.fsync()
    yield WatchedFile(file)
    file.close()


def test_what_was_read_is_cached(watched: WatchedFile) -> None:
    """Whatever became of it before."""
    watched.forget()
    assert not watched.is_cached(0, 4_096)
    assert watched.pread(4_096, 0) == CONTENT[:4_096]
    assert watched.is_cached(0, 4_096)


def test_a_slice_is_looked_at_before_it_is_read(watched: WatchedFile) -> None:
    """Nothing is read to find out; what a thread fetched can be sent at once, up to the next part."""
    watched.forget()
    rest = SliceRest(Slice(watched, 0, len(CONTENT)))
    with pytest.raises(ColdSlice):
        rest.look()
    assert watched.read_by == []
    assert rest.fetch()
    rest.fetched()
    assert rest.look() == PART_BYTES
    assert rest.take(1_000) == CONTENT[:1_000]
    assert rest.look() == PART_BYTES - 1_000


class SendsSlices:
    """Answers each request with the slice that it names."""

    def __init__(self, connection: ServerConnection, file: WatchedFile) -> None:
        self._connection = connection
        self._file = file

    def begins(self, head: memoryview, size: int) -> None:
        """Any length."""

    def frame(self, view: memoryview) -> bool:
        """Position and size."""
        position, size = struct.unpack(">ii", view)
        self._connection.pieces += [struct.pack(">i", size), Slice(self._file, position, size)]
        return False

    def closed(self) -> None:
        """Nothing to do."""


def ask(port: int, slices: list[tuple[int, int]]) -> list[bytes]:
    """All at once, and the answers in their order."""
    found = []
    with socket.create_connection(("127.0.0.1", port), 20) as client, client.makefile("rb") as source:
        client.sendall(b"".join(struct.pack(">iii", 8, *each) for each in slices))
        for _ in slices:
            found.append(source.read(struct.unpack(">i", source.read(4))[0]))
    return found


def test_the_loop_does_not_wait_for_the_disk(watched: WatchedFile) -> None:
    """Large slices and small ones, in the order of the requests; what was not cached other threads read."""
    slices = [(0, 2_000), (100_000, 3_000_000), (3_900_000, 100), (50_000, 1_000_000), (3_950_000, 20_000)]
    expected = [CONTENT[position : position + size] for position, size in slices]

    async def main() -> None:
        listener = Listener(
            "L",
            lambda connection, _: SendsSlices(connection, watched),
            limits=ConnectionLimits(),
            shared=SharedByListeners(
                pool=BufferPool(), shares=TurnShares(), memory=RequestMemory(), poller=BusyPoller("off")
            ),
            counter=ConnectionCounter(),
        )
        await listener.bind("127.0.0.1", 0)
        await listener.start()
        try:
            watched.forget()
            assert await asyncio.to_thread(ask, listener.port, slices) == expected
            assert watched.read_by
            assert threading.get_ident() != watched.read_by[0]
        finally:
            await listener.close()

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main())
