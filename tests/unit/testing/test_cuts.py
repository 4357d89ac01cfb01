"""What does a connection notice of a cut, and what of its end?"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headrace.core.errors import OperatorError
from headrace.testing.control import Partitions
from headrace.testing.cuts import Cuts

HOST = "127.0.0.1"


class _Client(asyncio.BufferedProtocol):
    """Keeps what comes, as the links of a node read: into a buffer of their own."""

    def __init__(self) -> None:
        self.got = b""
        self.is_lost = False
        self._buffer = bytearray(1024)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.got += bytes(self._buffer[:nbytes])

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True


class _Peer:
    """A server that keeps what comes on each connection, and whether it was closed."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.ended: list[bool] = []
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(self.got)
        self.got.append(b"")
        self.ended.append(False)
        self.writers.append(writer)
        try:
            while data := await reader.read(1024):
                self.got[number] += data
        except ConnectionError:
            pass
        self.ended[number] = True


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop go on until it is so."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0)


class _World:
    """A peer, the cuts from it, and a second way to it that is never cut: what went before on that one has had its time."""

    def __init__(self, cuts: Cuts, peer: _Peer, port: int) -> None:
        self.cuts, self.peer, self.port = cuts, peer, port
        self.address = f"{HOST}:{port}"
        self._loop = asyncio.get_running_loop()

    async def connect(self) -> _Client:
        before = len(self.peer.got)
        _, made = await self.cuts.connect(self._loop.create_connection, _Client, HOST, self.port)
        await until(lambda: len(self.peer.got) > before)
        client = made._inner
        assert isinstance(client, _Client)
        return client

    async def pass_time(self) -> None:
        """There and back on a connection that nobody cuts."""
        number = len(self.peer.got)
        _, other = await self._loop.create_connection(_Client, HOST, self.port)
        other.transport.write(b"?")
        await until(lambda: len(self.peer.got) > number and self.peer.got[number] == b"?")
        self.peer.writers[number].write(b"!")
        await until(lambda: other.got == b"!")
        other.transport.close()


def run(story: Callable[[_World], Awaitable[None]]) -> None:
    """Tell a story with a peer."""

    async def told() -> None:
        peer = _Peer()
        server = await asyncio.start_server(peer.serve, HOST, 0)
        async with server:
            await story(_World(Cuts(), peer, server.sockets[0].getsockname()[1]))
            for writer in peer.writers:
                writer.close()

    asyncio.run(told())


def test_what_is_sent_arrives_when_the_cut_is_healed() -> None:
    """One way: the answers of the peer still come."""

    async def story(world: _World) -> None:
        client = await world.connect()
        world.cuts.set({world.address: "out"})
        client.transport.write(b"one")
        client.transport.write(b"two")
        world.peer.writers[0].write(b"hello")
        await until(lambda: client.got == b"hello")
        await world.pass_time()
        assert world.peer.got[0] == b""
        world.cuts.set({})
        await until(lambda: world.peer.got[0] == b"onetwo")
        client.transport.close()

    run(story)


def test_what_comes_is_heard_when_the_cut_is_healed() -> None:
    """The other way: what is sent arrives; neither bytes nor the end of the connection are heard."""

    async def story(world: _World) -> None:
        client = await world.connect()
        world.cuts.set({world.address: "in"})
        client.transport.write(b"question")
        await until(lambda: world.peer.got[0] == b"question")
        world.peer.writers[0].write(b"answer")
        world.peer.writers[0].close()
        await world.pass_time()
        client.transport.pause_reading()  # its owner's wish and the cut are two reasons not to read
        client.transport.resume_reading()
        await world.pass_time()
        assert (client.got, client.is_lost) == (b"", False)
        world.cuts.set({})
        await until(lambda: client.is_lost)
        assert client.got == b"answer"

    run(story)


@pytest.mark.parametrize("end", ["close", "abort"])
def test_a_peer_that_is_cut_off_does_not_hear_of_the_end(end: str) -> None:
    """The owner has closed it; the peer sees that once there is a way, and what was held back is lost."""

    async def story(world: _World) -> None:
        client = await world.connect()
        world.cuts.set({world.address: "both"})
        client.transport.write(b"lost")
        getattr(client.transport, end)()
        await until(lambda: client.is_lost)
        assert client.transport.is_closing()
        await world.pass_time()
        assert not world.peer.ended[0]
        world.cuts.set({})
        await until(lambda: world.peer.ended[0])
        assert world.peer.got[0] == b""

    run(story)


@pytest.mark.parametrize("way", ["in", "out", "both"])
def test_a_connect_waits_for_a_way_there_and_back(way: str) -> None:
    """Neither refused nor taken."""

    async def story(world: _World) -> None:
        world.cuts.set({world.address: way})
        connecting = asyncio.ensure_future(world.connect())
        await world.pass_time()
        assert not connecting.done()
        assert len(world.peer.got) == 1, "that of passing time"
        world.cuts.set({f"{HOST}:1": way})
        client = await connecting
        client.transport.close()
        await until(lambda: client.is_lost)

    run(story)


def test_each_side_is_told_its_ways() -> None:
    """A one-way cut is `out` for the sender and `in` for the receiver; the third node has nothing to do."""
    addresses = {1: ["h:1", "h:11"], 2: ["h:2"], 3: ["h:3"]}
    partitions = Partitions()
    partitions.cut([1], [2], one_way=True)
    seen = {node_id: partitions.seen_from(node_id, addresses) for node_id in addresses}
    assert seen == {1: {"h:2": "out"}, 2: {"h:1": "in", "h:11": "in"}, 3: {}}
    partitions.cut([2], [1, 3], one_way=False)
    seen = {node_id: partitions.seen_from(node_id, addresses) for node_id in addresses}
    assert seen == {1: {"h:2": "both"}, 2: {"h:1": "both", "h:11": "both", "h:3": "both"}, 3: {"h:2": "both"}}
    assert [partitions.unheard(node_id) for node_id in addresses] == [(2,), (1, 3), (2,)]
    partitions.heal()
    assert [partitions.seen_from(node_id, addresses) for node_id in addresses] == [{}, {}, {}]


def test_no_node_is_cut_off_from_itself() -> None:
    """Named on both sides."""
    with pytest.raises(OperatorError, match="node 2 cannot be cut off from itself"):
        Partitions().cut([1, 2], [2], one_way=False)
