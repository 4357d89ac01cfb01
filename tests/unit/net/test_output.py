"""Answers on their way to a real socket: does everything arrive, do others have their turns, and is the connection told when nothing waits?"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from headrace.core.holds import Hold
from headrace.net.output import Output


class Stored:
    """Bytes of a file; `fd` may be one that the kernel does not send from."""

    def __init__(self, data: bytes, fd: int) -> None:
        self._data = data
        self.fd = fd
        self.position = 0
        self.size = len(data)
        self.reads = 0

    @property
    def file(self) -> Stored:
        """The port of both, the slice and its file."""
        return self

    def pread(self, size: int, offset: int, /) -> bytes:
        """As a file's."""
        self.reads += 1
        return self._data[offset : offset + size]


class Sender(asyncio.Protocol):
    """A connection's protocol, as far as an `Output` needs one."""

    def __init__(self) -> None:
        self.holds: set[Hold] = set()
        self.drained = 0
        self.output: Output | None = None
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.output = Output(
            transport,
            self.holds,
            now=asyncio.get_running_loop().time,
            drained=self._drained,
            broken=lambda: pytest.fail("everything can be read"),
        )

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()

    def pause_writing(self) -> None:
        assert self.output is not None
        self.output.transport_is_full()

    def resume_writing(self) -> None:
        assert self.output is not None
        self.output.transport_has_room()

    def _drained(self) -> None:
        self.drained += 1


@contextmanager
def connected() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as ours:
        ours.connect(server.getsockname())
        theirs, _ = server.accept()
        with closing(theirs):
            yield ours, theirs


def run(conversation: Callable[[Sender, Output, socket.socket], Awaitable[None]]) -> None:
    """The conversation of a sender with the peer's end, which does not block."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        with connected() as (ours, theirs):
            theirs.setblocking(False)
            transport, sender = await loop.create_connection(Sender, sock=ours)
            assert sender.output is not None
            try:
                await conversation(sender, sender.output, theirs)
            finally:
                sender.output.drop()
                transport.abort()
                await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(main(), 60))


async def received(theirs: socket.socket, size: int) -> bytes:
    """So many bytes at the other end."""
    loop, found = asyncio.get_running_loop(), bytearray()
    while len(found) < size:
        found += await loop.sock_recv(theirs, 1 << 20)
    return bytes(found)


def test_answers_of_very_many_slices_leave_others_their_turns(tmp_path: Path) -> None:
    """inv:M6: each small slice is a read of its own; a peer that reads as quickly as they come must not hold the loop for all of them."""
    path = tmp_path / "log"
    path.write_bytes(b"x" * 100)
    fd = os.open(path, os.O_RDONLY)
    pieces = [Stored(b"x" * 100, fd) for _ in range(5_000)]

    async def conversation(sender: Sender, output: Output, theirs: socket.socket) -> None:
        output.send(list(pieces))
        assert Hold.OUTPUT in sender.holds, "the rest waits for the loop's next turn"
        assert await received(theirs, 500_000) == b"x" * 500_000
        assert (sender.holds, sender.drained) == (set(), 1)

    try:
        run(conversation)
    finally:
        os.close(fd)


def test_a_connection_goes_on_when_the_kernel_refuses_to_send_what_the_transport_can() -> None:
    """A file system without `sendfile`, met when the socket is writable again: the connection was left unread until it was idle for too long."""
    directory = os.open("/", os.O_RDONLY)
    first = b"a" * (16 << 20)
    stored = Stored(b"b" * 10_000, directory)

    async def conversation(sender: Sender, output: Output, theirs: socket.socket) -> None:
        output.send([first])
        assert Hold.OUTPUT in sender.holds, "more than the kernel takes at once"
        output.send([stored])
        assert await received(theirs, len(first) + 10_000) == first + b"b" * 10_000
        assert (sender.holds, sender.drained) == (set(), 1)

    try:
        run(conversation)
    finally:
        os.close(directory)


def test_what_waits_for_a_peer_that_has_gone_is_not_read_from_its_files(tmp_path: Path) -> None:
    """inv:M5: fifty readers of gigabytes that went without reading held the loop for 8 s, while all of it was read for nobody."""
    path = tmp_path / "log"
    path.write_bytes(b"x" * 100_000)
    fd = os.open(path, os.O_RDONLY)
    pieces = [Stored(b"x" * 100_000, fd) for _ in range(1_000)]

    async def conversation(sender: Sender, output: Output, theirs: socket.socket) -> None:
        output.send(list(pieces))
        assert Hold.OUTPUT in sender.holds
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        theirs.close()
        await sender.lost.wait()
        assert (sum(piece.reads for piece in pieces), sender.drained) == (0, 0)

    try:
        run(conversation)
    finally:
        os.close(fd)


def test_a_long_answer_is_not_copied_to_be_sent() -> None:
    """M6: a hundred megabytes in pieces of one; to join them took as long as a hundred requests. What waits are the pieces themselves."""

    async def conversation(sender: Sender, output: Output, theirs: socket.socket) -> None:
        answer = bytearray(os.urandom(1 << 20) * 32)
        expected = bytes(answer)
        view = memoryview(answer)
        output.send([b"head", *[view[at : at + (1 << 20)] for at in range(0, len(answer), 1 << 20)]])
        view.release()
        assert Hold.OUTPUT in sender.holds
        with pytest.raises(BufferError):
            answer.append(0)
        assert await received(theirs, 4 + len(expected)) == b"head" + expected
        answer.append(0)

    run(conversation)
