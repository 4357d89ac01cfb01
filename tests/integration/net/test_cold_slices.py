"""Does a thread wait for the disk, and not the event loop, when bytes of a file are not in the page cache?"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.net.buffers import BufferPool, RequestMemory
from headrace.net.busy_poll import BusyPoller
from headrace.net.file_slices import PART_BYTES, ColdSlice, SliceRest
from headrace.net.limits import ConnectionCounter, ConnectionLimits
from headrace.net.listener import Listener, SharedByListeners
from headrace.net.server_connection import ServerConnection
from headrace.server.run import new_event_loop
from headrace.storage.os_files import OsFile, OsFiles

CONTENT = bytes(range(251)) * 16_000


class WatchedFile:
    """An open file that remembers which threads read it."""

    def __init__(self, file: OsFile) -> None:
        self._file = file
        self.fd = file.fd
        self.read_by: list[int] = []

    def pread(self, size: int, offset: int, /) -> bytes:
        """As the file's."""
        self.read_by.append(threading.get_ident())
        return self._file.pread(size, offset)


@dataclass
class Slice:
    """A part of a file, as logs give it."""

    file: WatchedFile
    position: int
    size: int


def forgotten(path: Path) -> WatchedFile:
    """A file that the page cache has forgotten, if it forgets at all."""
    file = OsFiles().open(str(path), create=True)
    file.pwrite(CONTENT, 0)
    file.fsync()
    os.posix_fadvise(file.fd, 0, 0, os.POSIX_FADV_DONTNEED)
    return WatchedFile(file)


@pytest.fixture
def cold(tmp_path: Path) -> WatchedFile:
    """One that is not in memory; another one shows whether there is such a thing here, because a look makes the kernel begin to read."""
    try:
        SliceRest(Slice(forgotten(tmp_path / "other"), 0, len(CONTENT))).look()
    except ColdSlice:
        return forgotten(tmp_path / "file")
    pytest.skip("the file system of temporary files keeps everything in memory, or cannot tell")


def test_a_slice_is_looked_at_before_it_is_read(cold: WatchedFile) -> None:
    """Nothing is read to find out; what a thread fetched can be sent at once, up to the next part."""
    rest = SliceRest(Slice(cold, 0, len(CONTENT)))
    with pytest.raises(ColdSlice):
        rest.look()
    assert cold.read_by == []
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


def test_the_loop_does_not_wait_for_the_disk(cold: WatchedFile) -> None:
    """Large slices and small ones, in the order of the requests; only other threads read what was not cached."""
    slices = [(0, 2_000), (100_000, 3_000_000), (3_900_000, 100), (50_000, 1_000_000), (3_950_000, 20_000)]
    loop_thread: list[int] = []

    async def main() -> list[bytes]:
        loop_thread.append(threading.get_ident())
        listener = Listener(
            "L",
            lambda connection, _: SendsSlices(connection, cold),
            limits=ConnectionLimits(),
            shared=SharedByListeners(pool=BufferPool(), memory=RequestMemory(), poller=BusyPoller("off")),
            counter=ConnectionCounter(),
        )
        await listener.bind("127.0.0.1", 0)
        await listener.start()
        found: Any = await asyncio.to_thread(ask, listener.port, slices)
        await listener.close()
        return list(found)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        assert runner.run(main()) == [CONTENT[position : position + size] for position, size in slices]
    assert any(reader != loop_thread[0] for reader in cold.read_by)
